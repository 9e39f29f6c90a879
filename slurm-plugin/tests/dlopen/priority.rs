//! The priority role: what is handed on to multifactor, and what is not.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::time::Instant;

use slurm_sys::{JOB_RUNNING, NICE_OFFSET, SLURM_ERROR};

use crate::artifacts::{Build, PRIORITY};
use crate::daemon::{Daemon, factors};
use crate::slurm::{Library, Slurm};
use crate::slurmctld::{MockJob, Slurmctld, compile};
use crate::version::PRIORITY_IS_STARTED_IN_STEPS;
use crate::{FINI_MAX, LOADER_FLAGS, eventually, in_own_process, socket, threads_named};

/// Loads the plugin into what it takes for slurmctld, with a stand-in of priority/multifactor in its PluginDir.
fn load_into_slurmctld(plugins: &Path, folder: &Path, conf: &str) -> (Slurmctld, Plugin) {
    let slurm = Slurm::load();
    let slurmctld = Slurmctld::load(folder);
    let stand_in = compile("multifactor", folder);
    std::fs::rename(stand_in, folder.join("priority_multifactor.so")).expect("the same folder");
    slurm.read_conf(folder, folder, conf);
    let plugin = Library::open(&plugins.join(PRIORITY), LOADER_FLAGS);
    slurmctld.start_with_priority(plugin);
    (slurmctld, Plugin(plugin))
}

/// The functions of a priority plugin, as Slurm's slurm_priority.c calls them.
#[derive(Clone, Copy)]
struct Plugin(Library);

impl Plugin {
    fn init(self) -> c_int {
        self.0.call(c"init")
    }

    fn fini(self) {
        let began = Instant::now();
        self.0.call(c"fini");
        assert!(began.elapsed() < FINI_MAX, "{:?}", began.elapsed());
    }

    fn set(self, last_prio: u32, job: *mut c_void) -> u32 {
        // SAFETY: the function's type; a record of Slurm's layout.
        unsafe {
            self.0.function::<extern "C" fn(u32, *mut c_void) -> u32>(c"priority_p_set")(last_prio, job)
        }
    }

    fn reconfig(self, assoc_clear: bool) {
        // SAFETY: the function's type.
        unsafe { self.0.function::<extern "C" fn(bool)>(c"priority_p_reconfig")(assoc_clear) }
    }

    /// The stand-in takes a name for an association.
    fn set_assoc_usage(self, name: &CStr) {
        // SAFETY: the function's type, but for what it points to.
        unsafe {
            self.0.function::<extern "C" fn(*const c_char)>(c"priority_p_set_assoc_usage")(name.as_ptr())
        }
    }

    /// The boost is one more than asked for, as the stand-in has it.
    fn recover(self, prio_boost: u32) -> u32 {
        // SAFETY: the function's type.
        unsafe { self.0.function::<extern "C" fn(u32) -> u32>(c"priority_p_recover")(prio_boost) }
    }

    fn thread_start(self) -> c_int {
        self.0.call(c"priority_p_thread_start")
    }

    fn job_end(self, job: *mut c_void) {
        // SAFETY: the function's type; a record of Slurm's layout.
        unsafe { self.0.function::<extern "C" fn(*mut c_void)>(c"priority_p_job_end")(job) }
    }
}

/// Functions of a plugin that C must call.
#[derive(Clone, Copy)]
struct Caller(Library);

impl Caller {
    fn compile(folder: &Path) -> Self {
        Self(Library::open(&compile("calls", folder), libc::RTLD_NOW | libc::RTLD_LOCAL))
    }

    fn factor(self, plugin: Library, usage: f64, shares: f64) -> f64 {
        let function = plugin.address(c"priority_p_calc_fs_factor");
        // SAFETY: the type in calls.c, but for the function's.
        unsafe {
            self.0.function::<extern "C" fn(*mut c_void, f64, f64) -> f64>(c"call_fs_factor")(
                function, usage, shares,
            )
        }
    }

    fn difference_of_close_numbers(self, plugin: Library) -> f64 {
        let function = plugin.address(c"priority_p_calc_fs_factor");
        // SAFETY: as above.
        unsafe { self.0.function::<extern "C" fn(*mut c_void) -> f64>(c"call_with_close_numbers")(function) }
    }

    /// The stand-in answers with the uid for an address.
    fn factors_list(self, plugin: Library, uid: u32) -> usize {
        let function = plugin.address(c"priority_p_get_priority_factors_list");
        // SAFETY: as above; nobody follows the pointer.
        unsafe {
            self.0.function::<extern "C" fn(*mut c_void, u32) -> usize>(c"call_factors_list")(function, uid)
        }
    }
}

