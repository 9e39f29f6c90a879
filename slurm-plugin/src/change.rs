//! What job_modify lets pass: a pure judgement of a change against the job as it is.
//!
//! Changes that lower or repeat pass. What may raise the worst case that was checked at submission is priced anew if the
//! user changes a job of their own that waits; else it needs an operator. The bid itself moves only through `sbid bid`.

mod reprice;

use std::borrow::Cow;

use market::amount::Amount;
use market::bid;
use market::request::gpus_of_request;
use market::stamp::Stamp;
use market_api::config::{ArrayEarmark, NoBid};
use slurm_sys::{
    ESLURM_ACCESS_DENIED, ESLURM_BAD_TASK_COUNT, ESLURM_INVALID_ACCOUNT, ESLURM_INVALID_GRES,
    ESLURM_INVALID_NODE_COUNT, ESLURM_INVALID_QOS, ESLURM_INVALID_TIME_LIMIT,
    ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE, ESLURM_TOO_MANY_REQUESTED_CPUS, INFINITE, NO_VAL,
};

pub(crate) use self::reprice::Increase;
use crate::host::JobRecord;
use crate::snapshot::Snapshot;
use crate::submit::{Refusal, Walltime, hosts_named_max, shown};

/// The fields of a change that the market cares about; `None`: unchanged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Change<'a> {
    /// Operator, SlurmUser or root.
    pub(crate) by_operator: bool,
    /// Who asks for it; Slurm judges only later whether they may.
    pub(crate) by_uid: u32,
    pub(crate) comment: Option<&'a [u8]>,
    pub(crate) admin_comment: Option<Cow<'a, str>>,
    pub(crate) account: Option<Cow<'a, str>>,
    pub(crate) partition: Option<Cow<'a, str>>,
    pub(crate) qos: Option<Cow<'a, str>>,
    /// Minutes or INFINITE.
    pub(crate) time_limit: Option<u32>,
    pub(crate) min_nodes: Option<u32>,
    pub(crate) max_nodes: Option<u32>,
    /// The nodes that the job must have, as a host list.
    pub(crate) req_nodes: Option<Cow<'a, str>>,
    pub(crate) min_cpus: Option<u32>,
    pub(crate) num_tasks: Option<u32>,
    /// ArrayTaskThrottle; 0: none.
    pub(crate) array_throttle: Option<u32>,
    pub(crate) tres_per_job: Option<Cow<'a, str>>,
    pub(crate) tres_per_node: Option<Cow<'a, str>>,
    pub(crate) tres_per_socket: Option<Cow<'a, str>>,
    pub(crate) tres_per_task: Option<Cow<'a, str>>,
}

/// Judges a change of `job`; gives what funds must cover for it to pass. `is_available`: the snapshot is the daemon's and
/// fresh.
///
/// # Errors
/// The refusal, its sentence made for the log too: Slurm 22.05 shows the user only what the code stands for.
pub(crate) fn judge(
    snapshot: &Snapshot,
    job: &JobRecord<'_>,
    change: &Change<'_>,
    is_available: bool,
) -> Result<Option<Increase>, Refusal> {
    let of_record = change
        .admin_comment
        .as_deref()
        .and_then(stamp)
        .or_else(|| job.admin_comment.as_deref().and_then(stamp));
    let judged = Judged { snapshot, job, change };
    match of_record {
        Some(of_record) => {
            judged.check_comment(Some(&of_record))?;
            if change.by_operator {
                return Ok(None);
            }
            match judged.check_terms() {
                Ok(()) => Ok(None),
                Err(_) if is_available && job.pending && change.by_uid == job.user_id => {
                    judged.reprice(&of_record)
                }
                Err(refusal) => Err(refusal),
            }
        }
        None if change.by_operator => Ok(None),
        None => {
            judged.check_comment(None)?;
            judged.check_market_qos()?;
            judged.check_gpus_without_bid()?;
            Ok(None)
        }
    }
}

/// The refusal of a change whose cost the account cannot bear.
pub(crate) fn short(
    snapshot: &Snapshot,
    job: &JobRecord<'_>,
    change: &Change<'_>,
    increase: &Increase,
    free: Amount,
) -> Refusal {
    Judged { snapshot, job, change }.short(increase, free)
}

