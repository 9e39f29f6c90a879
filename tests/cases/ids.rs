//! Slurm gives job ids again.

use std::collections::BTreeMap;
use std::time::Duration;

use system_tests::{Cluster, Setting, eventually};

use crate::runs::{assert_exact, await_receipts};

const SOON: Duration = Duration::from_secs(40);

#[test]
fn a_job_id_that_comes_again_is_another_order() {
    let conf = "FirstJobId=100\nMaxJobId=103\nMinJobAge=2\n".into();
    let cluster = Cluster::with(&Setting { conf, ..Setting::default() });
    cluster.deposit("vision", "1000");
    // All ids may be taken at the moment.
    let submit = |options: &[&str]| -> u32 {
        eventually("Slurm has an id for it", SOON, || {
            let outcome = cluster.run("vis1", &[&["sbatch", "--parsable"], options].concat());
            outcome.success.then(|| outcome.stdout.trim().parse().expect("a job id"))
        })
    };
    let mut ids: BTreeMap<u32, u32> = BTreeMap::new();
    // Each bids, holds and runs differently, so that a receipt at the wrong run shows.
    let mut jobs = 0;
    let mut run_one = || {
        jobs += 1;
        let (gpus, bid) =
            (format!("--gres=gpu:a100:{}", jobs % 8 + 1), format!("--comment=bid:1.{jobs:02}1"));
        let id = submit(&[&gpus, "-t10", &bid, "--wrap", &format!("sleep {}", jobs % 2)]);
        *ids.entry(id).or_default() += 1;
        eventually("the job is over", SOON, || {
            let state = cluster.state(id);
            (state.is_empty() || state == "COMPLETED").then_some(())
        });
    };
    for _ in 0..5 {
        run_one();
    }
    // Receipts of several runs with one id have to wait.
    cluster.daemon("stop", "slurmdbd");
    for _ in 0..4 {
        run_one();
    }
    // What waits under an id that was used before has its own bid, and is free to be changed.
    let held = submit(&["--hold", "--gres=gpu:a100:8", "-t60", "--comment=bid:2", "--wrap", "true"]);
    eventually("the daemon has seen the job", SOON, || {
        let reply = cluster.json("root", &["jobs", "-j", &held.to_string()]);
        let rows = reply["jobs"].as_array()?;
        rows.iter().any(|job| job["earmark"] == "16" && job["bid"] == "2").then_some(())
    });
    cluster.daemon("start", "slurmdbd");
    cluster.ok("vis1", &["scancel", &held.to_string()]);
    let runs = await_receipts(&cluster, 9);
    assert_eq!(runs.len(), 9, "{runs:?}");
    assert!(ids.values().all(|times| *times >= 2), "no id came again: {ids:?}");
    assert_exact(&cluster, &runs, 1000);
}
