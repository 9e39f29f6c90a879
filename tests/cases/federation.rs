//! A federation of clusters, which the market does not serve.

use std::time::Duration;

use system_tests::{Cluster, eventually};

#[test]
fn in_a_federation_jobs_are_slurms_alone() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "1000");
    let ask = || cluster.sbatch("vis1", &["--hold", "--gres=gpu:a100:1", "-t5", "--comment=bid:2"], "true");
    let before = ask();
    assert_eq!(cluster.job(before, "QOS").as_deref(), Some("standard"));

    let name = cluster.ok("root", &["sacctmgr", "-n", "-P", "show", "cluster", "format=cluster"]);
    let member = format!("clusters={}", name.trim());
    cluster.ok("root", &["sacctmgr", "-i", "add", "federation", "fed", &member]);
    let unpriced = eventually("slurmctld has joined the federation", Duration::from_secs(30), || {
        let id = ask();
        (cluster.job(id, "QOS").as_deref() == Some("normal")).then_some(id)
    });
    assert_eq!(cluster.job(unpriced, "AdminComment"), None);
    assert_eq!(cluster.job(unpriced, "Comment").as_deref(), Some("bid:2"));

    cluster.ok("root", &["sacctmgr", "-i", "delete", "federation", "fed"]);
    eventually("bids count again", Duration::from_secs(30), || {
        (cluster.job(ask(), "QOS").as_deref() == Some("standard")).then_some(())
    });
}
