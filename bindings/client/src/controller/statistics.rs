//! Whether slurmctld answers, and how busy it is.

use std::ffi::c_int;

use slurm_sys as sys;

use super::load;
use crate::error::ClientError;
use crate::ffi;
use crate::init::require_init;

/// Counters of slurmctld, as sdiag shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statistics {
    /// Messages that wait for slurmdbd. While it is not 0, records of ended jobs may be missing or be
    /// overwritten later.
    pub slurmdbd_queue_len: u32,
    pub agent_queue_len: u32,
    /// RPCs being served; slurmctld stops at 256.
    pub server_threads: u32,
    pub jobs_pending: u32,
    pub jobs_running: u32,
    /// Of the main scheduler.
    pub last_cycle_us: u32,
    pub backfill_last_cycle_us: u32,
    pub backfill_last_cycle_s: i64,
}

/// Asks slurmctld for its counters.
///
/// # Errors
/// [`ClientError::Slurm`] if slurmctld does not answer; [`ClientError::NotInitialised`].
pub fn statistics() -> Result<Statistics, ClientError> {
    let mut request = sys::stats_info_request_msg_t { command_id: sys::STAT_COMMAND_GET as u16 };
    // SAFETY: slurm_get_statistics reads the request and leaves a message for
    // slurm_free_stats_response_msg.
    let message = unsafe {
        load("slurm_get_statistics", ffi::slurm_free_stats_response_msg, |message| {
            ffi::slurm_get_statistics(message, &mut request)
        })
    }?;
    Ok(Statistics {
        slurmdbd_queue_len: message.dbd_agent_queue_size,
        agent_queue_len: message.agent_queue_size,
        server_threads: message.server_thread_count,
        jobs_pending: message.jobs_pending,
        jobs_running: message.jobs_running,
        last_cycle_us: message.schedule_cycle_last,
        backfill_last_cycle_us: message.bf_cycle_last,
        backfill_last_cycle_s: message.bf_when_last_cycle,
    })
}

/// Whether the controller at `index` of [`Config::controllers`](super::Config) answers; 0 is the
/// primary.
///
/// # Errors
/// [`ClientError::Slurm`] if it does not; [`ClientError::NotInitialised`].
pub fn ping(index: u8) -> Result<(), ClientError> {
    require_init()?;
    // SAFETY: takes a number.
    match unsafe { ffi::slurm_ping(c_int::from(index)) } {
        sys::SLURM_SUCCESS => Ok(()),
        sys::SLURM_ERROR => Err(ClientError::last("slurm_ping", sys::SLURMCTLD_COMMUNICATIONS_RECEIVE_ERROR)),
        code => Err(ClientError::with_code("slurm_ping", code)),
    }
}
