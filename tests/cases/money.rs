//! What is charged, and that nothing else is.

use std::time::Duration;

use system_tests::{Cluster, Setting, eventually};

/// ⌊8 × 0.3125 × s / 3600⌋ of a job that displaced nobody.
fn charge_of(seconds: i64) -> String {
    let micros = 8 * 312_500 * seconds / 3600;
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn elapsed_s(cluster: &Cluster, id: u32) -> i64 {
    cluster.sacct(id, "ElapsedRaw")[0][0].parse().expect("seconds")
}

const EIGHT: &[&str] = &["--gres=gpu:a100:8", "-t10", "--comment=bid:3.5"];

#[test]
fn a_short_job_gets_exactly_one_receipt_for_what_it_used() {
    // Slurm is read every ten seconds only: the job lives between two reads.
    let setting = Setting { poll_s: 10, ..Setting::default() };
    let cluster = Cluster::with(&setting);
    cluster.deposit("vision", "100");
    let id = cluster.sbatch("vis1", EIGHT, "sleep 1");
    let receipt = cluster.receipt(id);
    let seconds = elapsed_s(&cluster, id);
    let expected =
        format!("paid={} bid=3.5 price=0.3125 gpu_s={} tier=standard", charge_of(seconds), 8 * seconds);
    assert_eq!(receipt, expected);
    cluster.assert_at_rest();
    assert_eq!(cluster.balance("vision")["charged"], charge_of(seconds));
    let (entries, _) = cluster.ledger();
    let charges = entries.iter().filter(|entry| entry.starts_with("charge")).count();
    assert_eq!(charges, 2, "one charge of two entries: {entries:?}");
}

#[test]
fn srun_and_salloc_pay_like_sbatch() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "100");
    for command in ["srun", "salloc"] {
        let refused = cluster.run("vis1", &[command, "--gres=gpu:a100:8", "-t10", "--comment=bid:x", "true"]);
        assert!(
            !refused.success && refused.stderr.contains("bid: cannot read \"x\""),
            "{command}: {refused:?}"
        );
        let ran = cluster.run("vis1", &[&[command], EIGHT, &["--", "sleep", "1"]].concat());
        assert!(ran.success, "{command}: {ran:?}");
    }
    let ids = eventually("both jobs are in slurmdbd", Duration::from_secs(20), || {
        let ids = cluster.ok("root", &["sacct", "-X", "-n", "-P", "-a", "-o", "JobIDRaw"]);
        let ids: Vec<u32> = ids.lines().filter_map(|line| line.parse().ok()).collect();
        (ids.len() == 2).then_some(ids)
    });
    for id in ids {
        let seconds_paid = cluster.receipt(id);
        let expected = format!("paid={} ", charge_of(elapsed_s(&cluster, id)));
        assert!(seconds_paid.starts_with(&expected), "{seconds_paid:?} is not {expected:?}");
    }
    cluster.assert_at_rest();
}

#[test]
fn what_never_runs_costs_nothing() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "100");
    let untouched = cluster.ledger();

    let words = [&["sbatch", "--test-only"], EIGHT, &["--wrap", "true"]].concat();
    for _ in 0..3 {
        let outcome = cluster.run("vis1", &words);
        assert!(outcome.success, "{outcome:?}");
    }
    // Slurm itself refuses a feature that no node has, after the plugin accepted.
    let rejected = cluster.refused("vis1", &[EIGHT, &["--constraint=nosuch"]].concat());
    assert!(!rejected.contains("bid:"), "{rejected}");
    let held = cluster.sbatch("vis1", &[EIGHT, &["--hold"]].concat(), "true");
    eventually("the job is earmarked", Duration::from_secs(10), || {
        (cluster.balance("vision")["earmarked"] != "0").then_some(())
    });
    cluster.ok("vis1", &["scancel", &held.to_string()]);
    cluster.assert_at_rest();
    assert_eq!(cluster.ledger(), untouched);
    // All of it can be promised again: 16 GPUs × 1 h × 6.25 is 100.
    eventually("everything is free again", Duration::from_secs(60), || {
        let words =
            ["sbatch", "--gres=gpu:a100:8", "-N2", "-t60", "--hold", "--comment=bid:6.25", "--wrap", "true"];
        cluster.run("vis1", &words).success.then_some(())
    });
}

