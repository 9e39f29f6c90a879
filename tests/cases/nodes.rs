//! Runs that end or change otherwise than by their own doing: each is charged exactly for what ran.

use std::time::Duration;

use system_tests::{Cluster, eventually, holds_for};

use crate::runs::{Run, assert_exact, await_receipts};

const SOON: Duration = Duration::from_secs(40);

/// The states of a job's runs, the oldest first.
fn states(runs: &[Run], id: u32) -> Vec<&str> {
    runs.iter().filter(|run| run.job_id == id).map(|run| run.state.as_str()).collect()
}

#[test]
fn requeue_node_failure_resize_and_suspension_are_charged_for_what_ran() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "1000");
    let a100 = ["-p", "a100", "--gres=gpu:a100:4", "-t10", "--comment=bid:1"];
    let moved = cluster.sbatch("vis1", &[&a100[..], &["--requeue"]].concat(), "sleep 300");
    let lost = cluster.sbatch("vis1", &[&a100[..], &["--no-requeue"]].concat(), "sleep 300");
    let h100 = ["-p", "h100", "--gres=gpu:h100:2", "-t10", "--comment=bid:1.5", "--no-requeue"];
    let shrunk = cluster.sbatch("vis1", &[&h100[..], &["-N2"]].concat(), "sleep 300");
    let paused = cluster.sbatch("vis2", &h100, "sleep 300");
    let again =
        cluster.sbatch("vis2", &[&h100[..5], &["--requeue", "--comment=bid:0.9"]].concat(), "sleep 300");
    for id in [moved, lost, shrunk, paused, again] {
        cluster.await_state(id, "RUNNING");
    }
    for id in [moved, lost] {
        assert_eq!(cluster.job(id, "NodeList").as_deref(), Some("gpu1"));
    }
    holds_for("all jobs run for a while", Duration::from_secs(2), || cluster.state(again) == "RUNNING");

    cluster.ok("root", &["scontrol", "suspend", &paused.to_string()]);
    cluster.ok("vis2", &["scontrol", "requeue", &again.to_string()]);
    cluster.ok("vis1", &["scontrol", "update", &format!("JobId={shrunk}"), "NumNodes=1"]);
    cluster.daemon("kill", "slurmd1");
    cluster.ok("root", &["scontrol", "update", "NodeName=gpu1", "State=DOWN", "Reason=broken"]);
    cluster.await_state(lost, "NODE_FAIL");
    eventually("a node that is down is not supply", SOON, || {
        (cluster.pool_figure("a100", "gpus_in_supply") == Some(8)).then_some(())
    });
    holds_for("the job stays suspended", Duration::from_secs(2), || cluster.state(paused) == "SUSPENDED");
    cluster.ok("root", &["scontrol", "resume", &paused.to_string()]);
    for id in [moved, again, paused, shrunk] {
        cluster.await_state(id, "RUNNING");
    }
    assert_eq!(cluster.job(moved, "NodeList").as_deref(), Some("gpu2"));
    holds_for("all jobs run for a while", Duration::from_secs(2), || cluster.state(paused) == "RUNNING");
    for id in [moved, again, paused, shrunk] {
        cluster.ok("root", &["scancel", &id.to_string()]);
    }

    eventually("all jobs have ended", SOON, || {
        cluster.ok("root", &["squeue", "-h"]).is_empty().then_some(())
    });
    let runs = await_receipts(&cluster, 8);
    assert_eq!(states(&runs, moved), ["NODE_FAIL", "CANCELLED"], "{runs:?}");
    assert_eq!(states(&runs, again), ["REQUEUED", "CANCELLED"], "{runs:?}");
    assert_eq!(states(&runs, lost), ["NODE_FAIL"], "{runs:?}");
    assert_eq!(states(&runs, paused), ["CANCELLED"], "{runs:?}");
    assert_eq!(states(&runs, shrunk), ["RESIZING", "CANCELLED"], "{runs:?}");
    let gpus: Vec<i64> = runs.iter().filter(|run| run.job_id == shrunk).map(|run| run.gpus).collect();
    assert_eq!(gpus, [4, 2], "{runs:?}");
    assert_exact(&cluster, &runs, 1000);
}
