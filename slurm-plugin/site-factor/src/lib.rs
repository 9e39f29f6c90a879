//! `site_factor_bid.so`: the symbols of Slurm's site_factor plugins. All logic is in slurm-plugin.

use std::ffi::c_void;

slurm_plugin::export_plugin!("Quota Marketplace: bids as site factors", "site_factor/bid", site_factor);

/// # Safety
/// Only for Slurm, under its job write lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn site_factor_p_set(job_ptr: *mut c_void) {
    // SAFETY: Slurm's argument.
    unsafe { slurm_plugin::site_factor::set(job_ptr) }
}

/// Empty: Slurm comes by every PriorityCalcPeriod, whole minutes apart and only with slurmdbd. The role's own thread
/// touches just the jobs whose factor changed, when it changes.
#[unsafe(no_mangle)]
pub extern "C" fn site_factor_p_update() {}

/// Empty: settings come from the daemon.
#[unsafe(no_mangle)]
pub extern "C" fn site_factor_p_reconfig() {}
