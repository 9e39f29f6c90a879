//! Changes to one job.

use std::ffi::{CString, c_char};

use slurm_sys as sys;

use crate::error::ClientError;
use crate::ffi;
use crate::init::require_init;
use crate::text::c_text;

/// What to change of the record `job_id`; `None` leaves a field as it is.
///
/// `admin_comment` needs SlurmUser or root; the other fields an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobUpdate {
    /// Of one record: an array's own id is its pending rest, and tasks that have started are not
    /// touched.
    pub job_id: u32,
    pub admin_comment: Option<String>,
    pub comment: Option<String>,
    /// Without Slurm's `NICE_OFFSET`, as sprio shows it.
    pub site_factor: Option<i32>,
    /// 0 holds the job; [`JobUpdate::RELEASE`] releases it.
    pub priority: Option<u32>,
    pub time_limit_minutes: Option<u32>,
    /// Of pending jobs only.
    pub qos: Option<String>,
}

impl JobUpdate {
    /// The priority that gives a held job back to the priority plugin.
    pub const RELEASE: u32 = sys::INFINITE;
}

/// Changes one job. slurmctld takes its write lock for it and runs the `job_modify` of every
/// job_submit plugin.
///
/// # Errors
/// [`ClientError::Slurm`] with Slurm's reason; [`ClientError::is_unknown_job`] and
/// [`ClientError::is_finished_job`] tell the usual ones. [`ClientError::NulByte`],
/// [`ClientError::NotInitialised`].
pub fn update_job(update: &JobUpdate) -> Result<(), ClientError> {
    require_init()?;
    let admin_comment = optional(update.admin_comment.as_deref(), "admin comment")?;
    let comment = optional(update.comment.as_deref(), "comment")?;
    let qos = optional(update.qos.as_deref(), "QOS")?;
    let mut request = request(update);
    request.admin_comment = pointer(admin_comment.as_ref());
    request.comment = pointer(comment.as_ref());
    request.qos = pointer(qos.as_ref());
    // By number slurmctld changes exactly one record and gives one answer. (slurm_update_job2, for
    // whole arrays, leaks that answer and forgets why there was none.)
    // SAFETY: libslurm reads the request, whose strings live until the end of this function.
    match unsafe { ffi::slurm_update_job(&mut request) } {
        sys::SLURM_SUCCESS => Ok(()),
        _ => Err(ClientError::last("slurm_update_job", sys::SLURMCTLD_COMMUNICATIONS_RECEIVE_ERROR)),
    }
}

/// The request without its strings.
fn request(update: &JobUpdate) -> sys::job_desc_msg_t {
    let mut request = sys::job_desc_msg_t::default();
    // SAFETY: fills the structure with "unchanged".
    unsafe { ffi::slurm_init_job_desc_msg(&mut request) };
    request.job_id = update.job_id;
    if let Some(factor) = update.site_factor {
        request.site_factor = sys::NICE_OFFSET.wrapping_add_signed(factor);
    }
    if let Some(priority) = update.priority {
        request.priority = priority;
    }
    if let Some(minutes) = update.time_limit_minutes {
        request.time_limit = minutes;
    }
    request
}

fn optional(text: Option<&str>, field: &'static str) -> Result<Option<CString>, ClientError> {
    text.map(|text| c_text(text, field)).transpose()
}

/// libslurm only reads what it is given, though it is not declared so.
fn pointer(text: Option<&CString>) -> *mut c_char {
    text.map_or(std::ptr::null_mut(), |text| text.as_ptr().cast_mut())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays_unchanged() {
        let request = request(&JobUpdate { job_id: 7, ..Default::default() });
        assert_eq!(request.job_id, 7);
        assert_eq!(
            (request.site_factor, request.priority, request.time_limit),
            (sys::NO_VAL, sys::NO_VAL, sys::NO_VAL)
        );
        assert!(request.admin_comment.is_null() && request.comment.is_null() && request.qos.is_null());
    }

    #[test]
    fn site_factor_gets_its_offset() {
        let factor = |site_factor| {
            request(&JobUpdate { site_factor: Some(site_factor), ..Default::default() }).site_factor
        };
        assert_eq!(factor(0), 0x8000_0000);
        assert_eq!(factor(65), 0x8000_0041);
        assert_eq!(factor(-1), 0x7fff_ffff);
    }
}