fn stamp(admin_comment: &str) -> Option<Stamp> {
    Stamp::find(admin_comment).map(|(stamp, _)| stamp)
}

struct Judged<'a> {
    snapshot: &'a Snapshot,
    job: &'a JobRecord<'a>,
    change: &'a Change<'a>,
}

impl Judged<'_> {
    /// A comment may be changed at will, but a token in it moves nothing: one that says something new is refused, so
    /// that nobody believes it did.
    fn check_comment(&self, of_record: Option<&Stamp>) -> Result<(), Refusal> {
        let Some(comment) = self.change.comment.filter(|comment| Some(*comment) != self.job.comment) else {
            return Ok(());
        };
        let new = match bid::find_bytes(comment) {
            Ok(None) => return Ok(()),
            Ok(Some(new)) => new,
            Err(error) => return Err(self.refuse(ESLURM_ACCESS_DENIED, &error.to_string())),
        };
        let present = self.job.comment.and_then(|comment| bid::find_bytes(comment).ok().flatten());
        if present == Some(new)
            || of_record.is_some_and(|record| {
                record.limit == new.limit && new.asked_tier.is_none_or(|tier| tier == record.tier)
            })
        {
            return Ok(());
        }
        let job_id = self.job.array_job_id.unwrap_or(self.job.job_id);
        let sentence = format!("a comment does not change the bid; use: sbid bid {job_id} {new}");
        Err(self.refuse(ESLURM_ACCESS_DENIED, &sentence))
    }

    fn check_terms(&self) -> Result<(), Refusal> {
        let Self { job, change, .. } = self;
        if self.raises_time_limit() {
            return Err(self.raised(ESLURM_INVALID_TIME_LIMIT, "time limit"));
        }
        if differs(&change.account, &job.account, str::eq_ignore_ascii_case) {
            return Err(self.moved(ESLURM_INVALID_ACCOUNT, "account"));
        }
        if differs(&change.partition, &job.partition, str::eq) {
            return Err(self.moved(ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE, "partition"));
        }
        if differs(&change.qos, &job.qos, str::eq_ignore_ascii_case) {
            return Err(self.moved(ESLURM_INVALID_QOS, "QOS"));
        }
        if self.gpu_requests_changed().next().is_some() {
            return Err(self.moved(ESLURM_INVALID_GRES, "GPU request"));
        }
        if self.raises_nodes() {
            return Err(self.raised(ESLURM_INVALID_NODE_COUNT, "number of nodes"));
        }
        if self.spreads_over_more_nodes() {
            return Err(self.raised(ESLURM_TOO_MANY_REQUESTED_CPUS, "number of CPUs"));
        }
        if change.num_tasks.is_some_and(|tasks| tasks > job.num_tasks) {
            return Err(self.raised(ESLURM_BAD_TASK_COUNT, "number of tasks"));
        }
        if self.raises_throttle() {
            return Err(self.raised(ESLURM_BAD_TASK_COUNT, "number of tasks at once"));
        }
        Ok(())
    }

    /// The new texts.
    fn gpu_requests_changed(&self) -> impl Iterator<Item = &str> {
        let Self { job, change, .. } = self;
        [
            (&change.tres_per_job, &job.tres_per_job),
            (&change.tres_per_node, &job.tres_per_node),
            (&change.tres_per_socket, &job.tres_per_socket),
            (&change.tres_per_task, &job.tres_per_task),
        ]
        .into_iter()
        .filter(|(new, present)| differs(new, present, str::eq))
        .filter_map(|(new, _)| new.as_deref())
    }

    /// As a number or by naming them.
    fn raises_nodes(&self) -> bool {
        let named = self.change.req_nodes.as_deref().map(hosts_named_max);
        let nodes_max = self.job.max_nodes.max(self.job.min_nodes);
        [self.change.min_nodes, self.change.max_nodes, named]
            .into_iter()
            .flatten()
            .any(|nodes| nodes > nodes_max)
    }

    /// Where nothing bounds the nodes, more CPUs are had from more of them, each with the GPUs of a node.
    fn spreads_over_more_nodes(&self) -> bool {
        self.job.max_nodes == 0 && self.change.min_cpus.is_some_and(|cpus| cpus > self.job.min_cpus)
    }

    /// INFINITE is the greatest of the values, so the greater one is the longer time.
    fn raises_time_limit(&self) -> bool {
        let Some(new) = self.change.time_limit else { return false };
        match self.job.time_limit {
            NO_VAL => Some(new) > self.time_limit_of_partition(),
            present => new > present,
        }
    }

    /// The longest over the job's partitions; `None` if the snapshot has none of them.
    fn time_limit_of_partition(&self) -> Option<u32> {
        let names = self.job.partition.as_deref().unwrap_or_default();
        let partitions = names.split(',').filter_map(|name| self.snapshot.partitions.get(name.trim()));
        let minutes = |limit_s: i64| u32::try_from(limit_s / 60).unwrap_or(INFINITE);
        partitions.map(|of| Walltime::OfPartition.limit_s(Some(of)).map_or(INFINITE, minutes)).max()
    }

    /// Only what was covered counts: with all tasks covered, any number of them may run at once. Slurm sets the
    /// throttle before it asks (22.05, 24.11): there the record has the new one already, and nothing is left to refuse
    /// (job_mgr.c: `_update_job`).
    fn raises_throttle(&self) -> bool {
        let is_at_once = self.snapshot.settings.array_earmark == ArrayEarmark::AtOnce;
        let unbounded = |throttle: u32| if throttle == 0 { u32::MAX } else { throttle };
        let raises = |new, present| unbounded(new) > unbounded(present);
        is_at_once
            && matches!((self.change.array_throttle, self.job.array_throttle), (Some(new), Some(present)) if raises(new, present))
    }

    fn check_market_qos(&self) -> Result<(), Refusal> {
        match self.change.qos.as_deref().and_then(|qos| self.snapshot.market_qos_in(qos)) {
            Some(qos) if differs(&self.change.qos, &self.job.qos, str::eq_ignore_ascii_case) => {
                let sentence = format!(
                    "QOS {} is for jobs with a bid; use: sbid bid {} PRICE",
                    shown(qos),
                    self.job.job_id
                );
                Err(self.refuse(ESLURM_INVALID_QOS, &sentence))
            }
            _ => Ok(()),
        }
    }

    /// What would have been refused at submission does not come in later: GPUs for a job of a market QOS, or for any
    /// where the site wants a bid or a tier for them.
    fn check_gpus_without_bid(&self) -> Result<(), Refusal> {
        let is_free_to_take = self.snapshot.settings.no_bid == NoBid::Unchanged
            && self.job.qos.as_deref().and_then(|qos| self.snapshot.market_qos_in(qos)).is_none();
        let asks_for_gpus = |text: &str| gpus_of_request(text).map_or(true, |gpus| !gpus.is_empty());
        if is_free_to_take
            || !(self.gpu_requests_changed().any(asks_for_gpus) || self.takes_gpus_with_nodes())
        {
            return Ok(());
        }
        let sentence =
            "GPUs cannot be added to a job without a bid; submit it again with --comment=bid:PRICE";
        Err(self.refuse(ESLURM_INVALID_GRES, sentence))
    }

    /// Moves to nodes whose GPUs come with them.
    fn takes_gpus_with_nodes(&self) -> bool {
        let Some(new) = self.change.partition.as_deref() else { return false };
        let partitions = new.split(',').filter_map(|name| self.snapshot.partitions.get(name.trim()));
        differs(&self.change.partition, &self.job.partition, str::eq)
            && partitions.into_iter().any(|of| !of.pools.is_empty() && (of.exclusive || self.job.whole_nodes))
    }

    fn raised(&self, code: u32, what: &str) -> Refusal {
        self.refuse(
            code,
            &format!("the {what} of a job with a bid cannot be raised; submit it again, or ask an operator"),
        )
    }

    fn moved(&self, code: u32, what: &str) -> Refusal {
        self.refuse(
            code,
            &format!("the {what} of a job with a bid cannot be changed; submit it again, or ask an operator"),
        )
    }

    fn refuse(&self, code: u32, sentence: &str) -> Refusal {
        Refusal { code, sentence: format!("bid: job {}: {sentence}", self.job.job_id) }
    }
}

fn differs(
    new: &Option<Cow<'_, str>>,
    present: &Option<Cow<'_, str>>,
    is_same: fn(&str, &str) -> bool,
) -> bool {
    new.as_deref().is_some_and(|new| !is_same(new, present.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests;
