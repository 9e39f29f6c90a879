//! Slurm's names for the reasons of a job's state.

use std::ffi::{CStr, c_char};
use std::sync::LazyLock;

type ReasonString = unsafe extern "C" fn(u32) -> *const c_char;

/// libslurm exports the table under a name that no public header declares and that changed between
/// releases, so it is looked up; without it a reason is shown by its number.
static REASON_STRING: LazyLock<Option<ReasonString>> = LazyLock::new(|| {
    [c"slurm_job_state_reason_string", c"slurm_job_reason_string"].iter().find_map(|name| {
        // SAFETY: a look-up by a C string in the libraries already loaded.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // SAFETY: both names are `const char *f(enum job_state_reason)` in every release that has
        // them (src/common/slurm_protocol_defs.h, src/common/job_state_reason.h).
        (!symbol.is_null()).then(|| unsafe { std::mem::transmute::<*mut libc::c_void, ReasonString>(symbol) })
    })
});

/// The name that squeue shows for a reason.
pub(super) fn name(reason: u32) -> String {
    let Some(reason_string) = *REASON_STRING else {
        return format!("Reason{reason}");
    };
    // SAFETY: any number gives a static string.
    let name = unsafe { reason_string(reason) };
    if name.is_null() {
        return format!("Reason{reason}");
    }
    // SAFETY: a static NUL-terminated string.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use slurm_sys as sys;

    #[test]
    fn reasons_have_slurms_names() {
        assert_eq!(name(sys::WAIT_NO_REASON), "None");
        assert_eq!(name(sys::WAIT_PRIORITY), "Priority");
        assert_eq!(name(sys::WAIT_HELD_USER), "JobHeldUser");
    }
}
