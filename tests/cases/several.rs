//! Jobs of several parts: arrays and heterogeneous jobs.

use std::time::Duration;

use system_tests::{Cluster, Setting, eventually};

const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_heterogeneous_job_has_one_bid_and_each_component_its_own_bill() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "10");
    let components = |second: &[&str], script: &str| {
        let first = ["sbatch", "--parsable", "-t10", "--gres=gpu:a100:2", "--comment=bid:2,tier=spot"];
        let words = [&first[..], &[":", "-t10", "--gres=gpu:h100:1"], second, &["--wrap", script]].concat();
        cluster.run("vis1", &words)
    };
    let refused = components(&["--comment=bid:3"], "true");
    assert!(!refused.success);
    assert!(refused.stderr.contains("one bid, in the comment of its first component"), "{refused:?}");

    let accepted = components(&[], "sleep 3");
    assert!(accepted.success, "{accepted:?}");
    let first: u32 = accepted.stdout.trim().parse().expect("a job id");
    let ids = [first, first + 1];
    for id in ids {
        let stamp = cluster.job(id, "AdminComment").expect("a stamp");
        assert!(stamp.ends_with(" 2 tier=spot"), "{stamp}");
        assert_eq!(cluster.job(id, "QOS").as_deref(), Some("spot"));
        cluster.await_state(id, "COMPLETED");
    }
    for (id, gpus) in [(first, 2), (first + 1, 1)] {
        let words = ["sacct", "-X", "-n", "-P", "-o", "JobIDRaw,AdminComment,ElapsedRaw"];
        let receipt = eventually(&format!("component {id} has its receipt"), SOON, || {
            let listed = cluster.ok("root", &words);
            let line = listed.lines().find(|line| line.starts_with(&format!("{id}|")))?;
            let fields: Vec<String> = line.split('|').map(str::to_owned).collect();
            fields[1].starts_with("paid=").then_some(fields)
        });
        let seconds: u64 = receipt[2].parse().expect("seconds");
        assert!(receipt[1].contains("bid=2 "), "{receipt:?}");
        assert!(receipt[1].ends_with(&format!("gpu_s={} tier=spot", gpus * seconds)), "{receipt:?}");
    }
    cluster.assert_at_rest();
}

#[test]
fn a_large_array_is_one_order_and_runs_no_more_tasks_than_it_may() {
    let conf = "MaxArraySize=20001\nMaxJobCount=30000\n".into();
    let cluster = Cluster::with(&Setting { conf, ..Setting::default() });
    // Two tasks of 1 GPU x 1 min x 3.
    cluster.deposit("vision", "0.1");
    let array = |of: &str| {
        [format!("--array={of}"), "--gres=gpu:a100:1".into(), "-t1".into(), "--comment=bid:3".into()]
    };
    let submit = |of: &str, hold: &[&str]| {
        let options = array(of);
        let options: Vec<&str> = options.iter().map(String::as_str).chain(hold.iter().copied()).collect();
        cluster.sbatch("vis1", &options, "sleep 1")
    };
    let text = {
        let options = array("0-9999%3");
        cluster.refused("vis1", &options.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(text.contains("x 3 tasks") && text.contains("account vision has 0.1 SU free"), "{text}");

    let large = submit("0-9999%2", &["--hold"]);
    eventually("it is one order", SOON, || {
        let jobs = cluster.json("vis1", &["jobs"]);
        let rows = jobs["jobs"].as_array().expect("rows").len();
        (rows == 1).then_some(())
    });
    assert_eq!(cluster.balance("vision")["earmarked"], "0.1");
    cluster.ok("vis1", &["scancel", &large.to_string()]);
    eventually("its earmark is gone", SOON, || (cluster.balance("vision")["earmarked"] == "0").then_some(()));

    let small = submit("0-5%2", &[]);
    let most_at_once = eventually("all tasks are done", Duration::from_secs(90), {
        let mut most = 0;
        let cluster = &cluster;
        move || {
            let words = ["squeue", "-h", "-r", "-j", &small.to_string(), "-o", "%t"];
            let states = cluster.run("root", &words).stdout;
            most = most.max(states.lines().filter(|state| *state == "R").count());
            (!states.lines().any(|state| ["PD", "R", "CG"].contains(&state))).then_some(most)
        }
    });
    assert!((1..=2).contains(&most_at_once), "{most_at_once} at once");
    let receipts = || cluster.sacct(small, "AdminComment");
    eventually("each task has its receipt", SOON, || {
        let receipts = receipts();
        (receipts.len() == 6 && receipts.iter().all(|receipt| receipt[0].starts_with("paid="))).then_some(())
    });
    cluster.assert_at_rest();
}
