//! Slurm's side of the border: its allocator and job descriptors, and a loader like its own.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

use slurm_sys::{NO_VAL, job_desc_msg_t};

/// Debian's, and where Slurm's own packages put it.
const LIBRARIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/slurm-wlm/libslurmfull.so", "/usr/lib64/slurm/libslurmfull.so"];

/// A shared object; never unloaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library(*mut c_void);

// SAFETY: a handle of the loader is only a name.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    pub(crate) fn open(path: &Path, flags: c_int) -> Self {
        let c_path = CString::new(path.to_str().expect("a plain path")).expect("no NUL");
        // SAFETY: loading runs the constructors of a library we trust.
        let handle = unsafe { libc::dlopen(c_path.as_ptr(), flags) };
        assert!(!handle.is_null(), "{}: {}", path.display(), error());
        Self(handle)
    }

    pub(crate) fn address(self, symbol: &CStr) -> *mut c_void {
        // SAFETY: a live handle and a NUL-terminated name.
        let address = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        assert!(!address.is_null(), "{symbol:?}: {}", error());
        address
    }

    /// # Safety
    /// `F` is the type of the function of that name.
    pub(crate) unsafe fn function<F: Copy>(self, symbol: &CStr) -> F {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        let address = self.address(symbol);
        // SAFETY: a function pointer, of the type that the caller promises.
        unsafe { std::mem::transmute_copy(&address) }
    }

    /// Calls a function without arguments.
    pub(crate) fn call(self, symbol: &CStr) -> c_int {
        // SAFETY: only used for init, fini and their like; the result of a void function is not looked at.
        unsafe { self.function::<extern "C" fn() -> c_int>(symbol)() }
    }

    /// As Slurm's loader calls dlclose: after fini.
    pub(crate) fn close(self) {
        // SAFETY: a live handle, not used afterwards but by a fresh `open`.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0);
    }
}

fn error() -> String {
    // SAFETY: dlerror gives NULL or a text that lives until the next call of the loader in this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// What of Slurm's own library the plugins use, loaded for all as in slurmctld.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slurm {
    xstrdup: unsafe extern "C" fn(*const c_char) -> *mut c_char,
    xfree: unsafe extern "C" fn(*mut *mut c_void),
    init_job_desc: unsafe extern "C" fn(*mut job_desc_msg_t),
    conf_init: unsafe extern "C" fn(*const c_char) -> c_int,
}

fn library() -> &'static Path {
    LIBRARIES.iter().map(Path::new).find(|path| path.exists()).expect("Slurm is installed")
}

impl Slurm {
    pub(crate) fn load() -> Self {
        let library = Library::open(library(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        // SAFETY: the types are those of Slurm's xstring.h, xmalloc.h and slurm.h.
        unsafe {
            Self {
                xstrdup: library.function(c"slurm_xstrdup"),
                xfree: library.function(c"slurm_xfree"),
                init_job_desc: library.function(c"slurm_init_job_desc_msg"),
                conf_init: library.function(c"slurm_conf_init"),
            }
        }
    }

    /// Slurm's own plugins.
    pub(crate) fn plugin_dir() -> &'static Path {
        library().parent().expect("a folder")
    }

    /// Has Slurm read a slurm.conf with this PluginDir and these further lines.
    pub(crate) fn read_conf(self, folder: &Path, plugin_dir: &Path, lines: &str) {
        let path = folder.join("slurm.conf");
        let text = format!(
            "ClusterName=test\nSlurmctldHost=localhost\nPluginDir={}\n{lines}\n",
            plugin_dir.display()
        );
        std::fs::write(&path, text).expect("room for a file");
        let path = CString::new(path.to_str().expect("a plain path")).expect("no NUL");
        // SAFETY: the type in Slurm's read_config.h; the text outlives the call.
        assert_eq!(unsafe { (self.conf_init)(path.as_ptr()) }, 0);
    }

    fn text(self, text: &str) -> *mut c_char {
        let text = CString::new(text).expect("no NUL");
        // SAFETY: a NUL-terminated text, which Slurm copies.
        unsafe { (self.xstrdup)(text.as_ptr()) }
    }

    /// Takes a text out of Slurm's hands.
    pub(crate) fn take(self, text: &mut *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: not NULL, so a text of Slurm's allocator.
        let taken = unsafe { CStr::from_ptr(*text) }.to_string_lossy().into_owned();
        // SAFETY: as above; slurm_xfree leaves NULL behind.
        unsafe { (self.xfree)(std::ptr::from_mut(text).cast()) };
        Some(taken)
    }

    /// A change that changes nothing yet.
    pub(crate) fn change(self) -> job_desc_msg_t {
        let mut desc = job_desc_msg_t::default();
        // SAFETY: Slurm fills the whole descriptor with NULL and NO_VAL.
        unsafe { (self.init_job_desc)(&raw mut desc) };
        desc
    }

    /// What sbatch would send for alice, with GPUs and a comment, as slurmctld hands it to the plugins.
    pub(crate) fn job(self, gres: &str, comment: &str) -> Job {
        let mut desc = self.change();
        desc.het_job_offset = NO_VAL;
        desc.user_id = 1001;
        desc.time_limit = 60;
        desc.tres_per_node = self.text(gres);
        desc.comment = self.text(comment);
        Job { slurm: self, desc }
    }
}

/// A job descriptor whose texts are Slurm's.
pub(crate) struct Job {
    slurm: Slurm,
    pub(crate) desc: job_desc_msg_t,
}

/// What came of a submission.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Submitted {
    pub(crate) rc: c_int,
    pub(crate) err_msg: Option<String>,
    pub(crate) qos: Option<String>,
    pub(crate) admin_comment: Option<String>,
    pub(crate) site_factor: u32,
}

impl Job {
    pub(crate) fn account(mut self, account: &str) -> Self {
        self.desc.account = self.slurm.text(account);
        self
    }

    pub(crate) fn name(mut self, name: &str) -> Self {
        self.desc.name = self.slurm.text(name);
        self
    }

    pub(crate) fn admin_comment(mut self, text: &str) -> Self {
        self.desc.admin_comment = self.slurm.text(text);
        self
    }

    /// Hands the job to the plugin, with `err_msg` as another plugin left it.
    pub(crate) fn submit(mut self, plugin: Library, err_msg: Option<&str>) -> Submitted {
        let mut err_msg = err_msg.map_or(std::ptr::null_mut(), |text| self.slurm.text(text));
        // SAFETY: the type of job_submit in Slurm's job_submit.c; descriptor and message are of Slurm's allocator.
        let rc = unsafe {
            let job_submit: unsafe extern "C" fn(*mut job_desc_msg_t, u32, *mut *mut c_char) -> c_int =
                plugin.function(c"job_submit");
            job_submit(&raw mut self.desc, 1001, &raw mut err_msg)
        };
        Submitted {
            rc,
            err_msg: self.slurm.take(&mut err_msg),
            qos: self.slurm.take(&mut self.desc.qos),
            admin_comment: self.slurm.take(&mut self.desc.admin_comment),
            site_factor: self.desc.site_factor,
        }
    }
}