/// sshare reads slurm.conf and loads the priority plugin, and is not slurmctld.
#[test]
fn sshare_gets_multifactors_own_fair_share_factors() {
    in_own_process(
        "priority::sshare_gets_multifactors_own_fair_share_factors",
        Build::Plain,
        |plugins, folder| {
            let both = "PrioritySiteFactorPlugin=site_factor/bid\nFairShareDampeningFactor=2";
            Slurm::load().read_conf(folder, Slurm::plugin_dir(), both);
            let ours = Library::open(&plugins.join(PRIORITY), LOADER_FLAGS);
            assert_eq!(ours.call(c"init"), 0, "only slurmctld has site factors");
            assert_eq!(threads_named("bid-reprice"), 0);
            let path = Slurm::plugin_dir().join("priority_multifactor.so");
            let slurms = Library::open(&path, LOADER_FLAGS);
            let c = Caller::compile(folder);
            let pairs = [(0.0, 1.0), (0.5, 1.0), (1.0, 1.0), (0.125, 0.001), (3.0, 0.0), (1e-9, 1e9)];
            for (usage, shares) in pairs {
                let factor = c.factor(slurms, usage, shares);
                assert_eq!(c.factor(ours, usage, shares), factor, "{usage} of {shares}");
            }
            assert_eq!(c.factor(ours, 3.0, 7.0), 0.5f64.sqrt(), "2^-(1/1/2)");
            ours.call(c"fini");
            assert_eq!(c.factor(ours, 0.0, 1.0), 0.0, "after fini there is nobody to ask");
        },
    );
}

#[test]
fn every_call_is_handed_on_until_fini() {
    in_own_process("priority::every_call_is_handed_on_until_fini", Build::Plain, |plugins, folder| {
        let (slurmctld, plugin) = load_into_slurmctld(plugins, folder, "");
        let c = Caller::compile(folder);
        let job = slurmctld.add(&MockJob { site_factor: NICE_OFFSET + 9, ..MockJob::pending(1) });
        let all = || {
            let priority = plugin.set(500, job);
            plugin.reconfig(true);
            plugin.reconfig(false);
            plugin.set_assoc_usage(c"vision");
            plugin.job_end(job);
            let list = c.factors_list(plugin.0, 77);
            (priority, list, c.difference_of_close_numbers(plugin.0), slurmctld.seen())
        };
        let start = || (plugin.recover(4), plugin.thread_start(), slurmctld.seen());
        let untouched = (1_000, 0, 0.0, String::new());
        assert_eq!(all(), untouched, "before init");
        // Slurm loads it again after a take-over, and unloads it twice when a callback came late.
        for _ in 0..3 {
            assert_eq!(plugin.init(), 0);
            assert_eq!(slurmctld.seen(), "init", "a fresh copy");
            if PRIORITY_IS_STARTED_IN_STEPS {
                assert_eq!(start(), (5, 0, "recover; start of the thread".to_owned()));
            }
            let asked = "reconfig, clearing; reconfig; vision; end of 1; list for 77";
            assert_eq!(all(), (509, 77, 2f64.powi(-60), asked.to_owned()));
            plugin.fini();
            assert_eq!(slurmctld.seen(), "fini");
            plugin.fini();
            assert_eq!(all(), untouched, "after fini");
            assert_eq!(start(), (0, 0, String::new()), "after fini");
        }
        assert_eq!(plugin.init(), 0);
        assert_eq!(plugin.init(), 0);
        assert_eq!(slurmctld.seen(), "init; fini; init");
        plugin.fini();
    });
}

#[test]
fn a_priority_starts_from_the_published_factor() {
    in_own_process(
        "priority::a_priority_starts_from_the_published_factor",
        Build::Plain,
        |plugins, folder| {
            let (slurmctld, plugin) = load_into_slurmctld(plugins, folder, "");
            slurmctld.add(&MockJob::pending(1));
            let daemon = Daemon::start(&socket(folder), factors([1, 2, 3], 65));
            assert_eq!(plugin.init(), 0);
            eventually("repricing", || (slurmctld.of(1) == (65, 1_065)).then_some(()));
            assert_eq!(daemon.hellos().pop().expect("a hello").role(), market_api::v1::Role::Repricer);
            let set = |job: &MockJob| (plugin.set(7, slurmctld.add(job)), slurmctld.of(job.job_id).0);
            assert_eq!(set(&MockJob::pending(2)), (72, 65));
            let running = MockJob { state: JOB_RUNNING, site_factor: NICE_OFFSET + 9, ..MockJob::pending(3) };
            assert_eq!(set(&running), (16, 9), "only pending jobs are repriced");
            let unknown = MockJob { site_factor: NICE_OFFSET + 9, ..MockJob::pending(4) };
            assert_eq!(set(&unknown), (16, 9), "as job_submit left it");
            daemon.say(factors([1, 2, 3], 129));
            eventually("the next round", || (slurmctld.of(1) == (129, 1_129)).then_some(()));
            plugin.fini();
            assert_eq!(set(&MockJob { submit_time: 8, ..MockJob::pending(5) }), (1_000, 0));
        },
    );
}