#[test]
fn of_fifty_at_once_only_those_with_money_get_in() {
    let cluster = Cluster::up();
    // Ten jobs of one GPU, one hour, at 1.
    cluster.deposit("vision", "10");
    let words =
        ["sbatch", "--parsable", "--gres=gpu:a100:1", "-t60", "--hold", "--comment=bid:1", "--wrap", "true"];
    let children: Vec<_> = (0..50)
        .map(|_| {
            let mut command = cluster.command("vis1", &words);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().expect("starts")
        })
        .collect();
    let outcomes: Vec<_> =
        children.into_iter().map(|child| child.wait_with_output().expect("ends")).collect();
    let accepted = outcomes.iter().filter(|output| output.status.success()).count();
    assert_eq!(accepted, 10);
    for output in outcomes.iter().filter(|output| !output.status.success()) {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            text.contains("bid: needs 1 SU (1 GPU x 1 h x 1) but account vision has 0 SU free"),
            "{text}"
        );
    }
    assert_eq!(cluster.balance("vision")["available"], "10");
    cluster.ok("vis1", &["scancel", "-u", "vis1"]);
    cluster.assert_at_rest();
}

#[test]
fn a_job_from_before_the_first_start_is_left_alone() {
    let cluster = Cluster::up();
    cluster.daemon("stop", "quotamarketd");
    let ledger = cluster.dir().join("state");
    let id = cluster.sbatch("vis1", &["--gres=gpu:a100:8", "-t10"], "sleep 8");
    cluster.await_state(id, "RUNNING");
    // As on the first day: no ledger yet.
    for file in std::fs::read_dir(&ledger).expect("state directory") {
        std::fs::remove_file(file.expect("entry").path()).expect("removes");
    }
    cluster.daemon("start", "quotamarketd");
    cluster.deposit("vision", "100");
    let before = cluster.ledger();
    cluster.await_state(id, "COMPLETED");
    let paid = cluster.sbatch("vis1", EIGHT, "sleep 1");
    cluster.receipt(paid);
    assert_eq!(cluster.sacct(id, "AdminComment,State"), [["", "COMPLETED"]]);
    let (entries, _) = cluster.ledger();
    assert_eq!(entries[..before.0.len()], before.0[..]);
    assert!(entries[before.0.len()..].iter().all(|entry| !entry.contains("house_loss")), "{entries:?}");
    let jobs = cluster.json("root", &["jobs", "-j", &id.to_string()]);
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(0));
}

#[test]
fn each_task_of_an_array_is_settled_alone() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "100");
    let id =
        cluster.sbatch("vis1", &["--array=0-3%2", "--gres=gpu:a100:2", "-t60", "--comment=bid:1"], "sleep 3");
    // Two tasks at once, two GPUs, an hour, at 1.
    let earmark = eventually("the array is earmarked", Duration::from_secs(10), || {
        let balance = cluster.balance("vision");
        (balance["earmarked"] != "0" || balance["escrow"] != "0").then_some(balance)
    });
    assert!(earmark["earmarked"] == "4" || earmark["escrow"] != "0", "{earmark:?}");
    let receipts = eventually("all four tasks have receipts", Duration::from_secs(60), || {
        let receipts: Vec<String> =
            cluster.sacct(id, "AdminComment").into_iter().filter_map(|row| row.into_iter().next()).collect();
        (receipts.len() == 4 && receipts.iter().all(|text| text.starts_with("paid="))).then_some(receipts)
    });
    assert!(receipts.iter().all(|text| text.contains("bid=1 price=0.3125")), "{receipts:?}");
    cluster.assert_at_rest();
}
