//! One run of a job as slurmdbd keeps it.

use std::fmt;

use slurm_sys as sys;

use crate::state::{BaseState, TimeLimit};
use crate::text::{number, seconds, text};

/// One record of slurmdbd: a job makes a new one at each requeue and each change of size.
///
/// Times are in seconds since the epoch. The default has nothing set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// Row of the database; never used twice within a cluster.
    pub record_id: u64,
    pub cluster: String,
    pub job_id: u32,
    pub array_job_id: Option<u32>,
    pub array_task_id: Option<u32>,
    /// Id of the leader; 0 outside heterogeneous jobs.
    pub het_job_id: u32,
    pub het_job_offset: Option<u32>,
    pub name: Option<String>,
    pub account: Option<String>,
    /// `None` if the association has been deleted.
    pub user: Option<String>,
    pub uid: u32,
    pub association_id: u32,
    pub partition: Option<String>,
    /// Its name; `None` if the job had none or it has been deleted.
    pub qos: Option<String>,
    pub reservation: Option<String>,
    /// Host list; `None` if the run never had nodes.
    pub nodes: Option<String>,
    pub state: RunState,
    pub submit_s: i64,
    pub eligible_s: Option<i64>,
    /// `None` if the run did not start. slurmdbd gives a job that was cancelled while it waited its end
    /// as start; `tres_alloc` is `None` then.
    pub start_s: Option<i64>,
    /// `None` while pending or running.
    pub end_s: Option<i64>,
    /// Seconds suspended within this run.
    pub suspended_s: i64,
    pub time_limit: TimeLimit,
    /// With names, in the form of slurmctld: `cpu=1,mem=1000M,node=1,billing=1,gres/gpu=8`.
    pub tres_req: Option<String>,
    /// The same of the allocation; `None` if there was none.
    pub tres_alloc: Option<String>,
    /// Only with `AccountingStoreFlags=job_comment`, and once the run has ended.
    pub comment: Option<String>,
    pub admin_comment: Option<String>,
    pub priority: u32,
    /// As `wait` gives it.
    pub exit_code: u32,
}

impl Run {
    /// What names this run for [`Connection::set_admin_comment`](super::Connection); `None` until it
    /// has ended.
    pub fn key(&self) -> Option<RunKey> {
        Some(RunKey {
            job_id: self.job_id,
            array: self.array_job_id.zip(self.array_task_id),
            submit_s: self.submit_s,
            end_s: self.end_s?,
            state: self.state,
        })
    }

    /// When this run began to use its allocation, in seconds since the epoch.
    ///
    /// After a change of size slurmdbd keeps the start of the job and puts the time of the change into
    /// `submit_s`; without one the start is never before the submission. Time metered is from here to
    /// `end_s`, less `suspended_s`, which counts this run only.
    pub fn segment_start_s(&self) -> Option<i64> {
        self.start_s.map(|start| start.max(self.submit_s))
    }

    /// # Safety
    /// All pointers of `record` are NULL or valid.
    pub(super) unsafe fn from_record(
        record: &sys::slurmdb_job_rec_t,
        qos: Option<String>,
        tres_req: Option<String>,
        tres_alloc: Option<String>,
    ) -> Self {
        // SAFETY: the caller vouches for the strings.
        unsafe {
            Self {
                record_id: record.db_index,
                cluster: text(record.cluster).unwrap_or_default(),
                job_id: record.jobid,
                array_job_id: (record.array_job_id != 0).then_some(record.array_job_id),
                array_task_id: number(record.array_task_id).filter(|_| record.array_job_id != 0),
                het_job_id: record.het_job_id,
                het_job_offset: number(record.het_job_offset).filter(|_| record.het_job_id != 0),
                name: text(record.jobname),
                account: text(record.account),
                user: text(record.user),
                uid: record.uid,
                association_id: record.associd,
                partition: text(record.partition),
                qos,
                reservation: text(record.resv_name),
                nodes: text(record.nodes).filter(|nodes| nodes != "None assigned" && nodes != "(unknown)"),
                state: RunState::from_number(record.state),
                submit_s: record.submit,
                eligible_s: seconds(record.eligible),
                // NO_VAL: cancelled before it could start (as_mysql_jobacct_process.c).
                start_s: seconds(record.start).filter(|&start| start != i64::from(sys::NO_VAL)),
                end_s: seconds(record.end),
                suspended_s: i64::from(record.suspended),
                time_limit: TimeLimit::from_minutes(record.timelimit),
                tres_req,
                tres_alloc,
                comment: text(record.derived_es),
                admin_comment: text(record.admin_comment),
                priority: record.priority,
                exit_code: record.exitcode,
            }
        }
    }
}

