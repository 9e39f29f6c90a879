//! The built plugins in a host process that stands for slurmctld: Slurm's own library is loaded for all, then the
//! plugins as Slurm loads them. Each case has a process of its own, since a plugin lives once in a process.

mod artifacts;
mod daemon;
mod inside;
mod priority;
mod slurm;
mod slurmctld;
mod version;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use artifacts::{Build, FOLDER_VARIABLE, JOB_SUBMIT, PLUGINS, PRIORITY, SITE_FACTOR};
use daemon::{Daemon, market};
use market::stamp::Stamp;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _};
use object::{Object as _, ObjectSymbol as _, elf};
use slurm::{Library, Slurm, Submitted};
use slurm_sys::{ESLURM_ACCOUNTING_POLICY, NICE_OFFSET, NO_VAL, SLURM_ERROR, SLURM_VERSION_NUMBER};

/// Slurm's loader uses these.
const LOADER_FLAGS: c_int = libc::RTLD_LAZY | libc::RTLD_LOCAL;
const DEADLINE: Duration = Duration::from_secs(60);
/// What design and traps allow `fini`, with room for a slow machine.
const FINI_MAX: Duration = Duration::from_millis(600);

/// Runs `case` in a process of its own, with a folder for its sockets and configuration.
fn in_own_process(name: &str, build: Build, case: impl FnOnce(&Path, &Path)) {
    const CASE: &str = "QUOTAMARKET_TEST_CASE";
    // PluginDir is a list with colons.
    let folder = env::temp_dir().join(format!("qm-{}-{}", name.replace("::", "-"), std::process::id()));
    if let Some(folder) = env::var_os(CASE) {
        return case(&artifacts::folder(build), &PathBuf::from(folder));
    }
    let plugins = artifacts::folder(build);
    fs::create_dir_all(&folder).expect("a folder");
    let config = folder.join("market.toml");
    let text =
        format!("poll_s = 1\nstale_after_s = 2\nsocket_dir = {:?}\n[pools.a100]\nweight = 1\n", folder);
    fs::write(&config, text).expect("room for a file");
    let output = Command::new(env::current_exe().expect("the test's own path"))
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CASE, &folder)
        .env(FOLDER_VARIABLE, &plugins)
        .env("QUOTAMARKET_CONFIG", &config)
        .output()
        .expect("the test runs");
    fs::remove_dir_all(&folder).expect("nobody else's folder");
    let told =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{}\n{told}", output.status);
}

#[track_caller]
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < DEADLINE, "{what} did not happen in {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("plugin.sock")
}

fn tier(submitted: &Submitted) -> Option<String> {
    let (stamp, _) = Stamp::find(submitted.admin_comment.as_deref()?)?;
    Some(format!("{}{}", stamp.tier, if stamp.unavailable { " unavailable" } else { "" }))
}

fn uuid(submitted: &Submitted) -> String {
    let admin_comment = submitted.admin_comment.as_deref().unwrap_or_default();
    Stamp::find(admin_comment).expect("a stamp").0.uuid
}

/// Asks with other money than the tests count, until the answer is `expected`.
fn await_tier(slurm: Slurm, plugin: Library, expected: &str) {
    eventually(expected, || {
        let submitted = slurm.job("gres:gpu:1", "bid:0.3125").account("probe").submit(plugin, None);
        (tier(&submitted).as_deref() == Some(expected)).then_some(())
    });
}

