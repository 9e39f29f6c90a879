//! `scontrol update` on a job with a bid.

use system_tests::{Cluster, Outcome};

#[test]
fn users_cannot_change_what_was_checked_and_operators_can() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "1000");
    let id = cluster.sbatch("vis1", &["--hold", "--gres=gpu:a100:1", "-t30", "--comment=x bid:2"], "true");
    let id = format!("JobId={id}");
    let update =
        |user: &str, change: &str| -> Outcome { cluster.run(user, &["scontrol", "update", &id, change]) };
    let number: u32 = id.trim_start_matches("JobId=").parse().expect("a number");

    for change in ["TimeLimit=60", "TimeLimit=UNLIMITED", "Account=nlp", "Partition=h100", "QOS=normal"] {
        let outcome = update("vis1", change);
        assert!(!outcome.success, "{change} was accepted: {outcome:?}");
    }
    // One GPU per node: each of these would bring more nodes.
    for change in ["NumNodes=2", "NumTasks=2", "NumCPUs=200", "NodeList=gpu[1-2]", "Gres=gpu:a100:2"] {
        let outcome = update("vis1", change);
        assert!(!outcome.success, "{change} was accepted: {outcome:?}");
    }
    for change in ["NodeList=gpu2", "NodeList="] {
        assert!(update("vis1", change).success, "{change} was refused");
    }
    assert_eq!(cluster.job(number, "TimeLimit").as_deref(), Some("00:30:00"));
    for change in ["TimeLimit=20", "TimeLimit=20", "Partition=gpu", "QOS=standard", "Comment=other text"] {
        let outcome = update("vis1", change);
        assert!(outcome.success, "{change} was refused: {outcome:?}");
    }
    assert!(update("vis1", "Comment=bid:2 again").success, "the same bid moves nothing");
    for change in ["Comment=bid:3", "Comment=bid:0", "Comment=bid:x"] {
        assert!(!update("vis1", change).success, "{change} was accepted");
    }
    assert_eq!(cluster.job(number, "Comment").as_deref(), Some("bid:2 again"));
    assert!(cluster.job(number, "AdminComment").is_some_and(|stamp| stamp.ends_with(" 2 tier=standard")));

    for change in ["TimeLimit=60", "Partition=a100"] {
        let outcome = update("root", change);
        assert!(outcome.success, "{change} by root was refused: {outcome:?}");
    }
    // Somebody else's job stays somebody else's.
    assert!(!update("nlp1", "Comment=hello").success);

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
