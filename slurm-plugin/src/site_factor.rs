//! The site_factor role: gives pending jobs the factors that the daemon published. Slurm calls in under its job write
//! lock; the thread that reprices calls Slurm, which calls `set` back: nothing here takes a lock.

use std::ffi::{c_int, c_void};

use slurm_sys::SLURM_SUCCESS;

use crate::guard::{guarded, guarded_and_timed};
use crate::host::{self, JobRecord};
use crate::reprice::{LOCK_TIMES, site_factor};
use crate::role::{Kind, Role};
use crate::snapshot::{JobKey, Snapshot};
use crate::timing::Timing;

static ROLE: Role = Role::new(Kind::Repricer).telling(&[&TIMES, &LOCK_TIMES]);
static TIMES: Timing = Timing::new("site_factor");

/// Slurm's `init`.
pub fn init() -> c_int {
    guarded(SLURM_SUCCESS, || {
        ROLE.init();
        SLURM_SUCCESS
    })
}

/// Slurm's `fini`.
pub fn fini() {
    guarded((), || ROLE.fini());
}

/// Slurm's `site_factor_p_set`, at every computation of a job's priority: will-run requests and running jobs too.
/// Only a pending job with a published factor is touched; any other keeps what it has.
///
/// # Safety
/// As Slurm calls it: `job_ptr` is NULL or a job record, and the job write lock is held.
pub unsafe fn set(job_ptr: *mut c_void) {
    guarded_and_timed(&TIMES, (), || {
        let Some(picture) = ROLE.picture() else { return };
        // SAFETY: as the caller promises.
        let Some(job) = (unsafe { host::read_job(job_ptr) }) else { return };
        #[cfg(feature = "force-panic")]
        assert!(
            !job.comment.is_some_and(|text| text.windows(11).any(|part| part == b"force-panic")),
            "asked for by the job's comment"
        );
        if let Some(factor) = published(&picture.snapshot(), &job) {
            // SAFETY: the record was just read, and the job write lock is held.
            unsafe { host::set_site_factor(job_ptr, site_factor(factor)) };
        }
    });
}

/// The factor of a pending job. A task that was just split off its array has an id that the daemon has not seen: it
/// has its array's factor until then.
fn published(snapshot: &Snapshot, job: &JobRecord<'_>) -> Option<u32> {
    if !job.pending {
        return None;
    }
    let factor_of = |job_id| snapshot.factors.get(&JobKey { job_id, submit_s: job.submit_s }).copied();
    factor_of(job.job_id).or_else(|| job.array_job_id.and_then(factor_of))
}

#[cfg(test)]
mod tests;