#[test]
fn the_files_are_what_slurms_loader_wants() {
    let common = ["plugin_name", "plugin_type", "plugin_version", "init", "fini"];
    let roles: [(&str, &[&str]); 3] = [
        (JOB_SUBMIT, &["job_submit", "job_modify"]),
        (SITE_FACTOR, &["site_factor_p_reconfig", "site_factor_p_set", "site_factor_p_update"]),
        (
            PRIORITY,
            &[
                "priority_p_calc_fs_factor",
                "priority_p_get_priority_factors_list",
                "priority_p_job_end",
                "priority_p_reconfig",
                "priority_p_recover",
                "priority_p_set",
                "priority_p_set_assoc_usage",
                "priority_p_thread_start",
            ],
        ),
    ];
    for (name, own) in roles {
        let bytes = fs::read(artifacts::folder(Build::Plain).join(name)).expect("cargo built it");
        let file = ElfFile64::<object::LittleEndian>::parse(&*bytes).expect("an ELF file");
        let mut exported: Vec<_> = file
            .dynamic_symbols()
            .filter(|symbol| symbol.is_definition())
            .map(|symbol| symbol.name().expect("a name"))
            .collect();
        let mut expected = [&common[..], own].concat();
        exported.sort_unstable();
        expected.sort_unstable();
        assert_eq!(exported, expected, "{name}: nothing else may be seen, nothing may be missing");
        let (needed, flags_1) = dynamic(&bytes);
        assert!(!needed.iter().any(|library| library.contains("slurm")), "{name} needs {needed:?}");
        assert_eq!(
            flags_1 & u64::from(elf::DF_1_NODELETE),
            u64::from(elf::DF_1_NODELETE),
            "{name} must stay mapped"
        );
    }
}

/// DT_NEEDED and DT_FLAGS_1.
fn dynamic(bytes: &[u8]) -> (Vec<String>, u64) {
    let header = elf::FileHeader64::<object::LittleEndian>::parse(bytes).expect("a header");
    let endian = header.endian().expect("an endianness");
    let sections = header.sections(endian, bytes).expect("sections");
    let (entries, strings) = sections.dynamic(endian, bytes).expect("readable").expect("a dynamic section");
    let strings = sections.strings(endian, bytes, strings).expect("its strings");
    let with_tag = |tag| entries.iter().filter(move |entry| entry.d_tag(endian) == tag);
    let needed = with_tag(elf::DT_NEEDED.into()).map(|entry| {
        let name = entry.string(endian, strings).expect("a name");
        String::from_utf8_lossy(name).into_owned()
    });
    (needed.collect(), with_tag(elf::DT_FLAGS_1.into()).map(|entry| entry.d_val(endian)).sum())
}

/// sshare and others look into plugins: without slurmctld, and without Slurm at all, nothing may fail.
#[test]
fn a_process_without_slurm_can_load_the_plugins() {
    in_own_process("a_process_without_slurm_can_load_the_plugins", Build::Plain, |plugins, _| {
        let types = [c"job_submit/bid", c"site_factor/bid", c"priority/bid"];
        for (name, plugin_type) in PLUGINS.into_iter().zip(types) {
            let plugin = Library::open(&plugins.join(name), libc::RTLD_NOW | libc::RTLD_LOCAL);
            // SAFETY: arrays and a number at the symbols' own addresses, as Slurm reads them.
            unsafe {
                assert_eq!(CStr::from_ptr(plugin.address(c"plugin_type").cast()), plugin_type);
                assert!(
                    CStr::from_ptr(plugin.address(c"plugin_name").cast())
                        .to_bytes()
                        .starts_with(b"Quota Marketplace: ")
                );
                assert_eq!(*plugin.address(c"plugin_version").cast::<u32>(), SLURM_VERSION_NUMBER);
            }
            // Only the priority role needs something of Slurm's, and says so.
            assert_eq!(plugin.call(c"init"), if name == PRIORITY { SLURM_ERROR } else { 0 });
            plugin.call(c"fini");
        }
    });
}

/// Once before Slurm's library is there, once after: whichever way symbols are bound.
#[test]
fn the_plugins_load_lazily_and_at_once() {
    in_own_process("the_plugins_load_lazily_and_at_once", Build::Plain, |plugins, folder| {
        Slurm::load().read_conf(folder, Slurm::plugin_dir(), "");
        for flags in [LOADER_FLAGS, libc::RTLD_NOW | libc::RTLD_LOCAL] {
            for name in PLUGINS {
                let plugin = Library::open(&plugins.join(name), flags);
                assert_eq!(plugin.call(c"init"), 0);
                plugin.call(c"fini");
                plugin.close();
            }
        }
    });
}

