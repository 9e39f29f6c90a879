//! Submit lines: each has a stated answer.

use std::time::Duration;

use system_tests::{Cluster, Setting, Slurm, eventually};

#[test]
fn refusals_say_what_is_wrong_and_what_to_type() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "100");
    cluster.deposit("nlp", "0.5");
    let refusals: &[(&str, &[&str], &str)] = &[
        (
            "nlp1",
            &["--gres=gpu:h100:8", "-t4:00:00", "--comment=bid:3"],
            "bid: needs 96 SU (8 GPUs x 4 h x 3) but account nlp has 0.5 SU free; lower the limit or hours, or bid:0 for the free tier",
        ),
        (
            "vis1",
            &["--gres=gpu:1", "-t10", "--comment=bid:3,5x"],
            "bid: cannot read \"5x\" at column 7 of the comment; write e.g. bid:3.5",
        ),
        (
            "vis1",
            &["--gres=gpu:a100:1", "-t10", "--comment=bid:0.2"],
            "bid: limit 0.2 is under the least price 0.3125 SU/GPU-hour of tier standard in pool a100; bid at least 0.3125, or bid:0 for the free tier",
        ),
        ("vis1", &["--gpus=4", "-t10", "--comment=bid:0.4"], "name a model"),
        ("vis1", &["--gres=gpu:a100:1", "--comment=bid:1 bid:2"], "two bids"),
        ("vis1", &["--gres=gpu:a100:1", "--comment=bid=1"], "bid:"),
        (
            "vis1",
            &["--gres=gpu:a100:1", "--comment=bid:1,tier=gold"],
            "write tier=urgent, tier=standard or tier=spot",
        ),
        ("vis1", &["--gres=gpu:a100:1", "--comment=bid:1,max=40"], "not available yet"),
        ("vis1", &["--gres=gpu:a100:1", "--comment=bid:1", "--qos=normal"], "--qos"),
        ("vis1", &["--gres=gpu:a100:1", "--comment=bid:1", "--qos=standard,normal"], "leave --qos out"),
        ("vis1", &["--gres=gpu:a100:1", "--qos=standard"], "--comment=bid:"),
        ("vis1", &["--gres=gpu:a100:1", "--qos=normal,standard"], "QOS standard is for jobs with a bid"),
        ("vis1", &["--gres=gpu:a100:1", "--comment=bid:1", "-A", "nlp"], "no association with account nlp"),
    ];
    for (user, options, sentence) in refusals {
        let text = cluster.refused(user, options);
        assert!(text.contains(sentence), "{options:?}: {text:?} lacks {sentence:?}");
        let lines = text.lines().filter(|line| line.contains("bid:")).count();
        assert_eq!(lines, 1, "one sentence: {text:?}");
    }
    assert_eq!(cluster.balance("vision")["free"], "100");
}

#[test]
fn each_way_to_ask_has_its_answer() {
    let setting = Setting { conf: String::new(), ..Setting::default() };
    let cluster = Cluster::with(&setting);
    cluster.deposit("vision", "1000");
    let submit = |options: &[&str]| {
        let options = [&["--hold"], options].concat();
        let id = cluster.sbatch("vis1", &options, "true");
        let earmark = eventually("the daemon has seen the job", Duration::from_secs(10), || {
            let reply = cluster.json("root", &["jobs", "-j", &id.to_string()]);
            reply["jobs"][0]["earmark"].as_str().map(str::to_owned)
        });
        (id, earmark)
    };
    let bid = |options: &[&str]| {
        let (id, earmark) = submit(options);
        let answer =
            (cluster.job(id, "QOS").expect("QOS"), cluster.job(id, "Account").expect("account"), earmark);
        cluster.ok("vis1", &["scancel", &id.to_string()]);
        answer
    };
    let standard = |earmark: &str| ("standard".to_owned(), "vision".to_owned(), earmark.to_owned());

    // No account, and one in capitals: the default account; Slurm writes accounts in lower case.
    assert_eq!(bid(&["--gres=gpu:a100:2", "-t60", "--comment=bid:1"]), standard("2"));
    assert_eq!(bid(&["-A", "VISION", "--gres=gpu:a100:2", "-t60", "--comment=bid:1"]), standard("2"));
    // No time limit: the partition's DefaultTime of an hour. More than a day: a day is earmarked.
    assert_eq!(bid(&["--gres=gpu:a100:2", "--comment=bid:1"]), standard("2"));
    assert_eq!(bid(&["--gres=gpu:a100:1", "-t2-12", "--comment=bid:1"]), standard("24"));
    // GPUs by every option.
    assert_eq!(bid(&["--gpus-per-node=h100:4", "-N2", "-t30", "--comment=bid:1"]), standard("4"));
    assert_eq!(bid(&["--gpus=a100:3", "-t60", "--comment=bid:1"]), standard("3"));
    assert_eq!(bid(&["--gpus-per-task=a100:2", "-n3", "-t60", "--comment=bid:1"]), standard("6"));
    assert_eq!(bid(&["--gpus=4", "-t60", "--comment=bid:1"]), standard("4"));
    assert_eq!(bid(&["--exclusive", "--gres=gpu:a100:1", "-t60", "--comment=bid:1"]), standard("8"));
    // The largest shape, on the nodes that there are.
    assert_eq!(
        bid(&["-p", "a100", "-N1-2", "--gpus-per-node=a100:4", "-t60", "--comment=bid:1"]),
        standard("8")
    );
    let of_tasks = if Slurm::installed().hides_that_nodes_are_not_bounded() { "1" } else { "2" };
    assert_eq!(
        bid(&["-p", "a100", "-n64", "--gres=gpu:a100:1", "-t60", "--comment=bid:1"]),
        standard(of_tasks)
    );
    // An array: as many tasks as may run at once.
    assert_eq!(bid(&["--array=0-9%2", "--gres=gpu:a100:1", "-t60", "--comment=bid:1"]), standard("2"));
    assert_eq!(bid(&["--array=0-9", "--gres=gpu:a100:1", "-t60", "--comment=bid:1"]), standard("10"));
    // A comment that another tool wrote around the bid, which is kept.
    assert_eq!(bid(&["--gres=gpu:a100:1", "-t60", "--comment=rule_a {\"x\":[1]};bid:1;y"]), standard("1"));
    assert_eq!(bid(&["--gres=gpu:a100:1", "-t60", "--comment=bid:0"]).0, "free");
    let (id, _) = submit(&["--gres=gpu:a100:1", "-t60", "--comment=forbid:5 http://x?bid:5 bid:2"]);
    assert_eq!(cluster.job(id, "Comment").as_deref(), Some("forbid:5 http://x?bid:5 bid:2"));
    assert!(cluster.job(id, "AdminComment").is_some_and(|stamp| stamp.ends_with(" 2 tier=standard")));

    // Without a bid, and a bid without GPUs: as Slurm would have it.
    for options in
        [&["--gres=gpu:a100:1"][..], &["--comment=bid:1"], &["--gres=gpu:a100:1", "--comment=forbid:5"]]
    {
        let id = cluster.sbatch("vis1", &[&["--hold"], options].concat(), "true");
        assert_eq!(cluster.job(id, "QOS").as_deref(), Some("normal"), "{options:?}");
        assert_eq!(cluster.job(id, "AdminComment"), None, "{options:?}");
    }
}

