//! Eviction of a spot job for a waiting one: warning, grace, and its GPUs are taken. The slurmctld thread acts; here is
//! what is wanted of it, from the ledger and Slurm's facts alone, so that a restart at any moment goes on where it was.

use market::order::Tier;
use market_api::v1;
use prost::Message as _;

use super::Engine;
use super::pass::{Pass, PassError};
use super::waiting::Waiting;
use crate::eviction::{Act, ActOutcome, Acted, Step};
use crate::facts::{Facts, Run};
use crate::model::{Eviction, OrderRow, Segment};
use crate::query::{Caller, QueryError};
use crate::store::StoreError;

impl Engine {
    /// Starts an eviction that an operator asks for. Rank, gap and minimum run are theirs to judge.
    pub(super) fn evict(
        &mut self,
        caller: Caller,
        request: &v1::EvictRequest,
    ) -> Result<v1::EvictReply, QueryError> {
        if !self.is_operator(caller) {
            let sentence = "only root, SlurmUser and Slurm operators may evict; ask one of them";
            return Err(QueryError::NotAllowed(sentence.into()));
        }
        let summary = format!("evict {} for {}", request.job_id, request.beneficiary_job_id);
        if let Some(first) = self.first_answer(caller, &request.idempotency_key, &summary)? {
            return first;
        }
        let (victim, run) = self.evictable(request.job_id)?;
        let beneficiary = self.beneficiary(request.beneficiary_job_id)?;
        let signal = run.identity.stamp.signal;
        let reply = v1::EvictReply {
            job_name: victim.display_id.clone(),
            beneficiary_name: beneficiary.display_id.clone(),
            grace_s: u32::try_from(self.grace_s(run)).unwrap_or(u32::MAX),
            signal: signal.map_or_else(String::new, |signal| signal.to_string()),
            is_requeued: run.can_be_requeued,
        };
        let now_s = (self.clock)();
        let eviction = Eviction {
            row: 0,
            segment: victim.row,
            beneficiary: beneficiary.order,
            asked_s: now_s,
            grace_until_s: None,
            outcome: None,
        };
        let tx = self.store.begin()?;
        let eviction = tx.insert_eviction(eviction, caller.uid)?;
        tx.insert_answer(&request.idempotency_key, caller.uid, now_s, &summary, &reply.encode_to_vec())?;
        tx.commit()?;
        self.book.evictions.insert(eviction.row, eviction);
        self.post_evictions();
        Ok(reply)
    }

    fn evictable(&self, job_id: u32) -> Result<(&Segment, &Run), QueryError> {
        let segment = self.book.segments.values().find(|s| s.job_id == job_id && s.settled.is_none());
        let run = segment.and_then(|segment| run_of(self.facts.as_ref()?, segment));
        let (Some(segment), Some(run)) = (segment, run) else {
            let sentence = format!("job {job_id} does not run with a bid; sbid jobs shows what does");
            return Err(QueryError::NotFound(sentence));
        };
        if segment.tier != Tier::Spot {
            return Err(QueryError::Refused(format!(
                "job {job_id} is of tier {}, and only spot jobs can be evicted; sbid jobs shows them",
                segment.tier
            )));
        }
        match self.book.evictions.values().find(|eviction| eviction.segment == segment.row) {
            None => Ok((segment, run)),
            Some(eviction) => Err(QueryError::Refused(format!(
                "job {job_id} already gives way to job {}; sbid explain {job_id} shows when",
                self.name_of(eviction.beneficiary)
            ))),
        }
    }

    fn beneficiary(&self, job_id: u32) -> Result<&Waiting, QueryError> {
        let by_record = |waiting: &&Waiting| waiting.records.iter().any(|(id, _)| *id == job_id);
        let waiting = self.waiting.iter().find(by_record);
        let waiting = waiting.or_else(|| self.waiting.iter().find(|waiting| waiting.id.job_id == job_id));
        match waiting {
            Some(waiting) if waiting.is_in_line() => Ok(waiting),
            Some(_) => Err(QueryError::Refused(format!(
                "job {job_id} could not use the GPUs now; sbid explain {job_id} says why it waits"
            ))),
            None => Err(QueryError::NotFound(format!(
                "job {job_id} does not wait with a bid; sbid jobs shows what does"
            ))),
        }
    }

    /// A job that asked for its signal earlier than the usual grace gets that time, within bounds.
    fn grace_s(&self, run: &Run) -> i64 {
        let asked_s = run.identity.stamp.signal.map_or(0, |signal| i64::from(signal.lead_s));
        let terms = &self.config.eviction;
        asked_s.min(terms.grace_most_s.into()).max(terms.grace_s.into())
    }

    fn name_of(&self, order: OrderRow) -> String {
        let waiting = self.waiting.iter().find(|waiting| waiting.order == order);
        let by_id = || self.book.orders.get(&order).map(|order| order.job_id.to_string());
        waiting.map(|waiting| waiting.display_id.clone()).or_else(by_id).unwrap_or_default()
    }

