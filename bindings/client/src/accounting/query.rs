//! Looking up runs.

use std::ffi::CString;

use slurm_sys as sys;

use super::connection::clear_error;
use super::{Connection, Run, RunKey, RunState};
use crate::error::ClientError;
use crate::ffi;
use crate::list::{OwnedList, RequestList};
use crate::text::{c_text, text};

/// Which runs of a job are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// The one submitted last, and those that a change of size ended.
    Newest,
    /// Those before a requeue too.
    All,
}

impl Connection {
    /// All runs that ended between two times (seconds since the epoch, both included), of this
    /// cluster.
    ///
    /// # Errors
    /// [`ClientError::Slurm`] if slurmdbd does not answer or refuses.
    pub fn runs_ended(&mut self, from_s: i64, to_s: i64) -> Result<Vec<Run>, ClientError> {
        let mut condition = Condition::new(&self.cluster, Runs::All)?;
        condition.in_states(&RunState::ENDED)?;
        condition.between(from_s, to_s);
        self.runs(&mut condition)
    }

    /// The runs of some jobs, pending and running ones included. The id of an array brings all its
    /// tasks.
    ///
    /// # Errors
    /// [`ClientError::Slurm`] if slurmdbd does not answer or refuses.
    pub fn runs_of(&mut self, job_ids: &[u32], which: Runs) -> Result<Vec<Run>, ClientError> {
        if job_ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut condition = Condition::new(&self.cluster, which)?;
        condition.of_jobs(job_ids.iter().map(|&job_id| (job_id, None)));
        self.runs(&mut condition)
    }

    fn runs(&mut self, condition: &mut Condition) -> Result<Vec<Run>, ClientError> {
        // slurmdbd reads inside a transaction, which shows the database as it was at its first read: a
        // connection that keeps it open never sees what slurmctld reported since.
        self.finish(false)?;
        clear_error();
        // SAFETY: an open connection and a condition whose lists live; the answer holds job records.
        let list = unsafe {
            OwnedList::<sys::slurmdb_job_rec_t>::new(ffi::slurmdb_jobs_get(self.handle(), condition.as_mut()))
        };
        let list = list.ok_or_else(|| ClientError::last("slurmdb_jobs_get", sys::ESLURM_DB_CONNECTION))?;
        list.iter().map(|record| self.run(record)).collect()
    }

    fn run(&mut self, record: &sys::slurmdb_job_rec_t) -> Result<Run, ClientError> {
        // SAFETY: a record of slurmdbd's answer has valid strings.
        let (requested, allocated) = unsafe { (text(record.tres_req_str), text(record.tres_alloc_str)) };
        let tres_req = self.named_tres(requested)?;
        let tres_alloc = self.named_tres(allocated)?;
        if record.qosid != 0 && !self.qos.contains_key(&record.qosid) {
            self.refresh_names()?;
        }
        let qos = self.qos.get(&record.qosid).cloned();
        // SAFETY: as above.
        Ok(unsafe { Run::from_record(record, qos, tres_req, tres_alloc) })
    }

    /// Resolves ids, reading the names again for one that is new. What has no name even then stays
    /// as slurmdbd sent it.
    fn named_tres(&mut self, counts: Option<String>) -> Result<Option<String>, ClientError> {
        let Some(counts) = counts else {
            return Ok(None);
        };
        let named = match self.tres.resolve(&counts) {
            Ok(named) => named,
            Err(_) => {
                self.refresh_names()?;
                self.tres.resolve(&counts).unwrap_or(counts)
            }
        };
        Ok((!named.is_empty()).then_some(named))
    }
}

/// A `slurmdb_job_cond_t` together with the lists that it points to.
#[derive(Debug)]
pub(super) struct Condition {
    raw: sys::slurmdb_job_cond_t,
    _clusters: RequestList<CString>,
    states: Option<RequestList<CString>>,
    steps: Option<RequestList<Box<sys::slurm_selected_step_t>>>,
}

impl Condition {
    /// Any run of `cluster`, without steps, with times as they are and not cut to the window.
    pub(super) fn new(cluster: &str, which: Runs) -> Result<Self, ClientError> {
        let clusters = RequestList::of_texts(vec![c_text(cluster, "name of the cluster")?]);
        let mut flags = sys::JOBCOND_FLAG_NO_STEP
            | sys::JOBCOND_FLAG_NO_TRUNC
            | sys::JOBCOND_FLAG_NO_WHOLE_HETJOB
            | sys::JOBCOND_FLAG_NO_DEFAULT_USAGE;
        if which == Runs::All {
            flags |= sys::JOBCOND_FLAG_DUP;
        }
        let raw = sys::slurmdb_job_cond_t {
            cluster_list: clusters.as_ptr(),
            // 0 would ask for records whose flags are 0.
            db_flags: sys::SLURMDB_JOB_FLAG_NOTSET,
            flags,
            ..Default::default()
        };
        Ok(Self { raw, _clusters: clusters, states: None, steps: None })
    }

    /// Only the run that `key` names, as far as slurmdbd can tell.
    pub(super) fn for_key(cluster: &str, key: &RunKey) -> Result<Self, ClientError> {
        let mut condition = Self::new(cluster, Runs::All)?;
        condition.in_states(&[key.state])?;
        condition.between(key.end_s, key.end_s);
        condition.of_jobs([key.array.map_or((key.job_id, None), |(array, task)| (array, Some(task)))]);
        Ok(condition)
    }

    /// With states, the window of `between` is about the end of the run.
    fn in_states(&mut self, states: &[RunState]) -> Result<(), ClientError> {
        let numbers: Result<Vec<_>, _> =
            states.iter().map(|state| c_text(&state.number().to_string(), "state")).collect();
        let states = RequestList::of_texts(numbers?);
        self.raw.state_list = states.as_ptr();
        self.states = Some(states);
        Ok(())
    }

    fn between(&mut self, from_s: i64, to_s: i64) {
        self.raw.usage_start = from_s;
        self.raw.usage_end = to_s;
    }

    /// By job id, or by array id and task id.
    fn of_jobs(&mut self, jobs: impl IntoIterator<Item = (u32, Option<u32>)>) {
        // Newer releases have more fields.
        #[allow(clippy::needless_update)]
        let step = |(job_id, task_id): (u32, Option<u32>)| {
            Box::new(sys::slurm_selected_step_t {
                array_task_id: task_id.unwrap_or(sys::NO_VAL),
                het_job_offset: sys::NO_VAL,
                step_id: sys::slurm_step_id_t {
                    job_id,
                    step_het_comp: sys::NO_VAL,
                    step_id: sys::NO_VAL,
                    ..Default::default()
                },
                ..Default::default()
            })
        };
        let steps = RequestList::of_records(jobs.into_iter().map(step).collect());
        self.raw.step_list = steps.as_ptr();
        self.steps = Some(steps);
    }

    /// libslurm only reads it, though it is not declared so.
    pub(super) fn as_mut(&mut self) -> *mut sys::slurmdb_job_cond_t {
        &mut self.raw
    }
}
