//! The plugins inside of what they take for slurmctld: repricing, the end of the role, changes of jobs.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::time::Instant;

use slurm_sys::{
    ESLURM_INVALID_GRES, ESLURM_INVALID_TIME_LIMIT, JOB_RUNNING, NICE_OFFSET, NO_VAL, job_desc_msg_t,
};

use crate::artifacts::{Build, JOB_SUBMIT, SITE_FACTOR};
use crate::daemon::{Daemon, factors, market};
use crate::slurm::{Library, Slurm};
use crate::slurmctld::{MockJob, Slurmctld};
use crate::version::{CHANGES_HAVE_ERR_MSG, NOT_WHOLE_NODES, WHOLE_NODES};
use crate::{FINI_MAX, LOADER_FLAGS, eventually, in_own_process, socket, threads_named};

/// Loads the site_factor plugin into what it takes for slurmctld.
fn load_into_slurmctld(plugins: &Path, folder: &Path) -> (Slurmctld, Library) {
    Slurm::load();
    let slurmctld = Slurmctld::load(folder);
    let plugin = Library::open(&plugins.join(SITE_FACTOR), LOADER_FLAGS);
    slurmctld.start(plugin);
    (slurmctld, plugin)
}

#[test]
fn repricing_touches_the_jobs_that_are_meant_and_tells_once() {
    in_own_process(
        "inside::repricing_touches_the_jobs_that_are_meant_and_tells_once",
        Build::Plain,
        |plugins, folder| {
            let (slurmctld, plugin) = load_into_slurmctld(plugins, folder);
            let pending = MockJob::pending;
            for job in [
                pending(1),
                MockJob { priority: 0, ..pending(2) },
                MockJob { priority: NO_VAL, ..pending(3) },
                MockJob { direct_set_prio: 1, ..pending(4) },
                MockJob { submit_time: 8, ..pending(5) },
                MockJob { state: JOB_RUNNING, ..pending(6) },
                MockJob { magic_is_wrong: 1, ..pending(7) },
                MockJob { site_factor: NICE_OFFSET + 65, ..pending(8) },
                pending(9),
            ] {
                slurmctld.add(&job);
            }
            let many = 100..700;
            for job_id in many.clone() {
                slurmctld.add(&pending(job_id));
            }
            let daemon =
                Daemon::start(&socket(folder), factors((1..=8).chain(many.clone()).chain([9_999]), 65));
            plugin.call(c"init");
            eventually("the scheduler's turn", || (slurmctld.count(c"mock_kicks") == 1).then_some(()));
            assert_eq!(slurmctld.of(1), (65, 1_065));
            for (job_id, priority) in
                [(2, 0), (3, NO_VAL), (4, 1_000), (5, 1_000), (6, 1_000), (7, 1_000), (9, 1_000)]
            {
                assert_eq!(slurmctld.of(job_id), (0, priority), "{job_id}");
            }
            assert!(many.clone().all(|job_id| slurmctld.of(job_id) == (65, 1_065)));
            assert_eq!(slurmctld.count(c"mock_prio_calls"), 601);
            assert_eq!(slurmctld.count(c"mock_announced"), 1);
            assert_eq!(slurmctld.count(c"mock_holds"), 4, "three pieces and the announcement");

            // The whole snapshot again, with one change: all are looked at, one is touched.
            daemon.say(factors((1..=8).chain(many), 65).into_iter().chain(factors([9], 129)).collect());
            eventually("the next round", || (slurmctld.count(c"mock_kicks") == 2).then_some(()));
            assert_eq!(slurmctld.count(c"mock_prio_calls"), 602);
            assert_eq!(slurmctld.of(9), (129, 1_129));
            plugin.call(c"fini");
        },
    );
}

