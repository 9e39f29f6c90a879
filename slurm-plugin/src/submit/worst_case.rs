//! The most a job may come to cost, which is what funds must cover.

use market::amount::{Amount, MilliGpus, Price};
use market::bid::Bid;
use market::metering::{PRICE_WINDOW_S, earmark_ceil, escrow_horizon_s};
use market::request::{Gpus, parse_array};
use market_api::config::ArrayEarmark;

use super::Case;
use super::refusal::Refusal;
use crate::snapshot::{Partition, Snapshot};

/// A job's time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Walltime {
    /// Not given: the partition's.
    #[default]
    OfPartition,
    Minutes(u32),
    Unlimited,
}

impl Walltime {
    /// The limit that holds in a partition: the job's, else the partition's default, else its maximum.
    pub fn limit_s(self, partition: Option<&Partition>) -> Option<i64> {
        let minutes = match self {
            Self::Minutes(minutes) => Some(minutes),
            Self::Unlimited => None,
            Self::OfPartition => partition.and_then(|of| of.default_time_min.or(of.max_time_min)),
        };
        minutes.map(|minutes| i64::from(minutes) * 60)
    }
}

/// Earmark of one task times the tasks that must be covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorstCase {
    pub account: String,
    pub amount: Amount,
    pub gpus: u32,
    pub horizon_s: i64,
    pub limit: Price,
    pub tasks: u64,
}

impl Case<'_> {
    pub(super) fn worst_case(&self, bid: Bid, gpus: &Gpus, account: String) -> Result<WorstCase, Refusal> {
        let tasks = self.tasks()?;
        let gpus = u32::try_from(gpus.total()).map_err(|_| Refusal::beyond_count())?;
        let horizon_s = self.horizon_s();
        let amount = earmark_ceil(bid.limit, MilliGpus::from_gpus(gpus), horizon_s)
            .ok()
            .and_then(|of_task| of_task.micros().checked_mul(i64::try_from(tasks).ok()?))
            .map(Amount::from_micros)
            .ok_or_else(Refusal::beyond_count)?;
        Ok(WorstCase { account, amount, gpus, horizon_s, limit: bid.limit, tasks })
    }

    /// Tasks of an array that must be covered at once; 1 without an array.
    fn tasks(&self) -> Result<u64, Refusal> {
        let Some(array) = self.submission.array.as_deref().filter(|array| !array.is_empty()) else {
            return Ok(1);
        };
        let spec = parse_array(array).map_err(Refusal::array)?;
        Ok(match (self.snapshot.settings.array_earmark, spec.at_once) {
            (ArrayEarmark::AtOnce, Some(at_once)) => spec.tasks.min(at_once.into()),
            (ArrayEarmark::AtOnce, None) | (ArrayEarmark::All, _) => spec.tasks,
        })
    }

    /// The job's time limit, in the partition where it is longest; `None`: unlimited, or nobody knows.
    pub(super) fn longest_s(&self) -> Option<i64> {
        let walltime = self.submission.walltime;
        let limits = self.scope.partitions.iter().map(|(_, partition)| walltime.limit_s(Some(partition)));
        limits.reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).unwrap_or_else(|| walltime.limit_s(None))
    }

    /// The longest over the job's partitions.
    fn horizon_s(&self) -> i64 {
        let partitions = self.scope.partitions.iter().map(|(_, partition)| Some(*partition));
        let horizons =
            partitions.map(|partition| horizon_s(self.snapshot, self.submission.walltime, partition));
        horizons.max().unwrap_or_else(|| horizon_s(self.snapshot, self.submission.walltime, None))
    }
}

fn horizon_s(snapshot: &Snapshot, walltime: Walltime, partition: Option<&Partition>) -> i64 {
    let of_partition = partition.and_then(|partition| partition.over_time_limit_s).map(i64::from);
    let over_time_s = of_partition.or(snapshot.settings.over_time_limit_s);
    escrow_horizon_s(walltime.limit_s(partition), over_time_s)
}

/// Hours as an exact decimal where there is a short one, else minutes or seconds: `4 h`, `1.5 h`, `20 min`.
pub(super) fn duration_text(seconds: i64) -> String {
    debug_assert!((0..=PRICE_WINDOW_S).contains(&seconds));
    // 1 h is 3,600 s = 2⁴·3²·5² s: a multiple of 36 s has at most two decimals of an hour.
    if seconds % 36 == 0 {
        let hundredths = seconds / 36;
        let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        return format!("{} h", text.trim_end_matches('0').trim_end_matches('.'));
    }
    if seconds % 60 == 0 { format!("{} min", seconds / 60) } else { format!("{seconds} s") }
}
