//! A waiting job without a bid enters the market: `sbid bid` on what was submitted before the product was switched on.
//!
//! Slurm has the last word, and the engine waits for nobody: whoever asked is answered when the controller's thread
//! tells what Slurm said. The order itself is made at first sight of the stamp, as ever.

use std::collections::BTreeMap;
use std::str::FromStr;

use market::amount::Amount;
use market::order::Tier;
use market::stamp::Stamp;
use market_api::v1;
use prost::Message;
use uuid::Uuid;

use super::line::{line_of, place_in};
use super::{Engine, commands, pass, waiting};
use crate::controller::{Entered, Entry};
use crate::facts::{Facts, Unpriced, WaitingJob};
use crate::query::{Answer, Caller, QueryError, Reply};

/// What was asked of Slurm.
#[derive(Debug)]
pub(super) struct Entering {
    caller: Caller,
    /// Of the record, which may be one task of the array that was asked for.
    job_id: u32,
    request: v1::ChangeBidRequest,
    account: String,
    earmark: Amount,
    /// Gone once whoever asked was answered.
    answer: Option<Answer>,
}

/// By the uuid of the stamp.
pub(super) type AllEntering = BTreeMap<String, Entering>;

impl Engine {
    /// Asks Slurm to take a job that carries no bid into the market; `None` if the request is about no such job.
    /// Returns the uuid of its stamp.
    pub(super) fn enter(
        &mut self,
        caller: Caller,
        request: &v1::ChangeBidRequest,
    ) -> Result<Option<String>, QueryError> {
        let has_bid =
            |waiting: &waiting::Waiting| waiting.records.iter().any(|(id, _)| *id == request.job_id);
        if self.waiting.iter().any(has_bid) || self.was_answered(&request.idempotency_key)? {
            return Ok(None);
        }
        let Some(job) = unpriced(self.facts()?, request.job_id) else { return Ok(None) };
        self.check_in_service()?;
        let limit = commands::limit_of(request)?;
        let tier = tier_of(request)?;
        self.check_may_enter(caller, job, self.config.tiers.of(tier))?;
        let uuid = Uuid::new_v4().to_string();
        let stamp = Stamp { uuid: uuid.clone(), limit, tier, signal: None, unavailable: false };
        let waiting = self.candidate(job, stamp.clone())?;
        let changed = commands::Changed { waiting, promised: Amount::ZERO };
        self.check_terms(std::slice::from_ref(&changed))?;
        let candidate = changed.waiting;

        let entering = Entering {
            caller,
            job_id: job.identity.job_id,
            request: request.clone(),
            account: candidate.account,
            earmark: candidate.earmark,
            answer: None,
        };
        self.controller.enter(Entry {
            job_id: job.identity.job_id,
            submitted_s: job.identity.submitted_s,
            stamp,
            qos: self.config.tiers.of(tier).into(),
        });
        self.entering.insert(uuid.clone(), entering);
        Ok(Some(uuid))
    }

    fn check_may_enter(
        &self,
        caller: Caller,
        job: &WaitingJob<Unpriced>,
        of_tier: &str,
    ) -> Result<(), QueryError> {
        let identity = &job.identity;
        let id = &job.display_id;
        if identity.uid != caller.uid && !self.is_operator(caller) {
            return Err(QueryError::NotAllowed(format!(
                "job {id} belongs to {}; only they or an operator may bid for it",
                identity.user
            )));
        }
        if let Some(obstacle) = identity.stamp.obstacle {
            return Err(QueryError::Refused(format!("{obstacle}; job {id} stays with Slurm alone")));
        }
        if self.entering.values().any(|entering| entering.job_id == identity.job_id) {
            return Err(QueryError::Refused(format!("job {id} is just entering the market; try again")));
        }
        let association = self.facts()?.cluster.association_of(identity);
        let Some(association) =
            association.filter(|association| association.qos.iter().any(|qos| qos == of_tier))
        else {
            return Err(QueryError::Refused(format!(
                "user {0} may not use QOS {of_tier} in account {1}; ask for: sacctmgr modify user {0} where account={1} set qos+={of_tier}",
                identity.user, identity.account
            )));
        };
        let default = association.default_qos();
        let qos = identity.qos.as_deref().unwrap_or_default();
        if ![default, of_tier, ""].contains(&qos) {
            return Err(QueryError::Refused(format!(
                "job {id} asks for QOS {qos}, and the bid means QOS {of_tier}; choose one: scontrol update JobId={} QOS={default}, then bid again",
                identity.job_id
            )));
        }
        Ok(())
    }

