//! The other way to bring bids into priorities: `PriorityType=priority/bid`.

use std::collections::BTreeMap;
use std::time::Duration;

use system_tests::{Cluster, Outcome, Role, Setting, eventually};

use crate::{order, plugins};

const SOON: Duration = Duration::from_secs(30);

fn setting() -> Setting {
    Setting { role: Role::Priority, ..Setting::default() }
}

#[test]
fn jobs_start_by_bid() {
    order::start_by_bid(&Cluster::with(&setting()));
}

#[test]
fn a_changed_bid_is_in_sprio_within_a_second() {
    let cluster = Cluster::with(&setting());
    order::change_a_bid(&cluster);
    let long = cluster.ok("root", &["sprio", "-l"]);
    let header: Vec<&str> = long.lines().next().expect("a header").split_whitespace().collect();
    assert!(header.contains(&"SITE"), "{long}");
}

/// What sprio shows as SITE, by job id.
fn sites(cluster: &Cluster) -> BTreeMap<u32, u64> {
    let lines = cluster.ok("root", &["sprio", "-h", "-o", "%i %S"]);
    let pair = |line: &str| {
        let (id, site) = line.trim().split_once(' ')?;
        Some((id.parse().ok()?, site.trim().parse().ok()?))
    };
    lines.lines().filter_map(pair).collect()
}

#[test]
fn slurmctld_may_be_reconfigured_and_restarted_in_the_middle_of_repricing() {
    let cluster = Cluster::with(&setting());
    cluster.deposit("vision", "1000");
    // Nothing starts.
    cluster.ok("root", &["scontrol", "update", "NodeName=gpu[1-4]", "State=DRAIN", "Reason=test"]);
    let submit = |_| cluster.sbatch("vis1", &["--gres=gpu:a100:8", "-t1", "--comment=bid:2"], "true");
    let ids: Vec<u32> = (0..30).map(submit).collect();
    let mut expected: BTreeMap<u32, u64> = ids.iter().map(|id| (*id, 174_913)).collect();
    let agrees = |expected: &BTreeMap<u32, u64>| {
        eventually("the factors are those of the bids", SOON, || {
            (sites(&cluster) == *expected).then_some(())
        });
    };
    agrees(&expected);
    for (round, ids) in ids.chunks(6).enumerate() {
        for id in ids {
            eventually("the daemon has seen the job", SOON, || {
                cluster.run("vis1", &["sbid", "bid", &id.to_string(), "4"]).success.then_some(())
            });
            expected.insert(*id, 174_913 + 16_384);
        }
        if round % 2 == 0 {
            cluster.daemon("stop", "slurmctld");
            cluster.daemon("start", "slurmctld");
        } else {
            cluster.ok("root", &["scontrol", "reconfigure"]);
        }
        agrees(&expected);
    }
    assert!(cluster.runs("slurmctld"));
}

/// Without fair tree, sshare asks the priority plugin for each factor.
#[test]
fn sshare_shows_what_multifactor_computes_and_nothing_else() {
    let conf = "PriorityFlags=NO_FAIR_TREE\n".into();
    let cluster = Cluster::with(&Setting { conf, ..setting() });
    let path = cluster.dir().join("etc/slurm.conf");
    let ours = std::fs::read_to_string(&path).expect("reads");
    let sshare = |conf: &str| -> Outcome {
        // Only this command reads it.
        let path = path.with_file_name("sshare.conf");
        std::fs::write(&path, conf).expect("writes");
        let variable = format!("SLURM_CONF={}", path.display());
        cluster.run("vis1", &["env", &variable, "sshare", "-a", "-l"])
    };
    let with_ours = sshare(&ours);
    assert!(with_ours.success && with_ours.stderr.is_empty(), "{with_ours:?}");
    assert!(with_ours.stdout.contains("vis1"), "{with_ours:?}");
    let with_slurms = sshare(&ours.replace("PriorityType=priority/bid", "PriorityType=priority/multifactor"));
    assert_eq!(with_ours.stdout, with_slurms.stdout);
    // A login node without priority_bid.so: it is needed there.
    let plugins = format!("{}:", cluster.dir().join("plugins").display());
    let without = sshare(&ours.replace(&plugins, ""));
    assert!(without.stderr.contains("priority/bid") && without.stdout != with_ours.stdout, "{without:?}");
}

#[test]
fn two_plugins_for_the_site_factor_are_refused_in_one_sentence() {
    let conf = "PrioritySiteFactorPlugin=site_factor/bid\n".into();
    let told = Cluster::start(&Setting { conf, ..setting() }).expect_err("slurmctld started with both");
    let sentence = "bid: PriorityType=priority/bid sets site factors itself and cannot run beside \
                    PrioritySiteFactorPlugin=site_factor/bid; take one of the two out of slurm.conf";
    assert!(told.contains(sentence), "{told}");
}

#[test]
fn a_panic_over_a_priority_leaves_slurmctld_alive() {
    let cluster = Cluster::with(&Setting { built: Some(plugins::panicking_build()), ..setting() });
    cluster.deposit("vision", "100");
    let terms = ["--gres=gpu:a100:1", "-t1"];
    for _ in 0..3 {
        let id = cluster.sbatch("vis1", &[&terms[..], &["--comment=bid:1 force-panic"]].concat(), "true");
        assert!(cluster.receipt(id).starts_with("paid="));
    }
    assert!(cluster.runs("slurmctld"));
    let id = cluster.sbatch("vis1", &[&terms[..], &["--comment=bid:1"]].concat(), "true");
    assert!(cluster.receipt(id).starts_with("paid="));
}
