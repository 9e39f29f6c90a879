use std::sync::Arc;

use market_api::config::Config;

use super::*;
use crate::snapshot::{Partition, Settings};

const STAMP: &str = "note; bid:0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e 3.5 tier=standard";

fn market() -> Snapshot {
    let partition = |default_time_min| Partition { default_time_min, ..Partition::default() };
    let partitions = [("gpu".to_owned(), partition(Some(60))), ("long".to_owned(), partition(None))];
    Snapshot { partitions: Arc::new(partitions.into()), ..Snapshot::of_file(&Config::default()) }
}

fn priced() -> JobRecord<'static> {
    JobRecord {
        job_id: 12,
        array_job_id: None,
        user_id: 1001,
        pending: true,
        submit_s: 7,
        time_limit: 60,
        min_nodes: 1,
        max_nodes: 0,
        min_cpus: 1,
        num_tasks: 1,
        whole_nodes: false,
        array_tasks: 0,
        array_throttle: None,
        account: Some("vision".into()),
        partition: Some("gpu".into()),
        qos: Some("standard".into()),
        comment: Some(b"bid:3.5 mine"),
        admin_comment: Some(STAMP.into()),
        tres_per_job: None,
        tres_per_node: Some("gres:gpu:a100:2".into()),
        tres_per_socket: None,
        tres_per_task: None,
    }
}

fn unpriced() -> JobRecord<'static> {
    JobRecord { admin_comment: Some("note".into()), qos: Some("normal".into()), comment: None, ..priced() }
}

/// `None`: lets it pass; else what stands between `bid: job 12: ` and the first `;`.
fn told(job: &JobRecord<'_>, change: &Change<'_>) -> Option<String> {
    let sentence = judge(&market(), job, change, false).err()?.sentence;
    let text = sentence.strip_prefix("bid: job 12: ").expect("names the job");
    Some(text.split(';').next().unwrap_or_default().to_owned())
}

fn by_operator(change: Change<'_>) -> Change<'_> {
    Change { by_operator: true, ..change }
}

#[test]
fn what_is_not_priced_anew_cannot_be_raised() {
    let raised = |what: &str| Some(format!("the {what} of a job with a bid cannot be raised"));
    let moved = |what: &str| Some(format!("the {what} of a job with a bid cannot be changed"));
    let none = Change::default;
    let table: Vec<(Change<'_>, Option<String>)> = vec![
        (none(), None),
        (Change { time_limit: Some(61), ..none() }, raised("time limit")),
        (Change { time_limit: Some(INFINITE), ..none() }, raised("time limit")),
        (Change { time_limit: Some(60), ..none() }, None),
        (Change { time_limit: Some(1), ..none() }, None),
        (Change { account: Some("nlp".into()), ..none() }, moved("account")),
        (Change { account: Some("Vision".into()), ..none() }, None),
        (Change { partition: Some("long".into()), ..none() }, moved("partition")),
        (Change { partition: Some("gpu".into()), ..none() }, None),
        (Change { qos: Some("free".into()), ..none() }, moved("QOS")),
        (Change { qos: Some("standard,normal".into()), ..none() }, moved("QOS")),
        (Change { qos: Some("STANDARD".into()), ..none() }, None),
        (Change { tres_per_node: Some("gres:gpu:a100:4".into()), ..none() }, moved("GPU request")),
        (Change { tres_per_node: Some("gres:gpu:a100:2".into()), ..none() }, None),
        (Change { tres_per_job: Some("gres:gpu:1".into()), ..none() }, moved("GPU request")),
        (Change { min_nodes: Some(2), ..none() }, raised("number of nodes")),
        (Change { min_nodes: Some(1), max_nodes: Some(1), ..none() }, None),
        (Change { num_tasks: Some(2), ..none() }, raised("number of tasks")),
        // One GPU per node: nodes that are named, and those that CPUs need, bring theirs.
        (Change { req_nodes: Some("gpu[1-2]".into()), ..none() }, raised("number of nodes")),
        (Change { req_nodes: Some("gpu2".into()), ..none() }, None),
        (Change { req_nodes: Some("".into()), ..none() }, None),
        (Change { min_cpus: Some(200), ..none() }, raised("number of CPUs")),
        (Change { min_cpus: Some(1), ..none() }, None),
    ];
    for (change, expected) in table {
        assert_eq!(told(&priced(), &change), expected, "{change:?}");
        assert_eq!(told(&priced(), &by_operator(change.clone())), None, "{change:?}");
        if change.qos.is_none() {
            assert_eq!(told(&unpriced(), &change), None, "{change:?}");
        }
    }
}

#[test]
fn cpus_and_names_are_free_within_a_given_number_of_nodes() {
    let job = JobRecord { max_nodes: 2, ..priced() };
    assert_eq!(told(&job, &Change { min_cpus: Some(200), ..Change::default() }), None);
    let named = |list: &'static str| Change { req_nodes: Some(list.into()), ..Change::default() };
    assert_eq!(told(&job, &named("gpu1,gpu2")), None);
    assert!(told(&job, &named("gpu[1-3]")).is_some());
}

#[test]
fn a_time_limit_that_was_not_given_is_the_partitions() {
    let of = |partition: &'static str, time_limit| {
        let job = JobRecord { time_limit: NO_VAL, partition: Some(partition.into()), ..priced() };
        told(&job, &Change { time_limit: Some(time_limit), ..Change::default() }).is_none()
    };
    assert!(of("gpu", 60) && !of("gpu", 61));
    assert!(of("long", INFINITE) && of("gpu,long", INFINITE));
    assert!(!of("unheard-of", 1));
}

