//! The market's first day, its last day, and what its administrator reads.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use system_tests::{Cluster, Role, Setting, Slurm, built_dir, eventually};

const SOON: Duration = Duration::from_secs(40);

/// Lines of slurm.conf that are the market's alone.
const OUR_LINES: [&str; 2] = ["JobSubmitPlugins=", "PrioritySiteFactorPlugin="];

fn slurm_conf(cluster: &Cluster) -> PathBuf {
    cluster.dir().join("etc/slurm.conf")
}

/// Takes our lines out of slurm.conf and says what was there.
fn take_out(cluster: &Cluster) -> String {
    let with = std::fs::read_to_string(slurm_conf(cluster)).expect("reads");
    let ours = |line: &&str| !OUR_LINES.iter().any(|ours| line.starts_with(ours));
    let without: String = with.lines().filter(ours).map(|line| format!("{line}\n")).collect();
    assert_ne!(with, without);
    std::fs::write(slurm_conf(cluster), without).expect("writes");
    with
}

fn restart_slurmctld(cluster: &Cluster) {
    cluster.daemon("stop", "slurmctld");
    cluster.daemon("start", "slurmctld");
}

/// A cluster with jobs of a time before the market: two that fill both a100 nodes, two that wait for them. All of them
/// have a comment that looks like a bid.
fn full_queue() -> (Cluster, [u32; 2], [u32; 2]) {
    let cluster = Cluster::up();
    cluster.daemon("stop", "quotamarketd");
    let with = take_out(&cluster);
    restart_slurmctld(&cluster);
    std::fs::remove_dir_all(cluster.dir().join("state")).expect("removes the ledger");
    std::fs::create_dir(cluster.dir().join("state")).expect("creates");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(cluster.dir().join("state"), open).expect("opens");

    let job = |script| {
        cluster.sbatch("vis1", &["--gres=gpu:a100:8", "-t30", "--comment=bid:1", "-o", "/dev/null"], script)
    };
    let running = [job("sleep 600"), job("sleep 600")];
    running.iter().for_each(|id| cluster.await_state(*id, "RUNNING"));
    let waiting = [job("sleep 1"), job("sleep 1")];
    waiting.iter().for_each(|id| cluster.await_state(*id, "PENDING"));

    std::fs::write(slurm_conf(&cluster), with).expect("writes");
    cluster.daemon("start", "quotamarketd");
    restart_slurmctld(&cluster);
    cluster.deposit("vision", "100");
    (cluster, running, waiting)
}

#[test]
fn switched_on_with_a_full_queue_the_market_leaves_it_alone_until_somebody_bids() {
    let (cluster, running, [bidding, silent]) = full_queue();
    let unpriced = |id| {
        assert_eq!(cluster.job(id, "QOS").as_deref(), Some("normal"));
        assert_eq!(cluster.job(id, "AdminComment"), None);
    };
    running.into_iter().chain([bidding, silent]).for_each(unpriced);
    assert_eq!(cluster.json("root", &["jobs"])["jobs"], serde_json::json!([]));

    cluster.ok("root", &["scontrol", "update", &format!("JobId={bidding}"), "AdminComment=ticket 7"]);
    let bid = |user: &str, id: u32, limit: &str| cluster.run(user, &["sbid", "bid", &id.to_string(), limit]);
    let refused = bid("nlp1", bidding, "2");
    assert!(refused.stderr.contains("belongs to vis1"), "{refused:?}");
    let refused = bid("vis1", bidding, "0.1");
    assert!(refused.stderr.contains("under the least price 0.3125"), "{refused:?}");
    let refused = bid("vis1", running[0], "2");
    assert!(!refused.success, "{refused:?}");
    let told = cluster.ok("vis1", &["sbid", "bid", &bidding.to_string(), "2"]);
    assert!(told.contains("is in the market now and bids 2 SU"), "{told}");
    let stamp = cluster.job(bidding, "AdminComment").unwrap_or_default();
    assert!(stamp.starts_with("ticket 7; bid:") && stamp.ends_with(" 2 tier=standard"), "{stamp}");
    assert_eq!(cluster.job(bidding, "QOS").as_deref(), Some("standard"));
    assert_eq!(cluster.balance("vision")["earmarked"], "8", "8 GPUs × 0.5 h × 2");
    eventually("the bid is in the priority", SOON, || {
        let site = cluster.ok("root", &["sprio", "-h", "-j", &bidding.to_string(), "-o", "%S"]);
        (site.trim() == "174913").then_some(())
    });
    unpriced(silent);

    cluster.ok("root", &["scancel", &running[0].to_string(), &running[1].to_string()]);
    let paid = eventually("the receipt", SOON, || {
        let comment = cluster.sacct(bidding, "AdminComment").first()?.first()?.clone();
        comment.starts_with("ticket 7; paid=").then_some(comment)
    });
    eventually("the other one has run", SOON, || (cluster.state(silent) == "COMPLETED").then_some(()));
    cluster.assert_at_rest();
    let charged = cluster.balance("vision")["charged"].clone();
    assert!(paid.starts_with(&format!("ticket 7; paid={charged} bid=2 ")), "{paid}, in all {charged}");
    assert_eq!(cluster.sacct(silent, "QOS,AdminComment"), [["normal", ""]]);
}

