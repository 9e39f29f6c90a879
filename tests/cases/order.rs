//! Bids decide the order, and a changed bid shows at once.

use std::time::Duration;

use system_tests::{Cluster, eventually};

/// The rest of the a100 pool, so that everything after it must wait.
fn fill_a100(cluster: &Cluster, seconds: u32) -> u32 {
    let script = format!("sleep {seconds}");
    let id = cluster.sbatch("nlp1", &["--gres=gpu:a100:8", "-N2", "-t10", "--comment=bid:0"], &script);
    cluster.await_state(id, "RUNNING");
    id
}

#[test]
fn jobs_start_by_bid_and_not_by_arrival() {
    start_by_bid(&Cluster::up());
}

#[test]
fn a_changed_bid_is_in_sprio_within_a_second() {
    change_a_bid(&Cluster::up());
}

/// Three jobs, the lowest bid first, on a fresh cluster.
pub(crate) fn start_by_bid(cluster: &Cluster) {
    cluster.deposit("vision", "1000");
    let filler = fill_a100(cluster, 12);
    let ask = |bid: &str| {
        let comment = format!("--comment=bid:{bid}");
        cluster.sbatch("vis1", &["--gres=gpu:a100:8", "-N2", "-t10", &comment], "sleep 2")
    };
    let (low, high, middle) = (ask("0.8"), ask("3.5"), ask("2"));

    let by_priority = cluster.ok("root", &["squeue", "-h", "-t", "PD", "-S", "-p", "-o", "%i"]);
    let by_priority: Vec<u32> = by_priority.lines().filter_map(|line| line.trim().parse().ok()).collect();
    assert_eq!(by_priority, [high, middle, low]);

    for id in [filler, low, high, middle] {
        eventually("the job is over", Duration::from_secs(60), || {
            (cluster.state(id) == "COMPLETED").then_some(())
        });
    }
    let start = |id| cluster.sacct(id, "Start")[0][0].clone();
    assert!(
        start(high) < start(middle) && start(middle) < start(low),
        "{} {} {}",
        start(high),
        start(middle),
        start(low)
    );
    for id in [low, high, middle] {
        assert!(cluster.receipt(id).starts_with("paid="));
    }
    assert_eq!(cluster.receipt(filler).split(' ').next(), Some("paid=0"));
    cluster.assert_at_rest();
}

/// One waiting job whose bid is doubled, on a cluster without waiting jobs.
pub(crate) fn change_a_bid(cluster: &Cluster) {
    cluster.deposit("vision", "1000");
    fill_a100(cluster, 60);
    let id = cluster.sbatch("vis1", &["--gres=gpu:a100:8", "-N2", "-t10", "--comment=bid:2"], "true");
    let site = || {
        let line = cluster.ok("root", &["sprio", "-h", "-j", &id.to_string(), "-o", "%S"]);
        line.trim().parse::<u64>().ok()
    };
    let first = eventually("sprio shows the job", Duration::from_secs(20), site);
    // 16384 for each doubling above ρ0/256, in steps of 64: ⌊log2(1.6/0.25·256)·256⌋·64 + 1.
    assert_eq!(first, 174_913);
    eventually("the daemon has seen the job", Duration::from_secs(10), || {
        cluster.run("vis1", &["sbid", "bid", &id.to_string(), "4"]).success.then_some(())
    });
    let doubled = first + 16_384;
    eventually("the new bid shows", Duration::from_secs(1), || (site() == Some(doubled)).then_some(()));
    // The bid of record in Slurm follows.
    eventually("the stamp follows", Duration::from_secs(10), || {
        cluster.job(id, "AdminComment").filter(|comment| comment.contains(" 4 tier=standard"))
    });
    let foreign = cluster.run("nlp1", &["sbid", "bid", &id.to_string(), "5"]);
    assert!(!foreign.success && foreign.stderr.contains("belongs to vis1"), "{foreign:?}");
    let explained = cluster.ok("vis1", &["sbid", "explain", &id.to_string()]);
    assert!(explained.contains("waits for 16 a100"), "{explained}");
}