#[test]
fn a_throttle_may_be_lowered_and_raised_only_where_all_tasks_are_covered() {
    let change = |throttle| Change { array_throttle: Some(throttle), ..Change::default() };
    let of =
        |present, new| told(&JobRecord { array_throttle: Some(present), ..priced() }, &change(new)).is_none();
    assert!(of(5, 5) && of(5, 1) && of(0, 1) && of(0, 0));
    assert!(!of(5, 6) && !of(5, 0));
    let all = Settings { array_earmark: ArrayEarmark::All, ..Settings::clone(&market().settings) };
    let all = Snapshot { settings: Arc::new(all), ..market() };
    assert!(judge(&all, &JobRecord { array_throttle: Some(5), ..priced() }, &change(0), false).is_ok());
    // A single task has no throttle of its own.
    assert_eq!(told(&priced(), &change(7)), None);
}

#[test]
fn a_comment_never_moves_the_bid() {
    let comment = |text: &'static str| Change { comment: Some(text.as_bytes()), ..Change::default() };
    let told_to_use = |change: &Change<'_>| {
        let sentence = judge(&market(), &priced(), change, false).err().map(|refusal| refusal.sentence);
        sentence.and_then(|text| text.split_once("use: ").map(|(_, command)| command.to_owned()))
    };
    for by in [|change| change, by_operator] {
        assert_eq!(told_to_use(&by(comment("bid:4"))).as_deref(), Some("sbid bid 12 4"));
        assert_eq!(told_to_use(&by(comment("bid:0"))).as_deref(), Some("sbid bid 12 0"));
        assert!(told(&priced(), &by(comment("bid:x"))).is_some());
        for harmless in ["", "no token", "forbid:4", "bid:3.5", "x bid:3.50 y", "bid:3.5 mine"] {
            assert_eq!(told(&priced(), &by(comment(harmless))), None, "{harmless}");
        }
    }
    // The daemon changed the bid of record: the comment may keep the old token or say the new one.
    let changed = JobRecord { admin_comment: Some(STAMP.replace("3.5", "5").into()), ..priced() };
    for harmless in ["bid:3.5", "bid:5"] {
        assert_eq!(told(&changed, &comment(harmless)), None);
    }
    assert!(told(&changed, &comment("bid:4")).is_some());
    // The tier may have changed by the QOS; a token that names none says nothing of it.
    let spot = JobRecord { admin_comment: Some(STAMP.replace("standard", "spot").into()), ..priced() };
    for harmless in ["x bid:3.5", "x bid:3.5,tier=spot"] {
        assert_eq!(told(&spot, &comment(harmless)), None);
    }
    assert!(told(&spot, &comment("bid:3.5,tier=standard")).is_some());
    // A new stamp in the same change is the bid of record.
    let both =
        Change { admin_comment: Some(STAMP.replace("3.5", "4").into()), ..by_operator(comment("bid:4")) };
    assert_eq!(told(&priced(), &both), None);
    // What stood there before is nobody's fault.
    let odd = JobRecord { comment: Some(b"bid:x"), ..priced() };
    assert_eq!(told(&odd, &comment("bid:x")), None);
}

#[test]
fn an_array_is_named_by_its_own_id() {
    let task = JobRecord { array_job_id: Some(9), ..priced() };
    let change = Change { comment: Some(b"bid:4"), ..Change::default() };
    let sentence = judge(&market(), &task, &change, false).expect_err("refused").sentence;
    assert!(sentence.ends_with("use: sbid bid 9 4"), "{sentence}");
}

