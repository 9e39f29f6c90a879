//! Job ids as people type them.

use std::fmt;
use std::str::FromStr;

use market_api::v1::{JobsRequest, MarketJob};
use thiserror::Error;

use crate::client::{CallError, Market};

/// A job on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobId {
    /// Slurm's own number: a job, or the pending part of an array.
    Plain(u32),
    /// A task of an array as Slurm writes it; its own number is known to the daemon.
    Task { array: u32, task: u32 },
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(job_id) => write!(f, "{job_id}"),
            Self::Task { array, task } => write!(f, "{array}_{task}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no job id; write for example 12, or 12_3 for a task of an array")]
pub(crate) struct JobIdSyntax(String);

impl FromStr for JobId {
    type Err = JobIdSyntax;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || match text.split_once('_') {
            Some((array, task)) => {
                Some(Self::Task { array: number(array).filter(|id| *id > 0)?, task: number(task)? })
            }
            None => number(text).filter(|id| *id > 0).map(Self::Plain),
        };
        read().ok_or_else(|| JobIdSyntax(text.into()))
    }
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Why a job could not be found.
#[derive(Debug, Error)]
pub(crate) enum ResolveError {
    #[error(
        "the market knows no job {array}_{task} of its own; tasks that wait are one order of their array: try {array}"
    )]
    NoSuchTask { array: u32, task: u32 },
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The numbers of these jobs; asks the daemon only where a task of an array is among them.
pub(crate) fn resolve_all(market: &Market, jobs: &[JobId]) -> Result<Vec<u32>, ResolveError> {
    let has_task = jobs.iter().any(|job| matches!(job, JobId::Task { .. }));
    let known = if has_task { market.jobs(JobsRequest::default())?.jobs } else { Vec::new() };
    jobs.iter().map(|job| number_among(&known, job)).collect()
}

/// As [`resolve_all`], of one job.
pub(crate) fn resolve(market: &Market, job: &JobId) -> Result<u32, ResolveError> {
    match *job {
        JobId::Plain(job_id) => Ok(job_id),
        JobId::Task { .. } => number_among(&market.jobs(JobsRequest::default())?.jobs, job),
    }
}

fn number_among(known: &[MarketJob], job: &JobId) -> Result<u32, ResolveError> {
    match *job {
        JobId::Plain(job_id) => Ok(job_id),
        JobId::Task { array, task } => {
            let name = job.to_string();
            let found = known.iter().find(|known| known.job_name == name);
            found.map(|found| found.job_id).ok_or(ResolveError::NoSuchTask { array, task })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_ids_are_read_as_slurm_writes_them() {
        assert_eq!("12".parse(), Ok(JobId::Plain(12)));
        assert_eq!("4294967295".parse(), Ok(JobId::Plain(u32::MAX)));
        assert_eq!("12_3".parse(), Ok(JobId::Task { array: 12, task: 3 }));
        assert_eq!("12_0".parse(), Ok(JobId::Task { array: 12, task: 0 }));
    }

    #[test]
    fn other_texts_are_no_job_ids() {
        for text in [
            "",
            "0",
            "0_1",
            "-1",
            "+1",
            "12_",
            "_3",
            "12_3_4",
            "12+0",
            "12.batch",
            "4294967296",
            "12_[1-3]",
            "x",
        ] {
            assert_eq!(text.parse::<JobId>(), Err(JobIdSyntax(text.into())), "{text:?}");
        }
    }
}
