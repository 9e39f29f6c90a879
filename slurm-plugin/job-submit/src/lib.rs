//! `job_submit_bid.so`: the symbols of Slurm's job_submit plugins. All logic is in slurm-plugin.

use std::ffi::{c_char, c_int};

use slurm_plugin::export::job_desc_msg_t;

slurm_plugin::export_plugin!("Quota Marketplace: bids of submitted jobs", "job_submit/bid", job_submit);
slurm_plugin::export_job_modify!();

/// # Safety
/// Only for Slurm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn job_submit(
    job_desc: *mut job_desc_msg_t,
    _submit_uid: u32,
    err_msg: *mut *mut c_char,
) -> c_int {
    // SAFETY: Slurm's arguments.
    unsafe { slurm_plugin::job_submit::job_submit(job_desc, err_msg) }
}
