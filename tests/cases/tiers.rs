//! Tiers as QOS: what gives way to what, and how.

use std::time::Duration;

use system_tests::{Cluster, Setting, eventually, holds_for};

const SOON: Duration = Duration::from_secs(30);

#[test]
fn paid_jobs_preempt_free_ones_and_nothing_else() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "1000");
    cluster.deposit("nlp", "1000");
    let words = ["sacctmgr", "-i", "modify", "qos", "free", "set", "PreemptExemptTime=0", "GraceTime=1"];
    cluster.ok("root", &words);
    let whole_pool = ["-N2", "--gres=gpu:a100:8", "-t10"];
    let submit = |user, bid| cluster.sbatch(user, &[&whole_pool[..], &[bid]].concat(), "sleep 120");

    let free = submit("nlp1", "--comment=bid:0");
    cluster.await_state(free, "RUNNING");
    let spot = submit("nlp1", "--comment=bid:0.5,tier=spot");
    cluster.await_state(spot, "RUNNING");
    eventually("the free job waits again", SOON, || (cluster.state(free) == "PENDING").then_some(()));
    assert_eq!(cluster.job(free, "Restarts").as_deref(), Some("1"));

    // Only quotamarketd takes from spot jobs.
    let urgent = submit("vis1", "--comment=bid:9,tier=urgent");
    assert_eq!(cluster.job(urgent, "QOS").as_deref(), Some("urgent"));
    holds_for("spot jobs are nobody's to preempt", Duration::from_secs(8), || {
        cluster.state(spot) == "RUNNING" && cluster.state(urgent) == "PENDING"
    });
    for id in [spot, urgent, free] {
        cluster.ok("root", &["scancel", &id.to_string()]);
    }
    cluster.assert_at_rest();
}

#[test]
fn a_spot_job_gives_way_at_an_operators_word() {
    let market = "[eviction]\ngrace_s = 4\n".into();
    let cluster = Cluster::with(&Setting { market, ..Setting::default() });
    cluster.deposit("vision", "1000");
    cluster.deposit("nlp", "1000");
    let home = cluster.dir().join("home/vis1");
    let node = |user, node: &str, bid: &str, more: &[&str], script: &str| {
        let nodelist = format!("--nodelist={node}");
        let comment = format!("--comment={bid}");
        let options = ["--gres=gpu:a100:8", "-t10", &nodelist, &comment];
        cluster.sbatch(user, &[&options[..], more].concat(), script)
    };
    // The one asked for a signal; the other would die of it.
    let script = "trap 'date > signalled' USR1; for i in $(seq 600); do sleep 0.2; done";
    let asked = node("vis1", "gpu1", "bid:0.5,tier=spot", &["--signal=B:USR1@2"], script);
    let silent = node("vis1", "gpu2", "bid:0.5,tier=spot", &["-o", "silent.out"], "sleep 120");
    for id in [asked, silent] {
        cluster.await_state(id, "RUNNING");
    }
    let first = node("nlp1", "gpu1", "bid:3", &[], "sleep 60");
    let second = node("nlp1", "gpu2", "bid:3", &[], "sleep 60");

    let evict = |user: &str, victim: u32, buyer: u32| {
        cluster.run(user, &["sbid", "admin", "evict", &victim.to_string(), "--for", &buyer.to_string()])
    };
    assert!(evict("nlp1", asked, first).stderr.contains("only root, SlurmUser and Slurm operators"));
    let told = eventually("quotamarketd has seen them all", SOON, || {
        let outcome = evict("root", asked, first);
        outcome.success.then_some(outcome.stdout)
    });
    assert!(told.contains("with the signal it asked for"), "{told}");
    eventually("the signal came with the warning", SOON, || home.join("signalled").exists().then_some(()));
    let told = evict("root", silent, second).stdout;
    assert!(!told.contains("signal") && told.contains("requeued"), "{told}");
    for (victim, buyer) in [(asked, first), (silent, second)] {
        cluster.await_state(buyer, "RUNNING");
        assert_eq!(cluster.state(victim), "PENDING");
        assert_eq!(cluster.job(victim, "Restarts").as_deref(), Some("1"));
    }
    // The job without a signal lived through its grace, and was told.
    let told = eventually("the warning is in the job's output", SOON, || {
        std::fs::read_to_string(home.join("silent.out")).ok().filter(|text| text.contains("outbid by job"))
    });
    assert!(told.contains(&format!("job {second}")), "{told}");
    for run in cluster.sacct(silent, "State,ElapsedRaw").iter().filter(|run| run[0] == "REQUEUED") {
        assert!(run[1].parse::<u32>().expect("seconds") >= 4, "{run:?}");
    }

    for id in [first, second, asked, silent] {
        cluster.ok("root", &["scancel", &id.to_string()]);
    }
    cluster.assert_at_rest();
}

#[test]
fn an_interactive_spot_job_is_warned_and_then_cancelled() {
    let market = "[eviction]\ngrace_s = 1\n".into();
    let cluster = Cluster::with(&Setting { market, ..Setting::default() });
    cluster.deposit("vision", "1000");
    cluster.deposit("nlp", "1000");
    let options = ["--gres=gpu:a100:8", "-w", "gpu1", "-t10"];
    let words =
        [&["salloc"], &options[..], &["--kill-command", "--comment=bid:0.5,tier=spot", "sleep", "120"]]
            .concat();
    let salloc =
        cluster.command("vis1", &words).stderr(std::process::Stdio::piped()).spawn().expect("salloc");
    let victim = eventually("it runs", SOON, || {
        let listed = cluster.run("root", &["squeue", "-h", "-u", "vis1", "-t", "R", "-o", "%A"]).stdout;
        listed.trim().parse::<u32>().ok()
    });
    let buyer = cluster.sbatch("nlp1", &[&options[..], &["--comment=bid:3"]].concat(), "true");
    let told = eventually("quotamarketd has seen both", SOON, || {
        let words = ["sbid", "admin", "evict", &victim.to_string(), "--for", &buyer.to_string()];
        let outcome = cluster.run("root", &words);
        outcome.success.then_some(outcome.stdout)
    });
    assert!(told.contains("cancelled"), "{told}");
    cluster.await_state(victim, "CANCELLED");
    cluster.await_state(buyer, "COMPLETED");
    let told = String::from_utf8_lossy(&salloc.wait_with_output().expect("ended").stderr).into_owned();
    assert!(told.contains("salloc or srun is then cancelled"), "at submission: {told}");
    assert!(told.contains(&format!("outbid by job {buyer}")), "before the end: {told}");
}

#[test]
fn parked_holds_a_job_until_it_may_go_on() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "1000");
    let id = cluster.sbatch("vis1", &["--hold", "--gres=gpu:a100:1", "-t1", "--comment=bid:1"], "true");
    let job = format!("JobId={id}");
    cluster.ok("root", &["scontrol", "update", &job, "QOS=parked"]);
    cluster.ok("vis1", &["scontrol", "release", &id.to_string()]);
    eventually("Slurm holds it back", SOON, || {
        (cluster.job(id, "Reason").as_deref() == Some("QOSGrpGRES")).then_some(())
    });
    assert!(!cluster.run("vis1", &["scontrol", "update", &job, "QOS=standard"]).success, "not for users");
    cluster.ok("root", &["scontrol", "update", &job, "QOS=standard"]);
    cluster.await_state(id, "COMPLETED");
}
