//! `scontrol update` on a job with a bid.

use std::time::Duration;

use system_tests::{Cluster, Outcome, Slurm, eventually};

#[test]
fn a_change_is_priced_and_must_be_covered() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "3");
    // 1 GPU x 30 min x 2
    let number =
        cluster.sbatch("vis1", &["--hold", "--gres=gpu:a100:1", "-t30", "--comment=x bid:2"], "true");
    let id = format!("JobId={number}");
    let update =
        |user: &str, change: &str| -> Outcome { cluster.run(user, &["scontrol", "update", &id, change]) };
    let free = |expected: &str| {
        eventually(&format!("{expected} SU are free"), Duration::from_secs(10), || {
            (cluster.balance("vision")["free"] == expected).then_some(())
        });
    };
    free("2");

    // What no account could pay, or what is no order of the market any more.
    for change in ["NumNodes=8", "NodeList=gpu[1-4]", "Gres=gpu:a100:4", "Gres=gpu:t4:1", "Partition=h100"] {
        let outcome = update("vis1", change);
        assert!(!outcome.success, "{change} was accepted: {outcome:?}");
    }
    let told = update("vis1", "Partition=h100").stderr;
    assert_eq!(told.contains("bid: "), Slurm::installed().says_why_a_change_is_refused(), "{told}");
    for change in ["Account=nlp", "QOS=normal", "QOS=parked"] {
        let outcome = update("vis1", change);
        assert!(!outcome.success, "{change} was accepted: {outcome:?}");
    }
    eventually("sbid explain tells why", Duration::from_secs(10), || {
        let told = cluster.ok("vis1", &["sbid", "explain", &number.to_string()]);
        told.contains("QOS parked is no tier of the market; choose one of").then_some(())
    });
    let refused = update("vis1", "Gres=gpu:a100:8");
    assert!(!refused.success);
    eventually("sbid explain tells what is missing", Duration::from_secs(10), || {
        let told = cluster.ok("vis1", &["sbid", "explain", &number.to_string()]);
        told.contains("needs 7 SU more but account vision has 2 SU free").then_some(())
    });

    // What is covered; the earmark follows.
    assert!(update("vis1", "Gres=gpu:a100:2").success);
    free("1");
    // The second raise is measured against the first, however fast it comes.
    assert!(update("vis1", "Gres=gpu:a100:1").success);
    assert!(update("vis1", "QOS=spot").success);
    eventually("the stamp names the tier", Duration::from_secs(10), || {
        cluster.job(number, "AdminComment").filter(|stamp| stamp.ends_with(" 2 tier=spot"))
    });
    assert!(update("vis1", "QOS=standard").success);
    for change in ["NodeList=gpu2", "NodeList=", "TimeLimit=20", "Partition=a100", "Comment=other text"] {
        let outcome = update("vis1", change);
        assert!(outcome.success, "{change} was refused: {outcome:?}");
    }
    assert!(update("vis1", "Comment=bid:2 again").success, "the same bid moves nothing");
    for change in ["Comment=bid:3", "Comment=bid:0", "Comment=bid:x"] {
        assert!(!update("vis1", change).success, "{change} was accepted");
    }
    assert_eq!(cluster.job(number, "Comment").as_deref(), Some("bid:2 again"));

    // Operators are not asked, and the earmark follows them too: 1 GPU x 1 h x 2.
    for change in ["TimeLimit=60", "Partition=gpu"] {
        let outcome = update("root", change);
        assert!(outcome.success, "{change} by root was refused: {outcome:?}");
    }
    free("1");
    // Somebody else's job stays somebody else's.
    assert!(!update("nlp1", "Comment=hello").success);
    assert!(!update("nlp1", "TimeLimit=120").success);

    // A job without a bid is Slurm's alone; a bid cannot be slipped in later.
    let plain = cluster.sbatch("vis1", &["--hold", "--gres=gpu:a100:1", "-t30"], "true");
    let plain = format!("JobId={plain}");
    let update = |change: &str| cluster.run("vis1", &["scontrol", "update", &plain, change]);
    assert!(update("TimeLimit=20").success);
    assert!(!update("Comment=bid:3").success);
    assert!(!update("QOS=standard").success);
}

#[test]
fn gpus_cannot_be_slipped_in_without_a_bid() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "1000");
    let plain = |options: &[&str]| {
        let id = cluster.sbatch("vis1", &[&["--hold", "-t30"], options].concat(), "true");
        (id, format!("JobId={id}"))
    };
    let gres = |user: &str, job: &str| cluster.run(user, &["scontrol", "update", job, "Gres=gpu:a100:8"]);
    // A job without GPUs may name any QOS that its association allows; with GPUs it would have to bid.
    for options in [&["--qos=standard"][..], &["--qos=free", "--comment=bid:0"]] {
        let (id, job) = plain(options);
        let outcome = gres("vis1", &job);
        assert!(!outcome.success, "{options:?}: {outcome:?}");
        assert_eq!(cluster.job(id, "TresPerNode"), None);
    }
    // Without a market QOS the site's word on jobs without a bid holds: Slurm alone decides.
    let (_, job) = plain(&[]);
    assert!(gres("vis1", &job).success);
}