    /// Tells the slurmctld thread what is to be done now; a step that was told is told again only once it was answered.
    pub(super) fn post_evictions(&mut self) {
        let Some(facts) = &self.facts else { return };
        let mut acts = Vec::new();
        for eviction in self.book.evictions.values() {
            let segment = self.book.segments.get(&eviction.segment);
            let Some((segment, run)) = segment.and_then(|segment| Some((segment, run_of(facts, segment)?)))
            else {
                continue;
            };
            if let Some(step) = self.next_step(eviction, run, facts.as_of_s) {
                let (job_id, display_id) = (segment.job_id, segment.display_id.clone());
                acts.push(Act { eviction: eviction.row, job_id, display_id, step });
            }
        }
        for act in acts {
            if self.told.insert(act.eviction) {
                self.controller.act(act);
            }
        }
    }

    fn next_step(&self, eviction: &Eviction, run: &Run, as_of_s: i64) -> Option<Step> {
        if eviction.outcome.is_some() {
            return None;
        }
        let buyer = self.name_of(eviction.beneficiary);
        if !has_use(&self.waiting, eviction) {
            let message = format!("bid: job {buyer} does not need these GPUs any more; this job stays");
            return Some(Step::CallOff { message });
        }
        let Some(grace_until_s) = eviction.grace_until_s else {
            let what = if run.can_be_requeued { "requeued" } else { "cancelled" };
            let message = format!(
                "bid: outbid by job {buyer}: this spot job is {what} in {} s; save what it has done",
                self.grace_s(run)
            );
            return Some(Step::Warn { message, signal: run.identity.stamp.signal });
        };
        (as_of_s >= grace_until_s).then_some(Step::TakeGpus { can_be_requeued: run.can_be_requeued })
    }

    /// Writes down what the slurmctld thread has done. What cannot be written is done again: it is said twice then.
    pub(super) fn take_acted(&mut self, acted: &Acted) {
        self.told.remove(&acted.eviction);
        if let Err(error) = self.note_acted(acted) {
            self.note_trouble(&error);
        }
    }

    fn note_acted(&mut self, acted: &Acted) -> Result<(), StoreError> {
        let Some(eviction) = self.book.evictions.get(&acted.eviction).cloned() else { return Ok(()) };
        let now_s = (self.clock)();
        let segment = self.book.segments.get(&eviction.segment);
        let run = segment.and_then(|segment| run_of(self.facts.as_ref()?, segment));
        let grace_s = run.map_or(i64::from(self.config.eviction.grace_s), |run| self.grace_s(run));
        let tx = self.store.begin()?;
        let changed = match acted.outcome {
            ActOutcome::Failed => return Ok(()),
            ActOutcome::Warned => {
                Some(Eviction { grace_until_s: Some(now_s.saturating_add(grace_s)), ..eviction })
            }
            ActOutcome::Requeued => Some(Eviction { outcome: Some("requeued".into()), ..eviction }),
            ActOutcome::Cancelled => Some(Eviction { outcome: Some("cancelled".into()), ..eviction }),
            ActOutcome::CalledOff => {
                tx.close_eviction(eviction.row, now_s, "called_off")?;
                None
            }
        };
        if let Some(changed) = &changed {
            tx.update_eviction(changed)?;
        }
        tx.commit()?;
        match changed {
            Some(changed) => self.book.evictions.insert(changed.row, changed),
            None => self.book.evictions.remove(&acted.eviction),
        };
        Ok(())
    }

    /// What `sbid explain` tells of a running job that gives way.
    pub(super) fn eviction_sentence(&self, segment: &Segment, as_of_s: i64) -> Option<String> {
        let eviction = self.book.evictions.values().find(|eviction| eviction.segment == segment.row)?;
        let buyer = self.name_of(eviction.beneficiary);
        let run = self.facts.as_ref().and_then(|facts| run_of(facts, segment));
        let what = if run.is_some_and(|run| run.can_be_requeued) { "requeued" } else { "cancelled" };
        Some(match (&eviction.outcome, eviction.grace_until_s) {
            (Some(outcome), _) => format!("Outbid by job {buyer}, it is being {outcome}."),
            (None, Some(until_s)) => {
                format!("Outbid by job {buyer}, it is {what} in {} s.", (until_s - as_of_s).max(0))
            }
            (None, None) => format!("Outbid by job {buyer}, it is about to be warned and then {what}."),
        })
    }
}

impl Pass<'_> {
    /// Closes evictions of runs that are over.
    pub(crate) fn close_evictions(&mut self) -> Result<(), PassError> {
        let runs_on = |eviction: &&Eviction| {
            self.book.segments.get(&eviction.segment).is_some_and(|segment| segment.settled.is_none())
        };
        let over: Vec<Eviction> =
            self.book.evictions.values().filter(|eviction| !runs_on(eviction)).cloned().collect();
        for eviction in over {
            let outcome = eviction.outcome.as_deref().unwrap_or("ended_by_itself");
            self.tx.close_eviction(eviction.row, self.as_of_s, outcome)?;
            self.book.evictions.remove(&eviction.row);
        }
        Ok(())
    }
}

/// The beneficiary still waits and could start.
fn has_use(waiting: &[Waiting], eviction: &Eviction) -> bool {
    waiting.iter().any(|waiting| waiting.order == eviction.beneficiary && waiting.is_in_line())
}

fn run_of<'a>(facts: &'a Facts, segment: &Segment) -> Option<&'a Run> {
    let key = (segment.job_id, segment.start_s);
    facts.runs.iter().find(|run| run.key() == key && run.end.is_none())
}