#[test]
fn an_unpriced_job_does_not_enter_the_market_by_the_back_door() {
    let comment = |text: &'static str| Change { comment: Some(text.as_bytes()), ..Change::default() };
    assert_eq!(told(&unpriced(), &comment("bid:4")), Some("a comment does not change the bid".into()));
    assert_eq!(told(&unpriced(), &by_operator(comment("bid:4"))), None);
    assert!(told(&unpriced(), &comment("bid:x")).is_some());
    assert_eq!(told(&unpriced(), &comment("hello")), None);
    let had_token = JobRecord { comment: Some(b"bid:4"), ..unpriced() };
    assert_eq!(told(&had_token, &comment("bid:4 and more")), None);
    let qos = |qos: &'static str| Change { qos: Some(qos.into()), ..Change::default() };
    for market_qos in ["standard", "free", "Free"] {
        assert_eq!(
            told(&unpriced(), &qos(market_qos)),
            Some(format!("QOS {market_qos} is for jobs with a bid"))
        );
        assert_eq!(told(&unpriced(), &by_operator(qos(market_qos))), None);
    }
    assert_eq!(told(&unpriced(), &qos("long,free")), Some("QOS free is for jobs with a bid".into()));
    for other in ["normal", "long", "normal,long"] {
        assert_eq!(told(&unpriced(), &qos(other)), None);
    }
    // By its association, and given again.
    let of_association = JobRecord { qos: Some("free".into()), ..unpriced() };
    assert_eq!(told(&of_association, &qos("free")), None);
}

#[test]
fn gpus_do_not_come_to_a_job_without_a_bid_where_it_would_need_one() {
    let partition = |pools: &[&str], exclusive| Partition {
        pools: pools.iter().map(|name| (*name).to_owned()).collect(),
        exclusive,
        ..Partition::default()
    };
    let partitions = [
        ("cpu", partition(&[], true)),
        ("gpu", partition(&["a100"], false)),
        ("whole", partition(&["a100"], true)),
    ];
    let partitions = partitions.map(|(name, partition)| (name.to_owned(), partition));
    let of_site = |no_bid| Snapshot {
        settings: Arc::new(Settings { no_bid, ..Settings::clone(&market().settings) }),
        partitions: Arc::new(partitions.clone().into()),
        ..market()
    };
    let plain = JobRecord { tres_per_node: None, partition: Some("cpu".into()), ..unpriced() };
    let whole = JobRecord { whole_nodes: true, ..plain.clone() };
    let gres = |text: &'static str| Change { tres_per_node: Some(text.into()), ..Change::default() };
    let of_job = |text: &'static str| Change { tres_per_job: Some(text.into()), ..Change::default() };
    let to = |name: &'static str| Change { partition: Some(name.into()), ..Change::default() };
    let taking =
        [(&plain, gres("gres:gpu:a100:8")), (&plain, of_job("gres:gpu:1")), (&plain, to("gpu,whole"))];
    let taking = taking.into_iter().chain([(&plain, gres("gres:shard:2")), (&whole, to("gpu"))]);
    for (job, change) in taking {
        for (no_bid, qos, passes) in [
            (NoBid::Unchanged, "normal", true),
            (NoBid::Unchanged, "Standard", false),
            (NoBid::Unchanged, "free", false),
            (NoBid::Free, "normal", false),
            (NoBid::Reject, "normal", false),
        ] {
            let job = JobRecord { qos: Some(qos.into()), ..job.clone() };
            let sentence =
                judge(&of_site(no_bid), &job, &change, false).err().map(|refusal| refusal.sentence);
            let expected = "bid: job 12: GPUs cannot be added to a job without a bid; submit it again with --comment=bid:PRICE";
            assert_eq!(sentence.as_deref(), (!passes).then_some(expected), "{no_bid:?} {qos} {change:?}");
            assert!(judge(&of_site(no_bid), &job, &by_operator(change.clone()), false).is_ok());
        }
    }
    let free = JobRecord { qos: Some("free".into()), ..plain.clone() };
    for harmless in [gres("gres:craynetwork:1"), gres(""), to("gpu"), to("cpu"), Change::default()] {
        assert!(judge(&of_site(NoBid::Reject), &free, &harmless, false).is_ok(), "{harmless:?}");
    }
    // What it has, given again.
    let with_gpus = JobRecord { tres_per_node: Some("gres:gpu:1".into()), ..free };
    assert!(judge(&of_site(NoBid::Reject), &with_gpus, &gres("gres:gpu:1"), false).is_ok());
}