#[test]
fn a_bid_is_accepted_with_qos_factor_and_stamp() {
    in_own_process("a_bid_is_accepted_with_qos_factor_and_stamp", Build::Plain, |plugins, folder| {
        let slurm = Slurm::load();
        let daemon = Daemon::start(&socket(folder), market(10, &[]));
        let plugin = Library::open(&plugins.join(JOB_SUBMIT), LOADER_FLAGS);
        assert_eq!(plugin.call(c"init"), 0);
        await_tier(slurm, plugin, "standard");
        let hello = daemon.hellos().pop().expect("a hello");
        assert_eq!(
            (hello.role(), hello.slurm_version.as_str()),
            (market_api::v1::Role::JobSubmit, env_version().as_str())
        );

        let submitted =
            slurm.job("gres:gpu:a100:2", "bid:0.625").admin_comment("site's").submit(plugin, Some("hello"));
        assert_eq!((submitted.rc, submitted.err_msg.as_deref()), (0, Some("hello")));
        assert_eq!(submitted.qos.as_deref(), Some("standard"));
        assert_eq!(submitted.site_factor, NICE_OFFSET + 147_457);
        let uuid = uuid(&submitted);
        assert_eq!(submitted.admin_comment, Some(format!("site's; bid:{uuid} 0.625 tier=standard")));
        eventually("the hint", || daemon.submitted().contains(&uuid).then_some(()));

        let short = slurm.job("gres:gpu:8", "bid:2").submit(plugin, Some("site's line"));
        assert_eq!(short.rc, i32::try_from(ESLURM_ACCOUNTING_POLICY).expect("small"));
        let sentence = "bid: needs 16 SU (8 GPUs x 1 h x 2) but account vision has 8.75 SU free; lower the limit or hours, or bid:0 for the free tier";
        assert_eq!(short.err_msg, Some(format!("site's line\n{sentence}")));
        assert_eq!((short.qos, short.admin_comment, short.site_factor), (None, None, NO_VAL));

        let malformed = slurm.job("gres:gpu:1", "bid:x").submit(plugin, None);
        assert!(malformed.rc != 0 && malformed.err_msg.is_some_and(|text| text.starts_with("bid: ")));
        let plain = slurm.job("gres:gpu:1", "no token").submit(plugin, None);
        assert_eq!((plain.rc, plain.qos, plain.admin_comment, plain.site_factor), (0, None, None, NO_VAL));
        let free = slurm.job("gres:gpu:1", "bid:0").submit(plugin, None);
        assert_eq!((free.rc, free.qos.as_deref(), free.site_factor), (0, Some("free"), NICE_OFFSET));
        plugin.call(c"fini");
    });
}

fn env_version() -> String {
    let number = SLURM_VERSION_NUMBER;
    format!("{}.{:02}.{}", number >> 16, number >> 8 & 0xff, number & 0xff)
}

#[test]
fn concurrent_submissions_share_the_funds() {
    in_own_process("concurrent_submissions_share_the_funds", Build::Plain, |plugins, folder| {
        let slurm = Slurm::load();
        let daemon = Daemon::start(&socket(folder), market(10, &[]));
        let plugin = Library::open(&plugins.join(JOB_SUBMIT), LOADER_FLAGS);
        plugin.call(c"init");
        await_tier(slurm, plugin, "standard");
        let submit = || {
            let submitted = slurm.job("gres:gpu:1", "bid:1").submit(plugin, None);
            (submitted.rc == 0).then(|| uuid(&submitted))
        };
        let accepted: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| (0..10).filter_map(|_| submit()).collect())).collect();
            threads
                .into_iter()
                .flat_map(|thread| -> Vec<String> { thread.join().expect("no panic") })
                .collect()
        });
        assert_eq!(accepted.len(), 10, "10 SU for jobs of 1 SU");
        // The daemon knows seven of them by now and has earmarked these: 3 SU are free, which the other three hold.
        daemon.say(market(3, &accepted[..7]));
        await_probe(slurm, plugin, &daemon);
        assert_eq!(submit(), None);
        // All are known, and somebody deposited 2 SU.
        daemon.say(market(2, &accepted));
        eventually("the deposit", submit);
        eventually("the second SU", submit);
        assert_eq!(submit(), None);
        plugin.call(c"fini");
    });
}

