//! What is done to a running job: a word to its user, a signal, and its end.

use std::ffi::CString;

use slurm_sys as sys;

use crate::error::{ClientError, code_of};
use crate::ffi;
use crate::init::require_init;
use crate::text::c_text;

/// Where a signal goes, as `scancel` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalTo {
    /// All steps but the batch shell.
    Steps,
    /// The batch shell alone (`scancel --batch`).
    BatchShell,
}

/// Writes a line where the job's standard error goes, or to the terminal of its srun or salloc. Needs the job's user or
/// SlurmUser.
///
/// # Errors
/// [`ClientError::Slurm`], [`ClientError::NulByte`], [`ClientError::NotInitialised`].
pub fn notify_job(job_id: u32, message: &str) -> Result<(), ClientError> {
    require_init()?;
    let message = c_text(message, "message")?;
    // SAFETY: libslurm reads the message, which lives until the end of this function.
    answer("slurm_notify_job", unsafe { ffi::slurm_notify_job(job_id, message.as_ptr().cast_mut()) })
}

/// Signals a running job. `job` is a name as squeue writes it, `12` or `12_3`.
///
/// # Errors
/// As for [`notify_job`].
pub fn signal_job(job: &str, signal: u16, to: SignalTo) -> Result<(), ClientError> {
    let flags = match to {
        SignalTo::Steps => 0,
        SignalTo::BatchShell => sys::KILL_JOB_BATCH,
    };
    kill(job, signal, flags)
}

/// Cancels a job, named as for [`signal_job`].
///
/// # Errors
/// As for [`notify_job`].
pub fn cancel_job(job: &str) -> Result<(), ClientError> {
    kill(job, SIGKILL, 0)
}

/// As `scancel` without a signal: slurmctld makes an orderly end of it (SIGTERM, KillWait, SIGKILL).
const SIGKILL: u16 = 9;

fn kill(job: &str, signal: u16, flags: u32) -> Result<(), ClientError> {
    require_init()?;
    let job: CString = c_text(job, "job name")?;
    let flags = u16::try_from(flags).unwrap_or_default();
    // SAFETY: libslurm reads the name, which lives until the end of this function; no sibling cluster is named.
    answer("slurm_kill_job2", unsafe { ffi::slurm_kill_job2(job.as_ptr(), signal, flags, std::ptr::null()) })
}

/// Ends a running batch job and puts it back into the queue.
///
/// # Errors
/// As for [`notify_job`]; [`ClientError::is_not_requeueable`] tells that it is no batch job, or was submitted with
/// `--no-requeue`.
pub fn requeue_job(job_id: u32) -> Result<(), ClientError> {
    require_init()?;
    // SAFETY: takes plain numbers.
    answer("slurm_requeue", unsafe { ffi::slurm_requeue(job_id, 0) })
}

fn answer(call: &'static str, result: i32) -> Result<(), ClientError> {
    match result {
        sys::SLURM_SUCCESS => Ok(()),
        _ => Err(ClientError::last(call, sys::SLURMCTLD_COMMUNICATIONS_RECEIVE_ERROR)),
    }
}

impl ClientError {
    /// Whether a job cannot be requeued by its nature.
    pub fn is_not_requeueable(&self) -> bool {
        [sys::ESLURM_BATCH_ONLY, sys::ESLURM_DISABLED]
            .iter()
            .any(|code| matches!(self, Self::Slurm { code: found, .. } if *found == code_of(*code)))
    }
}