    /// The job as it would stand in the market.
    fn candidate(&self, job: &WaitingJob<Unpriced>, stamp: Stamp) -> Result<waiting::Waiting, QueryError> {
        let job = job.clone().stamped(stamp);
        let order = pass::new_order(&job.identity);
        let policy = self.config.array_earmark;
        let candidate = waiting::candidate(&order, &job, self.facts()?, &self.terms, policy);
        let is_priced = |pool: &String| self.terms.pools.contains_key(pool);
        if !candidate.asked.iter().all(|asked| asked.pools.iter().any(is_priced)) {
            return Err(QueryError::Refused(format!(
                "no GPUs of those that job {} asks for are priced; it stays with Slurm alone",
                job.display_id
            )));
        }
        Ok(candidate)
    }

    /// Promised to jobs of which Slurm has not answered yet.
    pub(super) fn held_by_entries(&self, account: &str) -> Amount {
        let of_account = self.entering.values().filter(|entering| entering.account == account);
        of_account.fold(Amount::ZERO, |sum, entering| {
            sum.checked_add(entering.earmark).unwrap_or(Amount::from_micros(i64::MAX))
        })
    }

    /// Whoever asked is answered when Slurm has said what it does.
    pub(super) fn answer_when_entered(&mut self, uuid: &str, answer: Answer) {
        if let Some(entering) = self.entering.get_mut(uuid) {
            entering.answer = Some(answer);
        }
    }

    /// Slurm has said what it does.
    pub(super) fn take_entered(&mut self, entered: Entered) {
        let Some(entering) = self.entering.remove(&entered.uuid) else { return };
        let reply = match entered.outcome {
            Ok(()) => self.note_entered(&entered.uuid, &entering).map(Reply::ChangeBid),
            Err(reason) => {
                let id = entering.request.job_id;
                Err(QueryError::Refused(format!("job {id} did not enter the market: {reason}")))
            }
        };
        if let Some(answer) = entering.answer {
            // Whoever asked may have gone.
            let _ = answer.send(reply);
        }
    }

    fn note_entered(&mut self, uuid: &str, entering: &Entering) -> Result<v1::ChangeBidReply, QueryError> {
        let request = &entering.request;
        let order = self.book.order_by_uuid.get(uuid).copied();
        let place = order.map(|order| place_in(&line_of(&self.waiting, order), order));
        let reply = v1::ChangeBidReply {
            old_limit_usu: 0,
            limit_usu: request.limit_usu,
            rank: place.map_or(0, |place| place.rank),
            of: place.map_or(0, |place| place.of),
            entered: true,
        };
        let now_s = (self.clock)();
        let summary = commands::summary_of(request);
        let tx = self.store.begin()?;
        let key = &request.idempotency_key;
        tx.insert_answer(key, entering.caller.uid, now_s, &summary, &reply.encode_to_vec())?;
        tx.commit()?;
        Ok(reply)
    }
}

/// That of the request, else standard. A job without a bid pays nothing as it is.
fn tier_of(request: &v1::ChangeBidRequest) -> Result<Tier, QueryError> {
    let tier = Some(request.tier.as_str()).filter(|name| !name.is_empty());
    let tier = tier.map_or(Ok(Tier::Standard), Tier::from_str);
    tier.ok().filter(|tier| *tier != Tier::Free).ok_or_else(|| {
        QueryError::Invalid(format!(
            "tier {:?} is none that a bid can buy; take urgent, standard or spot",
            request.tier
        ))
    })
}

/// The waiting job without a bid that has this id; of an array also the array's.
pub(super) fn unpriced(facts: &Facts, job_id: u32) -> Option<&WaitingJob<Unpriced>> {
    let by_record = facts.unpriced.iter().find(|job| job.identity.job_id == job_id);
    by_record.or_else(|| facts.unpriced.iter().find(|job| job.identity.array_job_id == job_id))
}