/// sprio asks, and what it asks waits for a lock of Slurm.
#[test]
fn a_call_under_way_outlives_fini() {
    in_own_process("priority::a_call_under_way_outlives_fini", Build::Plain, |plugins, folder| {
        let (slurmctld, plugin) = load_into_slurmctld(plugins, folder, "");
        let c = Caller::compile(folder);
        for _ in 0..2 {
            assert_eq!(plugin.init(), 0);
            assert_eq!(slurmctld.seen(), "init", "a fresh copy");
            slurmctld.call(c"mock_hold_jobs");
            let asking = std::thread::spawn(move || c.factors_list(plugin.0, 77));
            eventually("the call", || (slurmctld.seen() == "list for 77").then_some(()));
            plugin.fini();
            assert_eq!(slurmctld.seen(), "fini");
            assert_eq!(plugin.init(), SLURM_ERROR, "the former copy is still in use");
            slurmctld.call(c"mock_release_jobs");
            assert_eq!(asking.join().expect("it comes back"), 77);
        }
        assert_eq!(slurmctld.seen(), "");
    });
}

#[test]
fn fini_waits_for_no_lock_of_slurm() {
    in_own_process("priority::fini_waits_for_no_lock_of_slurm", Build::Plain, |plugins, folder| {
        let (slurmctld, plugin) = load_into_slurmctld(plugins, folder, "");
        slurmctld.add(&MockJob::pending(1));
        let _daemon = Daemon::start(&socket(folder), factors([1], 65));
        slurmctld.call(c"mock_hold_jobs");
        assert_eq!(plugin.init(), 0);
        eventually("the thread's wait for a lock", || (slurmctld.count(c"mock_waiters") == 1).then_some(()));
        plugin.fini();
        assert_eq!(slurmctld.seen(), "init; fini");
        slurmctld.call(c"mock_release_jobs");
        eventually("the end of the thread", || (threads_named("bid-reprice") == 0).then_some(()));
        assert_eq!(slurmctld.of(1), (0, 1_000));
    });
}

#[test]
fn two_site_factors_are_refused() {
    in_own_process("priority::two_site_factors_are_refused", Build::Plain, |plugins, folder| {
        let both = "PrioritySiteFactorPlugin=site_factor/bid";
        let (slurmctld, plugin) = load_into_slurmctld(plugins, folder, both);
        assert_eq!(plugin.init(), SLURM_ERROR);
        assert_eq!(slurmctld.seen(), "", "multifactor is not even loaded");
        assert_eq!(threads_named("bid-reprice"), 0);
        plugin.fini();
    });
}

/// A call after fini makes Slurm load the plugin again while slurmctld ends.
#[test]
fn a_slurmctld_that_shuts_down_gets_no_new_multifactor() {
    in_own_process(
        "priority::a_slurmctld_that_shuts_down_gets_no_new_multifactor",
        Build::Plain,
        |plugins, folder| {
            let (slurmctld, plugin) = load_into_slurmctld(plugins, folder, "");
            let job = slurmctld.add(&MockJob::pending(1));
            slurmctld.call(c"mock_shut_down");
            assert_eq!(plugin.init(), 0);
            assert_eq!((plugin.set(7, job), slurmctld.seen()), (1_000, String::new()));
            assert_eq!(threads_named("bid-reprice"), 0);
            plugin.fini();
        },
    );
}

#[test]
fn a_missing_multifactor_is_told() {
    in_own_process("priority::a_missing_multifactor_is_told", Build::Plain, |plugins, folder| {
        Slurm::load().read_conf(folder, folder, "");
        let plugin = Library::open(&plugins.join(PRIORITY), LOADER_FLAGS);
        assert_eq!(plugin.call(c"init"), SLURM_ERROR);
        plugin.call(c"fini");
    });
}

#[test]
fn a_panic_over_a_factor_leaves_the_priority_to_multifactor() {
    in_own_process(
        "priority::a_panic_over_a_factor_leaves_the_priority_to_multifactor",
        Build::Panicking,
        |plugins, folder| {
            let (slurmctld, plugin) = load_into_slurmctld(plugins, folder, "");
            assert_eq!(plugin.init(), 0);
            let job = slurmctld.add(&MockJob { comment: c"force-panic".as_ptr(), ..MockJob::pending(1) });
            assert_eq!(plugin.set(7, job), 7);
            plugin.fini();
        },
    );
}