#[test]
fn other_channels_and_shapes() {
    let teams = "vision vis1 61001\nnlp nlp1 61003\n".to_owned();
    let cluster = Cluster::with(&Setting { teams: Some(teams), ..Setting::default() });
    cluster.deposit("vision", "100");
    // The environment, for those whose comment is taken; the comment wins.
    let words = [
        "env",
        "SBATCH_BID=2",
        "sbatch",
        "--parsable",
        "--hold",
        "--gres=gpu:a100:1",
        "-t60",
        "--wrap",
        "true",
    ];
    let id: u32 = cluster.ok("vis1", &words).trim().parse().expect("a job id");
    assert!(cluster.job(id, "AdminComment").is_some_and(|stamp| stamp.ends_with(" 2 tier=standard")));

    // A user without association: Slurm's accounting has no account for root; the sentence comes before its error.
    let nobody =
        cluster.run("slurmq", &["sbatch", "--gres=gpu:a100:1", "-t1", "--comment=bid:1", "--wrap", "true"]);
    assert!(!nobody.success && nobody.stderr.contains("bid: "), "{nobody:?}");

    // A user whom the accounting learns of now gets in within seconds, or is told so.
    let add = [
        "sacctmgr",
        "-i",
        "add",
        "user",
        "slurmq",
        "account=vision",
        "qos=normal,standard,free",
        "defaultqos=normal",
    ];
    cluster.ok("root", &add);
    eventually("the new user can bid", Duration::from_secs(30), || {
        let words = ["sbatch", "--hold", "--gres=gpu:a100:1", "-t1", "--comment=bid:1", "--wrap", "true"];
        cluster.run("slurmq", &words).success.then_some(())
    });
}

/// Without a bid Slurm alone decides, several QOS included.
#[test]
fn several_qos_are_left_to_slurm_without_a_bid() {
    let cluster = Cluster::up();
    cluster.ok("root", &["sacctmgr", "-i", "add", "qos", "long"]);
    cluster.ok("root", &["sacctmgr", "-i", "modify", "user", "vis1", "set", "qos+=long"]);
    let words =
        ["sbatch", "--parsable", "--hold", "--gres=gpu:a100:1", "-t1", "--qos=normal,long", "--wrap", "true"];
    if !Slurm::installed().takes_several_qos() {
        let outcome = cluster.run("vis1", &words);
        assert!(!outcome.success && !outcome.stderr.contains("bid:"), "{outcome:?}");
        return;
    }
    let id = eventually("slurmctld knows the new QOS", Duration::from_secs(30), || {
        cluster.run("vis1", &words).stdout.trim().parse::<u32>().ok()
    });
    assert_eq!(cluster.job(id, "QOS").as_deref(), Some("normal,long"));
    assert_eq!(cluster.job(id, "AdminComment"), None);
    let job = format!("JobId={id}");
    let outcome = cluster.run("vis1", &["scontrol", "update", &job, "QOS=normal,standard"]);
    assert!(!outcome.success, "{outcome:?}");
    assert!(outcome.stderr.contains("QOS standard is for jobs with a bid"), "{outcome:?}");
}