/// Waits until the plugin has taken up what the daemon said last: a restriction that only this snapshot has.
fn await_probe(slurm: Slurm, plugin: Library, _daemon: &Daemon) {
    eventually("the new snapshot", || {
        let submitted = slurm.job("gres:gpu:8", "bid:1").submit(plugin, None);
        let sentence = submitted.err_msg.expect("8 SU are never free here");
        sentence.contains("has 0 SU free").then_some(())
    });
}

#[test]
fn silence_is_an_outage_whatever_the_connection_says() {
    in_own_process("silence_is_an_outage_whatever_the_connection_says", Build::Plain, |plugins, folder| {
        let slurm = Slurm::load();
        let plugin = Library::open(&plugins.join(JOB_SUBMIT), LOADER_FLAGS);
        // Nobody is there yet: init waits for nobody.
        let began = Instant::now();
        plugin.call(c"init");
        assert!(began.elapsed() < FINI_MAX);
        let alone = slurm.job("gres:gpu:a100:1", "bid:2").submit(plugin, None);
        assert_eq!((tier(&alone).as_deref(), alone.qos.as_deref()), (Some("free unavailable"), Some("free")));
        assert_eq!(alone.site_factor, NICE_OFFSET);

        let daemon = Daemon::start(&socket(folder), market(1_000, &[]));
        await_tier(slurm, plugin, "standard");
        daemon.freeze();
        await_tier(slurm, plugin, "free unavailable");
        daemon.say(market(1_000, &[]));
        await_tier(slurm, plugin, "standard");
        drop(daemon);
        await_tier(slurm, plugin, "free unavailable");
        let _daemon = Daemon::start(&socket(folder), market(1_000, &[]));
        await_tier(slurm, plugin, "standard");
        plugin.call(c"fini");
    });
}

#[test]
fn fini_is_quick_and_init_works_again() {
    in_own_process("fini_is_quick_and_init_works_again", Build::Plain, |plugins, folder| {
        let slurm = Slurm::load();
        let _daemon = Daemon::start(&socket(folder), market(1_000, &[]));
        for _ in 0..3 {
            let plugin = Library::open(&plugins.join(JOB_SUBMIT), LOADER_FLAGS);
            // Twice: Slurm retries a plugin now and then.
            plugin.call(c"init");
            plugin.call(c"init");
            await_tier(slurm, plugin, "standard");
            for _ in 0..2 {
                let began = Instant::now();
                plugin.call(c"fini");
                assert!(began.elapsed() < FINI_MAX, "{:?}", began.elapsed());
            }
            let after = slurm.job("gres:gpu:1", "bid:x").submit(plugin, None);
            assert_eq!(
                (after.rc, after.qos, after.err_msg),
                (0, None, None),
                "after fini nothing is touched"
            );
            eventually("the end of the thread", || (threads_named("bid-submit") == 0).then_some(()));
            plugin.close();
        }
    });
}

fn threads_named(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux");
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| found.trim() == name).count()
}

