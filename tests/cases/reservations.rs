//! Reservations, whole nodes, lists of partitions, and time beyond the limit.

use std::time::Duration;

use system_tests::{Cluster, Setting, eventually};

use crate::runs::{assert_exact, await_receipts};

const SOON: Duration = Duration::from_secs(40);

#[test]
fn reserved_and_whole_nodes_and_time_beyond_the_limit_are_paid_for() {
    let conf = "\
PartitionName=whole Nodes=gpu[3-4] OverSubscribe=EXCLUSIVE
PartitionName=short Nodes=gpu[3-4] DefaultTime=10 MaxTime=10
PartitionName=over Nodes=gpu[1-2] OverTimeLimit=1
";
    let cluster = Cluster::with(&Setting { conf: conf.into(), ..Setting::default() });
    cluster.deposit("vision", "1000");
    cluster.deposit("nlp", "5");
    let earmark = |id: u32| {
        eventually("the daemon has seen the job", SOON, || {
            let reply = cluster.json("root", &["jobs", "-j", &id.to_string()]);
            reply["jobs"][0]["earmark"].as_str().map(str::to_owned)
        })
    };
    let held = |options: &[&str]| {
        let id = cluster.sbatch("vis1", &[&["--hold"], options].concat(), "true");
        let earmark = earmark(id);
        cluster.ok("vis1", &["scancel", &id.to_string()]);
        earmark
    };

    // It runs longer than its minute, to whose 60 s the partition adds 60: the escrow covers both.
    let over =
        cluster.sbatch("vis1", &["-p", "over", "--gres=gpu:a100:3", "-t1", "--comment=bid:2"], "sleep 65");
    let whole =
        cluster.sbatch("vis1", &["-p", "whole", "--gres=gpu:h100:1", "-t30", "--comment=bid:1"], "sleep 2");
    let exclusive = cluster.sbatch(
        "vis1",
        &["-p", "h100", "--exclusive", "--gres=gpu:h100:1", "-t30", "--comment=bid:1.1"],
        "sleep 2",
    );
    cluster.await_state(over, "RUNNING");
    let escrow = eventually("the run has its escrow", SOON, || {
        let reply = cluster.json("root", &["jobs", "-j", &over.to_string()]);
        reply["jobs"][0]["escrow"].as_str().filter(|escrow| *escrow != "0").map(str::to_owned)
    });
    // ⌈3 × 0.3125 × 120 / 3600⌉ in micro-SU.
    assert_eq!(escrow, "0.03125");

    // Whole nodes are earmarked whole.
    assert_eq!(held(&["-p", "whole", "--gres=gpu:h100:1", "-t60", "--comment=bid:1"]), "8");
    assert_eq!(held(&["-p", "h100", "--exclusive", "--gres=gpu:h100:1", "-t60", "--comment=bid:1"]), "8");
    // Of several partitions the longest time and the dearest least price must be covered at the submission; then Slurm
    // gives a job without a time limit that of the first.
    assert_eq!(held(&["-p", "a100,short", "--gres=gpu:6", "--comment=bid:1"]), "6");
    assert_eq!(held(&["-p", "short,a100", "--gres=gpu:6", "--comment=bid:1"]), "1");
    let refused = cluster.refused("nlp1", &["-p", "short,a100", "--gres=gpu:6", "--comment=bid:1"]);
    assert!(
        refused.contains("bid: needs 6 SU (6 GPUs x 1 h x 1) but account nlp has 5 SU free"),
        "{refused}"
    );
    let refused = cluster.refused("vis1", &["-p", "short,a100", "--gres=gpu:1", "--comment=bid:0.5"]);
    assert!(refused.contains("0.625") && refused.contains("name a model"), "{refused}");
    assert_eq!(held(&["-p", "short,a100", "--gres=gpu:a100:6", "-t5", "--comment=bid:0.5"]), "0.25");
    assert_eq!(held(&["-p", "over,a100", "--gres=gpu:a100:6", "-t59", "--comment=bid:1"]), "6");

    // A reserved node is no supply, and whoever may use it bids and pays as elsewhere.
    let reservation = [
        "scontrol",
        "create",
        "reservation",
        "ReservationName=lab",
        "Users=vis1",
        "Nodes=gpu2",
        "StartTime=now",
    ];
    cluster.ok("root", &[&reservation[..], &["Duration=60"]].concat());
    let supply = |gpus: u64| {
        eventually("the supply follows the reservation", SOON, || {
            (cluster.pool_figure("a100", "gpus_in_supply") == Some(gpus)).then_some(())
        });
    };
    supply(8);
    let inside = ["-p", "a100", "--reservation=lab", "--gres=gpu:a100:8", "-t10", "--comment=bid:0.7"];
    let refused = cluster.refused("nlp1", &["--reservation=lab", "--gres=gpu:a100:1", "-t1"]);
    assert!(refused.contains("reservation"), "{refused}");
    let reserved = cluster.sbatch("vis1", &inside, "sleep 6");
    cluster.await_state(reserved, "RUNNING");
    assert_eq!(cluster.job(reserved, "NodeList").as_deref(), Some("gpu2"));
    supply(8);
    cluster.await_state(reserved, "COMPLETED");
    cluster.ok("root", &["scontrol", "delete", "ReservationName=lab"]);
    supply(16);

    eventually("all jobs have ended", Duration::from_secs(90), || {
        cluster.ok("root", &["squeue", "-h"]).is_empty().then_some(())
    });
    let runs = await_receipts(&cluster, 4);
    let of = |id| runs.iter().find(|run| run.job_id == id).expect("a run");
    assert_eq!(
        (of(whole).gpus, of(exclusive).gpus, of(over).gpus, of(reserved).gpus),
        (8, 8, 3, 8),
        "{runs:?}"
    );
    assert!(of(over).state == "COMPLETED" && of(over).seconds > 60, "{runs:?}");
    assert_exact(&cluster, &runs, 1000);
    let (entries, _) = cluster.ledger();
    assert!(entries.iter().all(|entry| !entry.contains("house_loss")), "{entries:?}");
}
