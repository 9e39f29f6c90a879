//! `priority_bid.so`: the symbols of Slurm's priority plugins. All logic is in slurm-plugin.

use std::ffi::{c_int, c_void};

use slurm_plugin::priority;

slurm_plugin::export_plugin!(
    "Quota Marketplace: bids as site factors before priority/multifactor",
    "priority/bid",
    priority
);

/// # Safety
/// Only for Slurm, under its job write lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn priority_p_set(last_prio: u32, job_ptr: *mut c_void) -> u32 {
    // SAFETY: Slurm's arguments.
    unsafe { priority::set(last_prio, job_ptr) }
}

/// # Safety
/// Only for Slurm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn priority_p_reconfig(assoc_clear: bool) {
    // SAFETY: Slurm's argument.
    unsafe { priority::reconfig(assoc_clear) }
}

/// # Safety
/// Only for Slurm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn priority_p_set_assoc_usage(assoc: *mut c_void) {
    // SAFETY: Slurm's argument.
    unsafe { priority::set_assoc_usage(assoc) }
}

/// `double priority_p_calc_fs_factor(long double, long double)`: Rust has no `long double`, so C answers, with the
/// arguments where the caller put them.
///
/// # Safety
/// Only for Slurm, with those arguments.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn priority_p_calc_fs_factor() {
    std::arch::naked_asm!("jmp {}", sym priority::bid_multifactor_calc_fs_factor)
}

/// What sprio shows. Its arguments differ between versions of Slurm, which C knows from Slurm's headers.
///
/// # Safety
/// Only for Slurm, with those arguments.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn priority_p_get_priority_factors_list() {
    std::arch::naked_asm!("jmp {}", sym priority::bid_multifactor_get_priority_factors_list)
}

/// # Safety
/// Only for Slurm, under its job write lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn priority_p_job_end(job_ptr: *mut c_void) {
    // SAFETY: Slurm's argument.
    unsafe { priority::job_end(job_ptr) }
}

/// Only looked up since 23.02.
#[unsafe(no_mangle)]
pub extern "C" fn priority_p_recover(prio_boost: u32) -> u32 {
    priority::recover(prio_boost)
}

/// Only looked up since 23.11.
#[unsafe(no_mangle)]
pub extern "C" fn priority_p_thread_start() -> c_int {
    priority::thread_start()
}