/// Waits until `sbid admin drain` has nothing more to reset.
fn drain(cluster: &Cluster) -> serde_json::Value {
    eventually("no waiting job is left", SOON, || {
        // Just started, the daemon has not read Slurm yet.
        let outcome = cluster.run("root", &["sbid", "--json", "admin", "drain"]);
        let document: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        let drain = document["drains"][0].clone();
        (drain["waiting"] == 0).then_some(drain)
    })
}

#[test]
fn drained_slurm_goes_on_without_us_and_nobody_pays_for_what_runs_then() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "100");
    let options = |comment| ["--gres=gpu:a100:8", "-t10", comment, "-o", "/dev/null"];
    let runs = cluster.sbatch("vis1", &options("--comment=bid:2"), "sleep 15");
    let fills = cluster.sbatch("vis1", &options("--comment=bid:2"), "sleep 600");
    [runs, fills].iter().for_each(|id| cluster.await_state(*id, "RUNNING"));
    let waits = cluster.sbatch("vis1", &options("--comment=bid:1"), "true");
    let array = cluster.sbatch("vis1", &[&options("--comment=bid:1")[..], &["--array=1-3"]].concat(), "true");
    let held = cluster.sbatch("vis1", &[&options("--comment=bid:0")[..], &["--hold"]].concat(), "true");
    let waiting = [waits, array, held];
    for id in waiting {
        cluster.ok("root", &["scontrol", "show", "job", &id.to_string()]);
    }
    eventually("all are in the market", SOON, || {
        (cluster.json("root", &["jobs"])["jobs"].as_array()?.len() == 5).then_some(())
    });

    let refused = cluster.run("vis1", &["sbid", "admin", "drain"]);
    assert!(!refused.success && refused.stderr.contains("operators"), "{refused:?}");
    let state = drain(&cluster);
    assert_eq!(state["running"], 2, "{state}");
    assert!(state["running_until"].is_number(), "{state}");
    for id in waiting {
        assert_eq!(cluster.job(id, "QOS").as_deref(), Some("normal"), "job {id}");
        assert_eq!(cluster.job(id, "AdminComment").unwrap_or_default(), "", "job {id}");
    }
    assert_eq!(cluster.balance("vision")["earmarked"], "0");
    let sites = cluster.ok("root", &["sprio", "-h", "-o", "%S"]);
    assert!(sites.split_whitespace().all(|site| site == "0"), "{sites}");
    let words = [&["sbatch", "--parsable"], &options("--comment=bid:3")[..], &["--wrap", "true"]].concat();
    let late = cluster.run("vis1", &words);
    assert!(late.success && late.stderr.contains("accepted without its bid"), "{late:?}");
    let late: u32 = late.stdout.trim().parse().expect("a job id");
    assert_eq!(cluster.job(late, "AdminComment"), None);

    // A restart of the daemon forgets nothing.
    cluster.daemon("kill", "quotamarketd");
    cluster.daemon("start", "quotamarketd");
    eventually("it still drains", SOON, || {
        let outcome = cluster.run("root", &["sbid", "--json", "admin", "doctor"]);
        outcome.stdout.contains("being taken out of service").then_some(())
    });

    take_out(&cluster);
    cluster.daemon("stop", "slurmctld");
    std::fs::remove_dir_all(cluster.dir().join("plugins")).expect("removes the plugins");
    std::fs::create_dir(cluster.dir().join("plugins")).expect("creates");
    cluster.daemon("start", "slurmctld");
    cluster.ok("root", &["scancel", &fills.to_string()]);
    eventually("Slurm schedules what waited", SOON, || {
        let left = cluster.ok("root", &["squeue", "-h", "-o", "%i"]);
        (left.trim() == held.to_string()).then_some(())
    });
    assert!(cluster.receipt(runs).starts_with("paid="));
    assert!(cluster.receipt(fills).starts_with("paid="));
    for id in [waits, late] {
        assert_eq!(cluster.sacct(id, "State,QOS,AdminComment"), [["COMPLETED", "normal", ""]]);
    }
    cluster.assert_at_rest();
    let (entries, _) = cluster.ledger();
    let charges = entries.iter().filter(|entry| entry.starts_with("charge vision")).count();
    assert_eq!(charges, 2, "{entries:?}");
    eventually("nothing is left", SOON, || {
        let state = drain(&cluster);
        (state["running"] == 0 && state["receipts"] == 0).then_some(())
    });
}

