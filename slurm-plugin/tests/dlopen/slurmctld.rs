//! A process that the plugins take for slurmctld, with job records of Slurm's own layout.

use std::ffi::{CStr, c_char, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use slurm_sys::NICE_OFFSET;

use crate::slurm::Library;

/// `struct mock_job` of slurmctld.c.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct MockJob {
    pub(crate) job_id: u32,
    pub(crate) array_job_id: u32,
    pub(crate) state: u32,
    pub(crate) priority: u32,
    pub(crate) site_factor: u32,
    pub(crate) time_limit: u32,
    pub(crate) submit_time: i64,
    pub(crate) direct_set_prio: u32,
    pub(crate) magic_is_wrong: u32,
    pub(crate) whole_node: u32,
    pub(crate) qos: *const c_char,
    pub(crate) comment: *const c_char,
    pub(crate) admin_comment: *const c_char,
    pub(crate) tres_per_node: *const c_char,
}

impl MockJob {
    /// Pending since second 7, not held, without a factor.
    pub(crate) fn pending(job_id: u32) -> Self {
        Self {
            job_id,
            array_job_id: 0,
            state: slurm_sys::JOB_PENDING,
            priority: 1_000,
            site_factor: NICE_OFFSET,
            time_limit: 60,
            submit_time: 7,
            direct_set_prio: 0,
            magic_is_wrong: 0,
            whole_node: 0,
            qos: c"standard".as_ptr(),
            comment: std::ptr::null(),
            admin_comment: std::ptr::null(),
            tres_per_node: c"gres:gpu:2".as_ptr(),
        }
    }
}

/// The stand-in, compiled with the compiler and headers that built the shim, and loaded for all.
#[derive(Clone, Copy)]
pub(crate) struct Slurmctld(Library);

impl Slurmctld {
    /// To be called before any plugin is loaded: these bind to what is there.
    pub(crate) fn load(folder: &Path) -> Self {
        Self(Library::open(&compile("slurmctld", folder), libc::RTLD_NOW | libc::RTLD_GLOBAL))
    }

    /// Lets `set_job_prio` call the plugin, as priority/multifactor does.
    pub(crate) fn start(self, site_factor_plugin: Library) {
        let set = site_factor_plugin.address(c"site_factor_p_set");
        // SAFETY: the type in slurmctld.c, but for the record's.
        unsafe { self.0.function::<extern "C" fn(*mut c_void)>(c"mock_start")(set) }
    }

    /// Lets `set_job_prio` ask the priority plugin.
    pub(crate) fn start_with_priority(self, priority_plugin: Library) {
        let set = priority_plugin.address(c"priority_p_set");
        // SAFETY: the type in slurmctld.c, but for the function's.
        unsafe { self.0.function::<extern "C" fn(*mut c_void)>(c"mock_start_priority")(set) }
    }

    /// What the stand-in of priority/multifactor was asked since the last look.
    pub(crate) fn seen(self) -> String {
        // SAFETY: the type in slurmctld.c; a text that lives until the next call.
        unsafe {
            let text = self.0.function::<extern "C" fn() -> *const c_char>(c"mock_seen")();
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    pub(crate) fn add(self, job: &MockJob) -> *mut c_void {
        // SAFETY: the type in slurmctld.c.
        unsafe { self.0.function::<extern "C" fn(*const MockJob) -> *mut c_void>(c"mock_add_job")(job) }
    }

    /// The factor without NICE_OFFSET, and the priority.
    pub(crate) fn of(self, job_id: u32) -> (u32, u32) {
        // SAFETY: the types in slurmctld.c.
        let [site_factor, priority] = [c"mock_site_factor", c"mock_priority"]
            .map(|name| unsafe { self.0.function::<extern "C" fn(u32) -> u32>(name)(job_id) });
        (site_factor.wrapping_sub(NICE_OFFSET), priority)
    }

    pub(crate) fn count(self, what: &CStr) -> u32 {
        // SAFETY: the type in slurmctld.c.
        unsafe { self.0.function::<extern "C" fn() -> u32>(what)() }
    }

    pub(crate) fn call(self, what: &CStr) {
        // SAFETY: the type in slurmctld.c.
        unsafe { self.0.function::<extern "C" fn()>(what)() }
    }
}

/// Compiles one of the C files beside this one into `folder`.
pub(crate) fn compile(name: &str, folder: &Path) -> PathBuf {
    let output = folder.join(name).with_extension("so");
    fs::write(folder.join("config.h"), "").expect("room for a file");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args(["-shared", "-fPIC", "-D_GNU_SOURCE", "-DNDEBUG", "-isystem", env!("SLURM_SOURCE_TREE")])
        .args(["-isystem", env!("SLURM_INCLUDE"), "-o"])
        .arg(&output)
        .arg("-I")
        .arg(folder)
        .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/csrc")])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dlopen").join(name).with_extension("c"))
        .status();
    assert!(status.expect("a C compiler").success());
    output
}
