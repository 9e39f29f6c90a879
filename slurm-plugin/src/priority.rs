//! The priority role: Slurm's own priority/multifactor, which every call is handed on to, with the published factor
//! in the job's site factor before it computes a priority. What is done with factors is the site_factor role's.
//!
//! sshare loads this plugin too, for fair-share factors alone: there is no thread, no snapshot and no word in its
//! output. Calls are handed on with no lock held; after `fini` each answers as if nothing had changed.

use std::ffi::{CStr, c_char, c_int, c_void};

use slurm_sys::{SLURM_ERROR, SLURM_SUCCESS};
use thiserror::Error;

use crate::guard::guarded;
use crate::host;
use crate::site_factor;

// multifactor.h.
unsafe extern "C" {
    safe fn bid_multifactor_load() -> *const c_char;
    safe fn bid_multifactor_unload();
    fn bid_multifactor_set(last_prio: u32, record: *mut c_void) -> u32;
    fn bid_multifactor_reconfig(assoc_clear: bool);
    fn bid_multifactor_set_assoc_usage(assoc: *mut c_void);
    fn bid_multifactor_job_end(record: *mut c_void);
    safe fn bid_multifactor_recover(prio_boost: u32) -> u32;
    safe fn bid_multifactor_thread_start();
    /// Takes two `long double` and returns a `double`: a place to jump to, not to call.
    pub fn bid_multifactor_calc_fs_factor();
    /// Takes sprio's message and a uid, or since 24.05 a uid alone, and returns a list: a place to jump to.
    pub fn bid_multifactor_get_priority_factors_list();
}

/// Slurm's default for PrioritySiteFactorPlugin.
const NO_SITE_FACTOR_PLUGIN: &str = "site_factor/none";

/// Why slurmctld must not start with this plugin.
#[derive(Debug, Error)]
enum Refusal {
    /// multifactor would ask that plugin for each job's site factor after us, and a bid would count twice or not.
    #[error(
        "bid: PriorityType=priority/bid sets site factors itself and cannot run beside \
         PrioritySiteFactorPlugin={0}; take one of the two out of slurm.conf"
    )]
    SiteFactorPlugin(String),
    #[error("bid: priority/bid cannot load priority/multifactor: {0}")]
    Multifactor(String),
}

/// Slurm's `init`.
pub fn init() -> c_int {
    guarded(SLURM_ERROR, || match start() {
        Ok(()) => SLURM_SUCCESS,
        Err(refusal) => {
            host::log_error(&refusal.to_string());
            SLURM_ERROR
        }
    })
}

fn start() -> Result<(), Refusal> {
    fini();
    if !host::inside_slurmctld() {
        return load_multifactor();
    }
    // A call that comes after fini makes Slurm load its priority plugin again, while it takes down all around it.
    if host::slurmctld_shuts_down() {
        return Ok(());
    }
    if let Some(other) = host::site_factor_plugin().filter(|name| name != NO_SITE_FACTOR_PLUGIN) {
        return Err(Refusal::SiteFactorPlugin(other));
    }
    load_multifactor()?;
    // Last, because its thread calls Slurm, which calls us.
    site_factor::init();
    Ok(())
}

fn load_multifactor() -> Result<(), Refusal> {
    let reason = bid_multifactor_load();
    if reason.is_null() {
        return Ok(());
    }
    // SAFETY: a constant text of the shim's or of Slurm's.
    let reason = unsafe { CStr::from_ptr(reason) };
    Err(Refusal::Multifactor(reason.to_string_lossy().into_owned()))
}

/// Slurm's `fini`: the thread goes first, because it calls into multifactor.
pub fn fini() {
    site_factor::fini();
    bid_multifactor_unload();
}

/// Slurm's `priority_p_set`: the priority of a job, with the published factor in it if the job is pending.
///
/// # Safety
/// As Slurm calls it: `job_ptr` is a job record, and the job write lock is held.
pub unsafe fn set(last_prio: u32, job_ptr: *mut c_void) -> u32 {
    // SAFETY: as the caller promises.
    unsafe {
        site_factor::set(job_ptr);
        bid_multifactor_set(last_prio, job_ptr)
    }
}

/// Slurm's `priority_p_reconfig`.
///
/// # Safety
/// As Slurm calls it.
pub unsafe fn reconfig(assoc_clear: bool) {
    // SAFETY: as the caller promises.
    unsafe { bid_multifactor_reconfig(assoc_clear) }
}

/// Slurm's `priority_p_set_assoc_usage`.
///
/// # Safety
/// As Slurm calls it: `assoc` is an association, under the locks that Slurm holds for it.
pub unsafe fn set_assoc_usage(assoc: *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe { bid_multifactor_set_assoc_usage(assoc) }
}

/// Slurm's `priority_p_job_end`.
///
/// # Safety
/// As Slurm calls it: `job_ptr` is a job record, and the job write lock is held.
pub unsafe fn job_end(job_ptr: *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe { bid_multifactor_job_end(job_ptr) }
}

/// Slurm's `priority_p_recover` (since 23.02), which is called once jobs were read from the saved state. The answer is
/// what was added to all priorities, 0 here.
#[must_use]
pub fn recover(prio_boost: u32) -> u32 {
    bid_multifactor_recover(prio_boost)
}

/// Slurm's `priority_p_thread_start` (since 23.11): from here on usage decays.
pub fn thread_start() -> c_int {
    bid_multifactor_thread_start();
    SLURM_SUCCESS
}