#[test]
fn undone_the_market_takes_bids_again() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "100");
    let options = ["--hold", "--gres=gpu:a100:1", "-t10", "--comment=bid:2"];
    let id = cluster.sbatch("vis1", &options, "true");
    eventually("it is in the market", SOON, || (cluster.balance("vision")["earmarked"] != "0").then_some(()));
    drain(&cluster);
    let told = cluster.ok("root", &["sbid", "admin", "drain", "--undo"]);
    assert!(told.starts_with("The market is in service."), "{told}");
    eventually("new bids count", SOON, || {
        let words = [&["sbatch", "--parsable"], &options[..], &["--wrap", "true"]].concat();
        let outcome = cluster.run("vis1", &words);
        let id: u32 = outcome.stdout.trim().parse().expect("a job id");
        cluster.job(id, "AdminComment").filter(|stamp| stamp.ends_with(" 2 tier=standard"))
    });
    assert_eq!(cluster.job(id, "AdminComment").as_deref(), Some(""), "what was reset stays without a bid");
    cluster.ok("vis1", &["sbid", "bid", &id.to_string(), "3"]);
    assert!(cluster.job(id, "AdminComment").is_some_and(|stamp| stamp.ends_with(" 3 tier=standard")));
}

/// Subjects and sentences of all findings that are errors or warnings.
fn troubles(cluster: &Cluster) -> Vec<String> {
    let outcome = cluster.run("root", &["sbid", "--json", "admin", "doctor"]);
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let findings = document["findings"].as_array().expect("findings").clone();
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let troubles: Vec<String> = findings
        .iter()
        .filter(|finding| ["error", "warning"].contains(&text(finding, "level").as_str()))
        .map(|finding| format!("{} {}", text(finding, "subject"), text(finding, "finding")))
        .collect();
    let any_error = findings.iter().any(|finding| text(finding, "level") == "error");
    assert_eq!(outcome.success, !any_error, "{outcome:?}");
    troubles
}

fn await_troubles(cluster: &Cluster, expected: &[&str]) {
    let begin_so = |troubles: &[String]| {
        troubles.len() == expected.len()
            && troubles.iter().zip(expected).all(|(trouble, begin)| trouble.starts_with(begin))
    };
    eventually(&format!("doctor finds {expected:?}"), SOON, || begin_so(&troubles(cluster)).then_some(()));
}

#[test]
fn doctor_finds_nothing_wrong_with_a_good_cluster_and_what_is_broken_on_a_bad_one() {
    for role in [Role::SiteFactor, Role::Priority] {
        let cluster = Cluster::with(&Setting { role, ..Setting::default() });
        await_troubles(&cluster, &[]);
        if role == Role::Priority {
            continue;
        }
        cluster.daemon("stop", "slurmdbd");
        await_troubles(&cluster, &["slurmdbd does not answer"]);
        cluster.daemon("start", "slurmdbd");
        let with = take_out(&cluster);
        restart_slurmctld(&cluster);
        await_troubles(
            &cluster,
            &[
                "plugin job_submit ",
                "plugin priority ",
                "JobSubmitPlugins lacks bid",
                "PriorityType neither site_factor/bid nor priority/bid",
            ],
        );
        let worse = with
            .replace("bf_continue,", "")
            .replace("job_comment", "job_script")
            .replace("PriorityWeightAge=1000", "PriorityWeightAge=50000");
        std::fs::write(slurm_conf(&cluster), worse).expect("writes");
        restart_slurmctld(&cluster);
        await_troubles(
            &cluster,
            &[
                "SchedulerParameters lacks bf_continue",
                "PriorityWeight PriorityWeightAge=50000 can outvote 3.0 doublings",
                "AccountingStoreFlags lacks job_comment",
            ],
        );
        let outcome = cluster.run("vis1", &["sbid", "admin", "doctor"]);
        assert!(!outcome.success && outcome.stderr.contains("operators"), "{outcome:?}");
    }
}

