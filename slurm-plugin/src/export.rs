//! The symbols that Slurm's loader looks up. They must be Rust items of the shared object itself: a symbol of a C
//! library is not exported from there. Each role's crate invokes one macro.

/// Turns a text into the array of chars that Slurm reads at the symbol's own address.
#[must_use]
pub const fn c_array<const N: usize>(text: &str) -> [u8; N] {
    let bytes = text.as_bytes();
    assert!(bytes.len() + 1 == N, "one more for the NUL");
    let mut array = [0; N];
    let mut index = 0;
    while index < bytes.len() {
        array[index] = bytes[index];
        index += 1;
    }
    array
}

/// The name in Slurm's log; a build for tests says so.
#[must_use]
pub const fn plugin_name(name: &'static str, name_of_test_build: &'static str) -> &'static str {
    if cfg!(feature = "force-panic") { name_of_test_build } else { name }
}

/// `plugin_name`, `plugin_type`, `plugin_version`, `init` and `fini`.
#[macro_export]
macro_rules! export_plugin {
    ($name:literal, $type:literal, $role:ident) => {
        const NAME: &str = $crate::export::plugin_name($name, concat!($name, " (panics when asked to)"));

        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static plugin_name: [u8; NAME.len() + 1] = $crate::export::c_array(NAME);

        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static plugin_type: [u8; $type.len() + 1] = $crate::export::c_array($type);

        /// Slurm loads a plugin only if this is its own version, micro included.
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static plugin_version: u32 = $crate::export::SLURM_VERSION_NUMBER;

        #[unsafe(no_mangle)]
        pub extern "C" fn init() -> ::std::ffi::c_int {
            $crate::$role::init()
        }

        #[unsafe(no_mangle)]
        pub extern "C" fn fini() {
            $crate::$role::fini()
        }
    };
}

pub use slurm_sys::{SLURM_VERSION_NUMBER, job_desc_msg_t};

/// `job_modify` as this Slurm calls it: with `err_msg` from 23.02 on.
#[cfg(job_modify_has_err_msg)]
#[macro_export]
macro_rules! export_job_modify {
    () => {
        /// # Safety
        /// Only for Slurm, under its job write lock.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn job_modify(
            job_desc: *mut $crate::export::job_desc_msg_t,
            job_ptr: *mut ::std::ffi::c_void,
            submit_uid: u32,
            err_msg: *mut *mut ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: Slurm's arguments.
            unsafe { $crate::job_submit::job_modify(job_desc, job_ptr, submit_uid, err_msg) }
        }
    };
}

/// `job_modify` as this Slurm calls it: with `err_msg` from 23.02 on.
#[cfg(not(job_modify_has_err_msg))]
#[macro_export]
macro_rules! export_job_modify {
    () => {
        /// # Safety
        /// Only for Slurm, under its job write lock.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn job_modify(
            job_desc: *mut $crate::export::job_desc_msg_t,
            job_ptr: *mut ::std::ffi::c_void,
            submit_uid: u32,
        ) -> ::std::ffi::c_int {
            // SAFETY: Slurm's arguments; there is no message to add to.
            unsafe { $crate::job_submit::job_modify(job_desc, job_ptr, submit_uid, ::std::ptr::null_mut()) }
        }
    };
}