#[test]
fn fini_waits_for_no_lock_of_slurm() {
    in_own_process("inside::fini_waits_for_no_lock_of_slurm", Build::Plain, |plugins, folder| {
        let (slurmctld, plugin) = load_into_slurmctld(plugins, folder);
        slurmctld.add(&MockJob::pending(1));
        slurmctld.add(&MockJob::pending(2));
        let daemon = Daemon::start(&socket(folder), factors([1, 2], 65));
        // Reconfiguring, slurmctld runs fini with every lock held; a priority plugin's fini holds the context's.
        for (hold, release, reached) in
            [(c"mock_hold_jobs", c"mock_release_jobs", 0), (c"mock_hold_context", c"mock_release_context", 1)]
        {
            slurmctld.call(hold);
            plugin.call(c"init");
            eventually("the thread's wait for a lock", || {
                (slurmctld.count(c"mock_waiters") == 1).then_some(())
            });
            let began = Instant::now();
            plugin.call(c"fini");
            assert!(began.elapsed() < FINI_MAX, "{:?}", began.elapsed());
            assert_eq!(threads_named("bid-reprice"), 1, "it is left behind");
            slurmctld.call(release);
            eventually("the end of the thread", || (threads_named("bid-reprice") == 0).then_some(()));
            assert_eq!(slurmctld.count(c"mock_prio_calls"), reached, "it goes no further than it was");
            assert_eq!(slurmctld.count(c"mock_kicks"), 0);
        }
        daemon.say(factors([1, 2], 129));
        plugin.call(c"init");
        eventually("repricing as ever", || (slurmctld.of(2).0 == 129).then_some(()));
        plugin.call(c"fini");
    });
}

#[test]
fn a_slurmctld_that_shuts_down_is_left_alone() {
    in_own_process("inside::a_slurmctld_that_shuts_down_is_left_alone", Build::Plain, |plugins, folder| {
        let (slurmctld, plugin) = load_into_slurmctld(plugins, folder);
        slurmctld.add(&MockJob::pending(1));
        slurmctld.call(c"mock_shut_down");
        let _daemon = Daemon::start(&socket(folder), factors([1], 65));
        plugin.call(c"init");
        eventually("a piece that ends at once", || (slurmctld.count(c"mock_holds") == 1).then_some(()));
        plugin.call(c"fini");
        assert_eq!((slurmctld.count(c"mock_prio_calls"), slurmctld.count(c"mock_kicks")), (0, 0));
        assert_eq!(slurmctld.of(1), (0, 1_000));
    });
}

#[test]
fn a_new_priority_starts_from_the_published_factor() {
    in_own_process(
        "inside::a_new_priority_starts_from_the_published_factor",
        Build::Plain,
        |plugins, folder| {
            let (slurmctld, plugin) = load_into_slurmctld(plugins, folder);
            slurmctld.add(&MockJob::pending(1));
            let _daemon = Daemon::start(&socket(folder), factors([1, 2, 20], 65));
            plugin.call(c"init");
            eventually("the factors", || (slurmctld.of(1).0 == 65).then_some(()));
            let set = |job: &MockJob| {
                let record = slurmctld.add(job);
                // SAFETY: the type of site_factor_p_set; the record is one of Slurm's layout.
                unsafe { plugin.function::<unsafe extern "C" fn(*mut c_void)>(c"site_factor_p_set")(record) }
                slurmctld.of(job.job_id).0
            };
            assert_eq!(set(&MockJob::pending(2)), 65);
            assert_eq!(
                set(&MockJob { site_factor: NICE_OFFSET + 9, ..MockJob::pending(3) }),
                9,
                "as job_submit left it"
            );
            assert_eq!(set(&MockJob { array_job_id: 20, ..MockJob::pending(21) }), 65, "its array's");
            assert_eq!(set(&MockJob { state: JOB_RUNNING, array_job_id: 20, ..MockJob::pending(22) }), 0);
            plugin.call(c"fini");
            assert_eq!(
                set(&MockJob { array_job_id: 20, ..MockJob::pending(23) }),
                0,
                "after fini nothing is touched"
            );
        },
    );
}

#[test]
fn a_panic_over_a_factor_leaves_it_as_it_is() {
    in_own_process(
        "inside::a_panic_over_a_factor_leaves_it_as_it_is",
        Build::Panicking,
        |plugins, folder| {
            let (slurmctld, plugin) = load_into_slurmctld(plugins, folder);
            slurmctld.add(&MockJob { comment: c"a force-panic b".as_ptr(), ..MockJob::pending(1) });
            slurmctld.add(&MockJob::pending(2));
            let _daemon = Daemon::start(&socket(folder), factors([1, 2], 65));
            plugin.call(c"init");
            // The first panics inside Slurm's lock, in the middle of a round; the round goes on.
            eventually("the second job's factor", || (slurmctld.of(2) == (65, 1_065)).then_some(()));
            plugin.call(c"fini");
        },
    );
}