#[test]
fn null_and_missing_pieces_are_harmless() {
    in_own_process("null_and_missing_pieces_are_harmless", Build::Plain, |plugins, _| {
        let slurm = Slurm::load();
        let submit = Library::open(&plugins.join(JOB_SUBMIT), LOADER_FLAGS);
        let factor = Library::open(&plugins.join(SITE_FACTOR), LOADER_FLAGS);
        submit.call(c"init");
        factor.call(c"init");
        assert_eq!(threads_named("bid-reprice"), 0, "nothing to reprice outside of slurmctld");
        let null = std::ptr::null_mut::<c_void>();
        // SAFETY: the functions' types, but for pointers to what they never look at here; NULL is allowed.
        unsafe {
            let job_submit: unsafe extern "C" fn(*mut c_void, u32, *mut *mut c_char) -> c_int =
                submit.function(c"job_submit");
            assert_eq!(job_submit(null, 0, std::ptr::null_mut()), 0);
            let job_modify: unsafe extern "C" fn(*mut c_void, *mut c_void, u32, *mut *mut c_char) -> c_int =
                submit.function(c"job_modify");
            assert_eq!(job_modify(null, null, 0, std::ptr::null_mut()), 0);
            let mut job = slurm.job("", "");
            assert_eq!(job_modify((&raw mut job.desc).cast(), null, 0, std::ptr::null_mut()), 0);
            job.desc.comment = std::ptr::null_mut();
            job.desc.tres_per_node = std::ptr::null_mut();
            job.desc.time_limit = NO_VAL;
            assert_eq!(job_submit((&raw mut job.desc).cast(), 0, std::ptr::null_mut()), 0);
            // A refusal that nobody can be told.
            let mut job = slurm.job("gres:gpu:1", "bid:x");
            assert_ne!(job_submit((&raw mut job.desc).cast(), 0, std::ptr::null_mut()), 0);
            let set: unsafe extern "C" fn(*mut c_void) = factor.function(c"site_factor_p_set");
            set(null);
        }
        factor.call(c"site_factor_p_update");
        factor.call(c"site_factor_p_reconfig");
        factor.call(c"fini");
        submit.call(c"fini");
    });
}

#[test]
fn the_bid_of_the_environment_counts_for_sbatch() {
    in_own_process("the_bid_of_the_environment_counts_for_sbatch", Build::Plain, |plugins, _| {
        let slurm = Slurm::load();
        let plugin = Library::open(&plugins.join(JOB_SUBMIT), LOADER_FLAGS);
        plugin.call(c"init");
        let mut environment = [c"PATH=/bin", c"SBATCH_BID=0", c"HOME=/"].map(|text| text.as_ptr().cast_mut());
        let mut job = slurm.job("gres:gpu:1", "rule_x_wildcards_y");
        job.desc.environment = environment.as_mut_ptr();
        job.desc.env_size = 3;
        assert_eq!(tier(&job.submit(plugin, None)).as_deref(), Some("free"));
        plugin.call(c"fini");
    });
}

#[test]
fn a_missing_configuration_is_told_and_survived() {
    in_own_process("a_missing_configuration_is_told_and_survived", Build::Plain, |plugins, folder| {
        fs::remove_file(folder.join("market.toml")).expect("it was there");
        let slurm = Slurm::load();
        let plugin = Library::open(&plugins.join(JOB_SUBMIT), LOADER_FLAGS);
        assert_eq!(plugin.call(c"init"), 0);
        let submitted = slurm.job("gres:gpu:a100:1", "bid:2").submit(plugin, None);
        assert_eq!(tier(&submitted).as_deref(), Some("free unavailable"));
        plugin.call(c"fini");
    });
}

#[test]
fn a_panic_stays_inside_and_lets_the_job_pass() {
    in_own_process("a_panic_stays_inside_and_lets_the_job_pass", Build::Panicking, |plugins, _| {
        let slurm = Slurm::load();
        let plugin = Library::open(&plugins.join(JOB_SUBMIT), LOADER_FLAGS);
        plugin.call(c"init");
        for _ in 0..3 {
            let submitted = slurm.job("gres:gpu:1", "bid:0").name("force-panic").submit(plugin, None);
            assert_eq!((submitted.rc, submitted.qos, submitted.err_msg), (0, None, None));
        }
        let other = slurm.job("gres:gpu:1", "bid:0").name("other").submit(plugin, None);
        assert_eq!(tier(&other).as_deref(), Some("free"));
        plugin.call(c"fini");
    });
}
