//! Hold, release, top, and the death of slurmctld, with jobs that wait and run.

use std::time::Duration;

use system_tests::{Cluster, Setting, eventually, holds_for};

use crate::runs::{assert_exact, await_receipts};

const SOON: Duration = Duration::from_secs(40);
const ALL_A100: &[&str] = &["-p", "a100", "--gres=gpu:a100:8", "-N2", "-t10"];

/// The bid's part of a waiting job's priority.
fn site(cluster: &Cluster, id: u32) -> Option<u64> {
    cluster.ok("root", &["sprio", "-h", "-j", &id.to_string(), "-o", "%S"]).trim().parse().ok()
}

/// slurmctld writes its state every few seconds; what is not in it at a SIGKILL is forgotten.
fn saved(cluster: &Cluster, id: u32) {
    let stamp = cluster.job(id, "AdminComment").expect("a stamp");
    let path = cluster.dir().join("ctld/job_state");
    eventually("slurmctld has saved the job", SOON, || {
        let state = std::fs::read(&path).unwrap_or_default();
        state.windows(stamp.len()).any(|part| part == stamp.as_bytes()).then_some(())
    });
}

fn known_to_the_market(cluster: &Cluster, id: u32) {
    eventually("the daemon has seen the job", SOON, || {
        let reply = cluster.json("root", &["jobs", "-j", &id.to_string()]);
        reply["jobs"].as_array().filter(|jobs| !jobs.is_empty()).map(|_| ())
    });
}

#[test]
fn a_held_job_has_its_factor_again_at_its_release() {
    let conf = "SchedulerParameters=bf_continue,enable_user_top\n".into();
    let cluster = Cluster::with(&Setting { conf, ..Setting::default() });
    cluster.deposit("vision", "1000");
    let filler = cluster.sbatch("nlp1", &[ALL_A100, &["--comment=bid:0"]].concat(), "sleep 300");
    cluster.await_state(filler, "RUNNING");
    let ask =
        |bid: &str| cluster.sbatch("vis1", &[ALL_A100, &[&format!("--comment=bid:{bid}")]].concat(), "true");
    let (low, high) = (ask("1"), ask("2"));
    let low_factor = eventually("sprio shows the job", SOON, || site(&cluster, low));
    known_to_the_market(&cluster, low);

    let (job, scontrol) = (low.to_string(), |user: &str, verb: &str, id: u32| {
        cluster.ok(user, &["scontrol", verb, &id.to_string()]);
    });
    for (holder, hold, releaser) in
        [("vis1", "hold", "vis1"), ("root", "hold", "root"), ("root", "uhold", "vis1")]
    {
        scontrol(holder, hold, low);
        // Polls go by, and none of them lets it go.
        holds_for("the job is held", Duration::from_secs(3), || {
            cluster.job(low, "Priority").as_deref() == Some("0")
        });
        scontrol(releaser, "release", low);
        eventually("the factor is as before", SOON, || {
            (site(&cluster, low) == Some(low_factor)).then_some(())
        });
    }
    // A bid that is changed meanwhile counts from the release on.
    scontrol("vis1", "hold", low);
    cluster.ok("vis1", &["sbid", "bid", &job, "2"]);
    holds_for("the job is held", Duration::from_secs(3), || {
        cluster.job(low, "Priority").as_deref() == Some("0")
    });
    scontrol("vis1", "release", low);
    eventually("the new factor shows", SOON, || {
        (site(&cluster, low) == Some(low_factor + 16_384)).then_some(())
    });

    // A user's own order among jobs goes by their nice values: the factors stay.
    let priority = |id| cluster.job(id, "Priority").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let third = ask("1.5");
    scontrol("vis1", "top", third);
    assert!(priority(third) > priority(high), "{} {}", priority(third), priority(high));
    cluster.ok("root", &["sbid", "bid", &job, "2.5"]);
    let raised = low_factor + 16_384;
    eventually("the changed bid counts", SOON, || site(&cluster, low).filter(|factor| *factor > raised));
    assert!(site(&cluster, third) > Some(low_factor), "it has the factor of its bid");
    holds_for("the top job stays above the others", Duration::from_secs(3), || {
        priority(third) > priority(high)
    });
    cluster.ok("vis1", &["scancel", "-u", "vis1"]);
    cluster.ok("root", &["scancel", &filler.to_string()]);
    cluster.assert_at_rest();
    assert_eq!(cluster.balance("vision")["available"], "1000");
}

#[test]
fn slurmctld_killed_over_a_running_and_a_waiting_job() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "1000");
    let ask = |bid: &str, script: &str| {
        cluster.sbatch("vis1", &[ALL_A100, &[&format!("--comment=bid:{bid}")]].concat(), script)
    };
    let running = ask("2", "sleep 16");
    cluster.await_state(running, "RUNNING");
    let waiting = ask("1", "sleep 2");
    let factor = eventually("sprio shows the job", SOON, || site(&cluster, waiting));
    known_to_the_market(&cluster, waiting);
    saved(&cluster, waiting);
    for _ in 0..2 {
        // What is submitted at the last moment, Slurm may forget or not.
        ask("0.9", "sleep 1");
        cluster.daemon("kill", "slurmctld");
        cluster.daemon("start", "slurmctld");
        eventually("sprio shows the job again", SOON, || {
            (site(&cluster, waiting) == Some(factor)).then_some(())
        });
        assert_eq!(cluster.job(waiting, "QOS").as_deref(), Some("standard"));
    }
    eventually("all jobs have ended", Duration::from_secs(90), || {
        cluster.ok("root", &["squeue", "-h"]).is_empty().then_some(())
    });
    await_receipts(&cluster, 2);
    // slurmctld reports the ends that it remembers once more at each start, with the AdminComment of before.
    cluster.daemon("stop", "slurmctld");
    cluster.daemon("start", "slurmctld");
    eventually("slurmdbd has them all", SOON, || {
        cluster.ok("root", &["sdiag"]).contains("DBD Agent queue size: 0").then_some(())
    });
    let runs = await_receipts(&cluster, 2);
    assert!(runs.iter().all(|run| run.state == "COMPLETED"), "{runs:?}");
    assert_exact(&cluster, &runs, 1000);
}