/// Asks job_modify: the error code, and what the user reads.
fn modify(
    slurm: Slurm,
    plugin: Library,
    job: *mut c_void,
    uid: u32,
    change: impl FnOnce(&mut job_desc_msg_t),
) -> (c_int, Option<String>) {
    let mut desc = slurm.change();
    change(&mut desc);
    let mut err_msg: *mut c_char = std::ptr::null_mut();
    // SAFETY: a superset of job_modify's arguments; descriptor and record are Slurm's.
    let rc = unsafe {
        let job_modify: unsafe extern "C" fn(
            *mut job_desc_msg_t,
            *mut c_void,
            u32,
            *mut *mut c_char,
        ) -> c_int = plugin.function(c"job_modify");
        job_modify(&raw mut desc, job, uid, &raw mut err_msg)
    };
    (rc, slurm.take(&mut err_msg))
}

#[test]
fn changes_are_judged_by_who_asks() {
    in_own_process("inside::changes_are_judged_by_who_asks", Build::Plain, |plugins, folder| {
        let slurm = Slurm::load();
        let slurmctld = Slurmctld::load(folder);
        let plugin = Library::open(&plugins.join(JOB_SUBMIT), LOADER_FLAGS);
        plugin.call(c"init");
        let stamp = c"bid:0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e 3.5 tier=standard";
        let job = slurmctld.add(&MockJob { admin_comment: stamp.as_ptr(), ..MockJob::pending(1) });
        let modify = |uid, change: fn(&mut job_desc_msg_t)| modify(slurm, plugin, job, uid, change);
        let passed = (0, None);
        let refused = c_int::try_from(ESLURM_INVALID_TIME_LIMIT).expect("small");
        let longer = |desc: &mut job_desc_msg_t| desc.time_limit = 61;
        let sentence = "bid: job 1: the time limit of a job with a bid cannot be raised; submit it again, or ask an operator";
        let told = CHANGES_HAVE_ERR_MSG.then(|| sentence.to_owned());
        assert_eq!(modify(1001, longer), (refused, told));
        for operator in [0, 500] {
            assert_eq!(modify(operator, longer), passed);
        }
        assert_eq!(modify(1001, |desc| desc.time_limit = 59), passed);
        assert_eq!(modify(1001, |_| {}), passed);
        plugin.call(c"fini");
        assert_eq!(modify(1001, longer), passed, "after fini nothing is judged");
    });
}

/// A job that takes its nodes with all that is in them cannot move to nodes with GPUs under a QOS of the market.
#[test]
fn whole_nodes_are_known_by_slurms_own_marks() {
    in_own_process("inside::whole_nodes_are_known_by_slurms_own_marks", Build::Plain, |plugins, folder| {
        let slurm = Slurm::load();
        let slurmctld = Slurmctld::load(folder);
        let _daemon = Daemon::start(&socket(folder), market(10, &[]));
        let plugin = Library::open(&plugins.join(JOB_SUBMIT), LOADER_FLAGS);
        plugin.call(c"init");
        let move_one_with = |whole_node| {
            let job = MockJob { whole_node, tres_per_node: std::ptr::null(), ..MockJob::pending(1) };
            let partitions = c"gpu,cpu".as_ptr().cast_mut();
            modify(slurm, plugin, slurmctld.add(&job), 1001, |desc| desc.partition = partitions).0
        };
        let refused = c_int::try_from(ESLURM_INVALID_GRES).expect("small");
        eventually("the partitions", || (move_one_with(WHOLE_NODES[0]) == refused).then_some(()));
        assert!(WHOLE_NODES.iter().all(|marks| move_one_with(*marks) == refused));
        assert!(NOT_WHOLE_NODES.iter().all(|marks| move_one_with(*marks) == 0));
        plugin.call(c"fini");
    });
}
