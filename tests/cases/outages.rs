//! The daemon, slurmctld or slurmdbd is gone, and comes back.

use std::time::{Duration, Instant};

use system_tests::{Cluster, Setting, eventually, holds_for};

const PLAIN: &[&str] = &["--gres=gpu:a100:4", "-t10", "--comment=bid:1"];
/// slurmctld's clients give up after ten seconds; a submission that waits for nobody is far below.
const NO_WAIT: Duration = Duration::from_secs(4);
const SOON: Duration = Duration::from_secs(30);

/// Submits held jobs until one is treated as during an outage; every submission must be quick.
fn submit_in_outage(cluster: &Cluster) -> u32 {
    eventually("bids are treated as in an outage", SOON, || {
        let asked = Instant::now();
        let id = cluster.sbatch("vis1", &[PLAIN, &["--hold"]].concat(), "true");
        assert!(asked.elapsed() < NO_WAIT, "sbatch took {:?}", asked.elapsed());
        let stamp = cluster.job(id, "AdminComment").unwrap_or_default();
        stamp.ends_with(" 1 tier=free why=unavailable").then_some(id)
    })
}

#[test]
fn slurmctld_does_not_notice_a_daemon_that_is_gone_or_frozen() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "1000");
    for how in ["frozen", "killed", "stopped"] {
        match how {
            "frozen" => cluster.signal("quotamarketd", libc::SIGSTOP),
            "killed" => cluster.daemon("kill", "quotamarketd"),
            _ => cluster.daemon("stop", "quotamarketd"),
        }
        let id = submit_in_outage(&cluster);
        assert_eq!(cluster.job(id, "QOS").as_deref(), Some("free"), "{how}");
        let asked = Instant::now();
        cluster.ok("root", &["scontrol", "reconfigure"]);
        cluster.ok("root", &["squeue"]);
        assert!(asked.elapsed() < NO_WAIT, "{how}: slurmctld waits");
        match how {
            "frozen" => cluster.signal("quotamarketd", libc::SIGCONT),
            _ => cluster.daemon("start", "quotamarketd"),
        }
        eventually("bids count again", SOON, || {
            let id = cluster.sbatch("vis1", &[PLAIN, &["--hold"]].concat(), "true");
            cluster.job(id, "AdminComment").filter(|stamp| stamp.ends_with(" 1 tier=standard"))
        });
    }
    // What was submitted in an outage stays free.
    cluster.ok("vis1", &["scancel", "-u", "vis1"]);
    cluster.assert_at_rest();
    assert_eq!(cluster.balance("vision")["available"], "1000");
}

#[test]
fn a_site_may_refuse_bids_in_an_outage() {
    let setting = Setting { market: "when_unavailable = \"reject\"\n".into(), ..Setting::default() };
    let cluster = Cluster::with(&setting);
    cluster.deposit("vision", "1000");
    cluster.daemon("stop", "quotamarketd");
    eventually("bids are refused", SOON, || {
        let outcome = cluster.run("vis1", &[&["sbatch", "--hold"], PLAIN, &["--wrap", "true"]].concat());
        outcome.stderr.contains("bid: the market service is not reachable").then_some(())
    });
    cluster.sbatch("vis1", &["--hold", "--gres=gpu:a100:1", "--comment=bid:0"], "true");
    cluster.sbatch("vis1", &["--hold", "--gres=gpu:a100:1"], "true");
}

/// One job's whole life while `disturb` happens in it, and the ledger afterwards.
fn ledger_after(disturb: impl Fn(&Cluster, &str)) -> Vec<String> {
    let cluster = Cluster::up();
    cluster.deposit("vision", "100");
    disturb(&cluster, "before");
    let id = cluster.sbatch("vis1", PLAIN, "sleep 4");
    disturb(&cluster, "submitted");
    cluster.await_state(id, "RUNNING");
    disturb(&cluster, "running");
    eventually("the job is over", SOON, || {
        let state = cluster.state(id);
        (state == "COMPLETED" || state.is_empty()).then_some(())
    });
    disturb(&cluster, "over");
    let receipt = cluster.receipt(id);
    cluster.assert_at_rest();
    let seconds: i64 = cluster.sacct(id, "ElapsedRaw")[0][0].parse().expect("seconds");
    let (entries, sum) = cluster.ledger();
    assert_eq!(sum, "0");
    // How long the job ran is Slurm's doing; all else must not differ.
    let charge = 4 * 312_500 * seconds / 3600;
    let paid = format!("{}.{:06}", charge / 1_000_000, charge % 1_000_000);
    assert!(
        receipt.starts_with(&format!("paid={} ", paid.trim_end_matches('0'))),
        "{receipt} for {seconds} s"
    );
    entries
        .into_iter()
        .map(|entry| {
            let mut words: Vec<&str> = entry.split(' ').collect();
            if words[0] != "deposit" && words[0] != "escrow_placed" {
                words.truncate(2);
            }
            words.join(" ")
        })
        .collect()
}

#[test]
fn whatever_restarts_the_ledger_is_the_same() {
    let undisturbed = ledger_after(|_, _| ());
    let deposit = ["deposit (mint) -100", "deposit vision 100"];
    assert!(deposit.iter().all(|line| undisturbed.contains(&(*line).to_owned())), "{undisturbed:?}");
    assert_eq!(undisturbed.len(), 8, "deposit, escrow, charge and return: {undisturbed:?}");

    let killed_daemon = ledger_after(|cluster, when| match when {
        "submitted" | "running" => {
            cluster.daemon("kill", "quotamarketd");
            cluster.daemon("start", "quotamarketd");
        }
        _ => {}
    });
    assert_eq!(killed_daemon, undisturbed, "daemon killed while the job waits and runs");

    let restarted_controller = ledger_after(|cluster, when| {
        if when == "running" {
            cluster.daemon("stop", "slurmctld");
            cluster.daemon("start", "slurmctld");
        }
    });
    assert_eq!(restarted_controller, undisturbed, "slurmctld restarted while the job runs");

    let without_database = ledger_after(|cluster, when| match when {
        "before" => cluster.daemon("stop", "slurmdbd"),
        "over" => {
            // It is settled without slurmdbd; only the receipt waits.
            eventually("the job is charged", SOON, || {
                (cluster.balance("vision")["charged"] != "0").then_some(())
            });
            cluster.daemon("start", "slurmdbd");
        }
        _ => {}
    });
    assert_eq!(without_database, undisturbed, "slurmdbd away for the whole life of the job");
}

#[test]
fn a_job_that_slurmctld_has_forgotten_is_found_in_slurmdbd() {
    let cluster = Cluster::with(&Setting { conf: "MinJobAge=2\n".into(), ..Setting::default() });
    cluster.deposit("vision", "100");
    let id = cluster.sbatch("vis1", PLAIN, "sleep 1");
    cluster.daemon("kill", "quotamarketd");
    eventually("slurmctld has forgotten the job", Duration::from_secs(90), || {
        cluster.state(id).is_empty().then_some(())
    });
    cluster.daemon("start", "quotamarketd");
    let receipt = cluster.receipt(id);
    assert!(receipt.contains("price=0.3125"), "{receipt}");
    cluster.assert_at_rest();
    let (entries, _) = cluster.ledger();
    holds_for("nothing more is charged", Duration::from_secs(5), || cluster.ledger().0 == entries);
}
