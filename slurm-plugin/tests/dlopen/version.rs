//! What differs between the versions of Slurm, for these tests.

use slurm_sys::SLURM_VERSION_NUMBER;

/// job_modify can tell the user why (since 23.02).
pub(crate) const CHANGES_HAVE_ERR_MSG: bool = SLURM_VERSION_NUMBER >= 0x17_02_00;
/// Priority plugins have priority_p_recover and priority_p_thread_start (both since 23.11).
pub(crate) const PRIORITY_IS_STARTED_IN_STEPS: bool = SLURM_VERSION_NUMBER >= 0x17_0b_00;
