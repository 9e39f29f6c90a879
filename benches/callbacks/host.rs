//! A process that the plugins take for slurmctld: Slurm's own library, a stand-in for slurmctld's symbols, the shipped
//! plugins beside Debian's job_submit/lua with a function that does nothing, and a daemon behind a socket.

use std::ffi::{CString, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use slurm_sys::job_desc_msg_t;

use crate::market::{self, PARTITIONS, PENDING_JOBS, SUBMITTED_S};
use crate::service::Service;
use crate::slurm::{Library, Slurm};

/// Slurm's loader uses these.
const LOADER_FLAGS: c_int = libc::RTLD_LAZY | libc::RTLD_LOCAL;
const ATTACH_DEADLINE: Duration = Duration::from_secs(30);

/// Slurm's own advice of what a script must have, and nothing else.
const EMPTY_LUA: &str = "\
function slurm_job_submit(job_desc, part_list, submit_uid)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
";

pub(crate) type JobSubmit = unsafe extern "C" fn(*mut job_desc_msg_t, u32, *mut *mut c_char) -> c_int;
pub(crate) type SiteFactorSet = unsafe extern "C" fn(*mut c_void);

pub(crate) struct Host {
    pub(crate) slurm: Slurm,
    pub(crate) job_submit_bid: JobSubmit,
    pub(crate) job_submit_lua: JobSubmit,
    pub(crate) site_factor_set: SiteFactorSet,
    slurmctld: Library,
    plugins: [Library; 2],
    _service: Service,
}

impl Host {
    /// `folder` holds configuration, socket and plugins.
    pub(crate) fn start(folder: &Path) -> Self {
        configure(folder);
        let slurm = Slurm::load();
        let slurmctld =
            Library::open(Path::new(env!("SLURMCTLD_STAND_IN")), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        // SAFETY: the type in slurmctld.c.
        unsafe { slurmctld.function::<extern "C" fn(u32)>(c"bench_set_up")(PARTITIONS) };
        let service = Service::start(&folder.join("plugin.sock"), market::rows());
        let built = benches::build(&["job-submit-bid", "site-factor-bid"]);
        let load = |path: PathBuf| {
            let plugin = Library::open(&path, LOADER_FLAGS);
            assert_eq!(plugin.call(c"init"), 0, "{} starts", path.display());
            plugin
        };
        let plugins = ["job_submit_bid.so", "site_factor_bid.so"]
            .map(|name| load(benches::copy_plugin(&built, name, folder)));
        let lua = load(Slurm::plugin_dir().join("job_submit_lua.so"));
        // SAFETY: the types in Slurm's job_submit.c and site_factor.c.
        let host = unsafe {
            Self {
                slurm,
                job_submit_bid: plugins[0].function(c"job_submit"),
                job_submit_lua: lua.function(c"job_submit"),
                site_factor_set: plugins[1].function(c"site_factor_p_set"),
                slurmctld,
                plugins,
                _service: service,
            }
        };
        host.await_snapshots();
        host
    }

    /// The record of a job whose factor the snapshot has.
    pub(crate) fn pending_job(&self, job_id: u32, comment: &str) -> *mut c_void {
        let comment = CString::new(comment).expect("no NUL");
        // SAFETY: the type in slurmctld.c, which copies the text.
        unsafe {
            let new: extern "C" fn(u32, i64, *const c_char) -> *mut c_void =
                self.slurmctld.function(c"bench_pending_job");
            new(job_id, SUBMITTED_S, comment.as_ptr())
        }
    }

    /// Until both plugins do what only their snapshots can make them do.
    fn await_snapshots(&self) {
        let record = self.pending_job(PENDING_JOBS, "bid:3.5");
        let began = Instant::now();
        loop {
            let mut job = self.slurm.job("gres:gpu:h100:8", "bid:3.5");
            job.desc.user_id = market::FIRST_UID;
            let mut err_msg = std::ptr::null_mut();
            // SAFETY: descriptor and message are of Slurm's allocator, the record is one of Slurm's layout.
            unsafe {
                (self.job_submit_bid)(&raw mut job.desc, job.desc.user_id, &raw mut err_msg);
                (self.site_factor_set)(record);
            }
            // SAFETY: the type in slurmctld.c.
            let factor =
                unsafe { self.slurmctld.function::<extern "C" fn(*mut c_void) -> u32>(c"bench_site_factor") };
            let qos = self.slurm.take(&mut job.desc.qos);
            if qos.as_deref() == Some("standard") && factor(record) > slurm_sys::NICE_OFFSET {
                return;
            }
            assert!(began.elapsed() < ATTACH_DEADLINE, "the plugins do not get their snapshots");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for plugin in self.plugins {
            plugin.call(c"fini");
        }
    }
}

fn configure(folder: &Path) {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("room for a file");
    write("market.toml", format!("socket_dir = {folder:?}\n[pools.h100]\nweight = 1\n"));
    write("slurm.conf", String::new());
    write("job_submit.lua", EMPTY_LUA.to_owned());
    // SAFETY: the process has one thread yet.
    unsafe {
        std::env::set_var("QUOTAMARKET_CONFIG", folder.join("market.toml"));
        // job_submit/lua looks for its script beside it.
        std::env::set_var("SLURM_CONF", folder.join("slurm.conf"));
    }
}
