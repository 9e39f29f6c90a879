//! A waiting job priced anew, as its user wants it to be: what the change costs more must be there.

use std::borrow::Cow;

use market::amount::Amount;
use market::bid::Bid;
use market::order::Tier;
use market::stamp::Stamp;
use slurm_sys::{ESLURM_ACCOUNTING_POLICY, ESLURM_INVALID_QOS, INFINITE, NO_VAL};

use super::{Change, Judged, differs};
use crate::host::JobRecord;
use crate::submit::{Ask, Refusal, Submission, Walltime, WorstCase, price, shown};

/// Funds that a change needs beyond those that the job's earmark already covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Increase {
    pub(crate) account: String,
    pub(crate) amount: Amount,
}

impl Judged<'_> {
    /// # Errors
    /// What would have been refused at submission.
    pub(super) fn reprice(&self, record: &Stamp) -> Result<Option<Increase>, Refusal> {
        let tier = self.tier_after(record)?;
        if !tier.is_paid() {
            return Ok(None);
        }
        let after = self.cost(record, tier, self.change)?;
        let before = record.tier.is_paid().then(|| self.cost(record, record.tier, &Change::default()));
        // A job that cannot be priced as it stands has no earmark that would cover anything.
        let covered = before.and_then(Result::ok).filter(|before| before.account == after.account);
        let covered = covered.map_or(Amount::ZERO, |before| before.amount);
        let more = after.amount.checked_sub(covered).unwrap_or(after.amount);
        Ok((more > Amount::ZERO).then_some(Increase { account: after.account, amount: more }))
    }

    fn tier_after(&self, record: &Stamp) -> Result<Tier, Refusal> {
        let new = self.change.qos.as_deref();
        let Some(new) = new.filter(|_| differs(&self.change.qos, &self.job.qos, str::eq_ignore_ascii_case))
        else {
            return Ok(record.tier);
        };
        let qos = &self.snapshot.settings.qos;
        if self.job.qos.as_deref().is_some_and(|present| present.eq_ignore_ascii_case(&qos.parked)) {
            let sentence = format!(
                "it is parked, and only an operator lets it go on; sbid explain {} says why",
                self.job.job_id
            );
            return Err(self.refuse(ESLURM_INVALID_QOS, &sentence));
        }
        match qos.tier_of(new) {
            Some(tier) if tier.is_paid() && record.limit == market::amount::Price::ZERO => {
                let sentence = "it bid 0, which buys no other tier; submit it again with --comment=bid:PRICE";
                Err(self.refuse(ESLURM_INVALID_QOS, sentence))
            }
            Some(tier) => Ok(tier),
            None => {
                let tiers = Tier::ALL.map(|tier| qos.of(tier)).join(", ");
                let sentence = format!("QOS {} is no tier of the market; choose one of {tiers}", shown(new));
                Err(self.refuse(ESLURM_INVALID_QOS, &sentence))
            }
        }
    }

    fn cost(&self, record: &Stamp, tier: Tier, change: &Change<'_>) -> Result<WorstCase, Refusal> {
        let submission = submission_after(self.job, change);
        let bid = Bid { limit: record.limit, asked_tier: None };
        price(self.snapshot, &submission, bid, tier).map_err(|refusal| {
            let sentence = refusal.sentence.trim_start_matches("bid: ");
            self.refuse(refusal.code, sentence)
        })
    }

    /// The account has less free than the change would cost more.
    pub(super) fn short(&self, increase: &Increase, free: Amount) -> Refusal {
        let Increase { account, amount } = increase;
        let free = free.max(Amount::ZERO);
        let sentence = format!(
            "the change needs {amount} SU more but account {account} has {free} SU free; change less, or lower the bid: sbid bid {} PRICE",
            self.job.array_job_id.unwrap_or(self.job.job_id)
        );
        self.refuse(ESLURM_ACCOUNTING_POLICY, &sentence)
    }
}

/// The job as it would have been submitted.
fn submission_after<'a>(job: &'a JobRecord<'_>, change: &'a Change<'_>) -> Submission<'a> {
    let text = |new: &'a Option<Cow<'_, str>>, present: &'a Option<Cow<'_, str>>| {
        new.as_deref().or(present.as_deref()).filter(|text| !text.is_empty())
    };
    let owned = |new, present| text(new, present).map(Cow::Borrowed);
    let min_nodes = change.min_nodes.unwrap_or(job.min_nodes);
    let max_nodes = change.max_nodes.or((job.max_nodes > 0).then_some(job.max_nodes));
    Submission {
        uid: job.user_id,
        account: owned(&change.account, &job.account),
        partition: owned(&change.partition, &job.partition),
        walltime: match change.time_limit.unwrap_or(job.time_limit) {
            NO_VAL => Walltime::OfPartition,
            0 | INFINITE => Walltime::Unlimited,
            minutes => Walltime::Minutes(minutes),
        },
        array: array_text(job, change).map(Cow::Owned),
        can_be_requeued: true,
        req_nodes: change.req_nodes.as_deref().map(Cow::Borrowed),
        min_cpus: Some(change.min_cpus.unwrap_or(job.min_cpus)),
        ask: Ask {
            tres_per_job: text(&change.tres_per_job, &job.tres_per_job),
            tres_per_node: text(&change.tres_per_node, &job.tres_per_node),
            tres_per_socket: text(&change.tres_per_socket, &job.tres_per_socket),
            tres_per_task: text(&change.tres_per_task, &job.tres_per_task),
            min_nodes: Some(min_nodes),
            max_nodes: max_nodes.map(|nodes| nodes.max(min_nodes)),
            // One for each node is what slurmctld fills in where nothing was said.
            num_tasks: change.num_tasks.or((job.num_tasks > job.min_nodes).then_some(job.num_tasks)),
            exclusive: job.whole_nodes,
            ..Ask::default()
        },
        ..Submission::default()
    }
}

/// As `--array` would say it of the tasks that wait.
fn array_text(job: &JobRecord<'_>, change: &Change<'_>) -> Option<String> {
    let last = job.array_tasks.checked_sub(1)?;
    let throttle = change.array_throttle.or(job.array_throttle).filter(|throttle| *throttle > 0);
    Some(match throttle {
        Some(throttle) => format!("0-{last}%{throttle}"),
        None => format!("0-{last}"),
    })
}

#[cfg(test)]
mod tests;