#[test]
fn a_closed_directory_and_a_missing_daemon_are_one_sentence_each() {
    let cluster = Cluster::up();
    let run = cluster.dir().join("run");
    let price = || cluster.run("vis1", &["sbid", "price"]).stderr;
    eventually("it answers", SOON, || price().is_empty().then_some(()));
    let mode = |path: &Path, mode: u32| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("sets the mode");
    };
    mode(&run, 0o700);
    let told = price();
    assert!(told.contains("Permission denied") && told.lines().count() == 1, "{told}");
    await_troubles(&cluster, &["socket_dir"]);
    let doctor = cluster.run("vis1", &["sbid", "admin", "doctor"]);
    assert!(doctor.stdout.contains("market.sock: permission denied."), "{doctor:?}");
    mode(&run, 0o755);
    mode(&run.join("market.sock"), 0o600);
    let told = price();
    assert!(told.contains("Permission denied") && told.lines().count() == 1, "{told}");
    await_troubles(&cluster, &["market.sock"]);
    cluster.daemon("stop", "quotamarketd");
    // Neither can the daemon work in a directory that is closed to it, and says so before it ends.
    for name in ["run", "state"] {
        let path = cluster.dir().join(name);
        let owner = std::fs::metadata(&path).expect("is there").uid();
        std::os::unix::fs::chown(&path, Some(0), None).expect("changes the owner");
        let told = cluster.try_daemon("start", "quotamarketd").stderr;
        assert!(told.contains("it must belong to uid 61000"), "{name}: {told}");
        std::os::unix::fs::chown(&path, Some(owner), None).expect("changes the owner");
    }
    let told = price();
    assert!(told.contains("is it running?") && told.lines().count() == 1, "{told}");
    await_troubles(&cluster, &["quotamarketd does not run"]);
}

#[test]
fn a_wrong_market_toml_stops_the_daemon_and_not_slurmctld() {
    let cluster = Cluster::up();
    let path = cluster.dir().join("etc/market.toml");
    let good = std::fs::read_to_string(&path).expect("reads");
    std::fs::write(&path, format!("quantums = 5\n{good}")).expect("writes");
    let sentence = "market.toml:1: quantums: unknown field";
    let named = |troubles: Vec<String>| troubles.len() == 1 && troubles[0].contains(sentence);
    eventually("doctor names the line", SOON, || named(troubles(&cluster)).then_some(()));
    cluster.daemon("stop", "quotamarketd");
    let told = cluster.try_daemon("start", "quotamarketd").stderr;
    assert!(told.contains(sentence), "{told}");
    let told = cluster.run("vis1", &["sbid", "price"]).stderr;
    assert!(told.contains(sentence) && told.lines().count() == 1, "{told}");
    let from = log_since(&cluster, 0).len();
    restart_slurmctld(&cluster);
    let lines = eventually("the plugins say so", SOON, || {
        let log = log_since(&cluster, from);
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(sentence)).collect();
        (lines.len() == 2).then(|| lines.join("\n"))
    });
    assert_eq!(lines.matches("going on with the defaults").count(), 2, "one line for each role: {lines}");
}

/// slurmctld's log since `from` bytes.
fn log_since(cluster: &Cluster, from: usize) -> String {
    let log = std::fs::read(cluster.dir().join("log/slurmctld.log")).expect("reads");
    String::from_utf8_lossy(&log[from.min(log.len())..]).into_owned()
}

#[test]
fn slurmctld_says_which_plugin_is_missing() {
    let without_site_factor = Slurm::installed().runs_without_its_site_factor_plugin();
    for (role, plugin, name, runs) in [
        (Role::SiteFactor, "job_submit_bid", "cannot find job_submit plugin for job_submit/bid", false),
        (
            Role::SiteFactor,
            "site_factor_bid",
            "cannot find site_factor plugin for site_factor/bid",
            without_site_factor,
        ),
        (Role::Priority, "priority_bid", "cannot find priority plugin for priority/bid", false),
    ] {
        let cluster = Cluster::with(&Setting { role, ..Setting::default() });
        cluster.daemon("stop", "slurmctld");
        let from = log_since(&cluster, 0).len();
        let path = cluster.dir().join(format!("plugins/{plugin}.so"));
        std::fs::remove_file(&path).expect("removes the plugin");
        // Whether it can start is the question.
        let _ = cluster.try_daemon("start", "slurmctld");
        eventually(name, SOON, || log_since(&cluster, from).contains(name).then_some(()));
        eventually("it runs or has ended", SOON, || (cluster.runs("slurmctld") == runs).then_some(()));
        if runs {
            await_troubles(&cluster, &["plugin priority", "PluginDir site_factor_bid.so is missing"]);
        }
        std::fs::copy(built_dir().join(format!("lib{plugin}.so")), &path).expect("copies");
        if !runs {
            cluster.daemon("start", "slurmctld");
        }
    }
}