/// Names one ended run. Slurm can look for job, state and end; the submit time is checked besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunKey {
    pub job_id: u32,
    /// Array id and task id; asking slurmdbd for the id alone would bring all tasks of the array.
    pub array: Option<(u32, u32)>,
    pub submit_s: i64,
    pub end_s: i64,
    pub state: RunState,
}

impl RunKey {
    pub(super) fn names(&self, run: &Run) -> bool {
        run.key().as_ref() == Some(self)
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "job {} (submitted {}, ended {})", self.job_id, self.submit_s, self.end_s)
    }
}

/// The state of a run's record. Where a job goes on in another record, the ended one says so instead
/// of a base state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunState {
    Base(BaseState),
    /// Ended by a requeue, whatever its cause.
    Requeued,
    /// Ended by a change of size.
    Resized,
    /// Went to another cluster of the federation.
    Revoked,
}

impl Default for RunState {
    fn default() -> Self {
        Self::Base(BaseState::default())
    }
}

impl RunState {
    /// Every state that a record with an end time can have.
    pub(super) const ENDED: [Self; 12] = [
        Self::Base(BaseState::Completed),
        Self::Base(BaseState::Cancelled),
        Self::Base(BaseState::Failed),
        Self::Base(BaseState::Timeout),
        Self::Base(BaseState::NodeFail),
        Self::Base(BaseState::Preempted),
        Self::Base(BaseState::BootFail),
        Self::Base(BaseState::Deadline),
        Self::Base(BaseState::OutOfMemory),
        Self::Requeued,
        Self::Resized,
        Self::Revoked,
    ];

    /// From slurmdbd's number, which a caller may have stored.
    pub fn from_number(number: u32) -> Self {
        match number {
            sys::JOB_REQUEUE => Self::Requeued,
            sys::JOB_RESIZING => Self::Resized,
            sys::JOB_REVOKED => Self::Revoked,
            number => Self::Base(BaseState::from_number(number)),
        }
    }

    /// slurmdbd's number.
    pub fn number(self) -> u32 {
        match self {
            Self::Base(state) => state.number(),
            Self::Requeued => sys::JOB_REQUEUE,
            Self::Resized => sys::JOB_RESIZING,
            Self::Revoked => sys::JOB_REVOKED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_without_start_or_end_has_no_key() {
        let record = sys::slurmdb_job_rec_t {
            jobid: 7,
            state: sys::JOB_PENDING,
            submit: 1000,
            array_task_id: sys::NO_VAL,
            start: i64::from(sys::NO_VAL),
            nodes: c"None assigned".as_ptr().cast_mut(),
            ..Default::default()
        };
        // SAFETY: C string literals and NULL.
        let run = unsafe { Run::from_record(&record, None, None, None) };
        assert_eq!((run.start_s, run.end_s, run.nodes.as_deref()), (None, None, None));
        assert_eq!((run.array_job_id, run.array_task_id), (None, None));
        assert_eq!(run.key(), None);
    }

    #[test]
    fn key_names_its_run_only() {
        let record = sys::slurmdb_job_rec_t {
            jobid: 12,
            array_job_id: 10,
            array_task_id: 1,
            state: sys::JOB_REQUEUE,
            submit: 1000,
            start: 1010,
            end: 1100,
            ..Default::default()
        };
        // SAFETY: all pointers are NULL.
        let run = unsafe { Run::from_record(&record, None, None, None) };
        let key = run.key().expect("has ended");
        assert_eq!((key.array, key.state), (Some((10, 1)), RunState::Requeued));
        assert!(key.names(&run));
        assert!(!RunKey { submit_s: 1101, ..key }.names(&run));
    }

    #[test]
    fn resized_run_begins_at_the_change_of_size() {
        let record = sys::slurmdb_job_rec_t { submit: 1500, start: 1010, ..Default::default() };
        // SAFETY: all pointers are NULL.
        let resized = unsafe { Run::from_record(&record, None, None, None) };
        assert_eq!(resized.segment_start_s(), Some(1500));
        let first = Run { submit_s: 1000, ..resized };
        assert_eq!(first.segment_start_s(), Some(1010));
    }

    #[test]
    fn states_keep_their_numbers() {
        for state in RunState::ENDED {
            assert_eq!(RunState::from_number(state.number()), state);
        }
        assert_eq!(RunState::from_number(sys::JOB_RUNNING), RunState::Base(BaseState::Running));
    }
}
