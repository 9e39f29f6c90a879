mod tiers;

use std::sync::Arc;
use std::time::Duration;

use market::amount::Amount;
use market::order::FactorScale;
use market_api::config::{ArrayEarmark, TierQos};

use super::worst_case::duration_text;
use super::*;
use crate::snapshot::{AssociationKey, Partition, Pool, Settings, User};

pub(crate) const ALICE: u32 = 1001;
const BOB: u32 = 1002;
/// Younger than the snapshot.
const NEW: u32 = 1003;

fn price(text: &str) -> Price {
    Price::parse(text).expect("a price")
}

fn settings() -> Settings {
    Settings {
        when_unavailable: WhenUnavailable::Free,
        no_bid: NoBid::Unchanged,
        array_earmark: ArrayEarmark::AtOnce,
        stale_after: Duration::from_secs(15),
        default_bid: None,
        qos: TierQos::default(),
        factor: FactorScale::default(),
        over_time_limit_s: Some(0),
        draining: false,
    }
}

/// Two pools, the dearer a100 and the cheaper v100; alice pays from vision, or from nlp in partition long; bob has no
/// default account.
pub(crate) fn market() -> Snapshot {
    let pool =
        |reserve, rho0, node_gpus_max| Pool { reserve: price(reserve), rho0: price(rho0), node_gpus_max };
    let partition = |pools: &[&str]| Partition {
        pools: pools.iter().map(|name| (*name).to_owned()).collect(),
        default_time_min: Some(60),
        max_time_min: Some(2_880),
        ..Partition::default()
    };
    let partitions = [
        ("gpu", Partition { is_default: true, ..partition(&["a100", "v100"]) }),
        ("long", Partition { default_time_min: None, max_time_min: None, ..partition(&["a100"]) }),
        ("over", Partition { over_time_limit_s: Some(3_600), ..partition(&["a100"]) }),
        ("whole", Partition { exclusive: true, ..partition(&["a100"]) }),
        ("cpu", partition(&[])),
    ];
    let association = |account: &str, uid, partition: &str, default_qos: &str| {
        let key = AssociationKey { account: account.into(), uid, partition: partition.into() };
        (key, default_qos.to_owned())
    };
    let user = |name: &str, default_account: &str| User {
        name: name.into(),
        default_account: default_account.into(),
    };
    Snapshot {
        pools: Arc::new(
            [("a100".into(), pool("0.25", "0.25", 8)), ("v100".into(), pool("0.1", "0.1", 4))].into(),
        ),
        partitions: Arc::new(partitions.map(|(name, partition)| (name.to_owned(), partition)).into()),
        accounts: Arc::new([("vision".into(), Amount::ZERO), ("nlp".into(), Amount::ZERO)].into()),
        associations: Arc::new(
            [
                association("vision", ALICE, "", "normal"),
                association("nlp", ALICE, "long", "standard"),
                association("other", ALICE, "", ""),
                association("nlp", BOB, "", "free"),
            ]
            .into(),
        ),
        users: Arc::new([(ALICE, user("alice", "vision")), (BOB, user("bob", ""))].into()),
        ..Snapshot::empty(settings())
    }
}

/// `sbatch --gres=gpu:a100:2 -t 4:00:00 --comment=COMMENT` of alice.
pub(crate) fn job(comment: &str) -> Submission<'_> {
    Submission {
        can_be_requeued: true,
        uid: ALICE,
        comment: Some(comment.as_bytes()),
        walltime: Walltime::Minutes(240),
        ask: Ask { tres_per_node: Some("gres:gpu:a100:2"), ..Ask::default() },
        ..Submission::default()
    }
}

fn gpus<'a>(submission: Submission<'a>, tres_per_node: &'a str) -> Submission<'a> {
    Submission { ask: Ask { tres_per_node: Some(tres_per_node), ..submission.ask }, ..submission }
}

/// One line for each decision: `untouched`, the refusal's sentence, or
/// `limit tier(qos) factor [unavailable] [account amount] [notice]`.
fn told(snapshot: &Snapshot, submission: &Submission<'_>, is_available: bool) -> String {
    match decide(snapshot, submission, is_available) {
        Decision::Untouched => "untouched".into(),
        Decision::WithoutBid(sentence) => sentence.into(),
        Decision::Refuse(refusal) => refusal.sentence,
        Decision::Accept(Accepted { limit, tier, unavailable, qos, factor, worst_case, notice }) => {
            let unavailable = if unavailable { " unavailable" } else { "" };
            let worst_case =
                worst_case.map_or(String::new(), |case| format!(" {} {}", case.account, case.amount));
            let notice = notice.map_or(String::new(), |notice| format!(" {notice}"));
            format!("{limit} {tier}({qos}) {factor}{unavailable}{worst_case}{notice}")
        }
    }
}

#[track_caller]
fn check(submission: &Submission<'_>, expected: &str) {
    assert_eq!(told(&market(), submission, true), expected);
}

#[track_caller]
fn check_with(
    change: impl FnOnce(&mut Settings),
    submission: &Submission<'_>,
    is_available: bool,
    expected: &str,
) {
    let mut settings = settings();
    change(&mut settings);
    assert_eq!(
        told(&Snapshot { settings: Arc::new(settings), ..market() }, submission, is_available),
        expected
    );
}

/// M·(8 + log2(limit/1.25/0.25)) on the grid: one doubling over ρ0 for 0.625.
const FACTOR_OF_0_625: &str = "147457";

#[test]
fn a_bid_with_funds_to_be_checked_is_accepted_in_the_standard_tier() {
    check(&job("bid:0.625"), &format!("0.625 standard(standard) {FACTOR_OF_0_625} vision 5"));
    check(&job("run 7; BID:0.625|more"), &format!("0.625 standard(standard) {FACTOR_OF_0_625} vision 5"));
    // Exactly the least price.
    check(&job("bid:0.3125"), "0.3125 standard(standard) 131073 vision 2.5");
}

#[test]
fn the_comment_comes_before_the_variable() {
    let variable =
        |comment, value: &'static str| Submission { bid_variable: Some(value.into()), ..job(comment) };
    check(&variable("bid:0.625", "9"), &format!("0.625 standard(standard) {FACTOR_OF_0_625} vision 5"));
    check(&variable("fold(1)", "0.625"), &format!("0.625 standard(standard) {FACTOR_OF_0_625} vision 5"));
    check(&variable("fold(1)", "0"), "0 free(free) 0");
    assert!(told(&market(), &variable("fold(1)", "-1"), true).starts_with("bid: SBATCH_BID: "));
}

#[test]
fn a_malformed_bid_is_refused_whatever_else_the_job_says() {
    for comment in ["bid:", "bid:3,5", "bid=3", "bid:1 bid:2", "bid:1e9", "bid:auto"] {
        let sentence = told(&market(), &gpus(job(comment), "license:1"), true);
        assert!(sentence.starts_with("bid: ") && sentence.lines().count() == 1, "{comment}: {sentence}");
    }
    let bytes = Submission { comment: Some(b"\xff bid:\xfe"), ..job("") };
    assert!(told(&market(), &bytes, true).starts_with("bid: "));
}

#[test]
fn a_job_without_gpus_is_not_the_markets_business() {
    for comment in ["bid:3", "bid:0", ""] {
        let without =
            |submission| Submission { ask: Ask::default(), qos: Some("standard".into()), ..submission };
        check(&without(job(comment)), "untouched");
        check_with(|settings| settings.no_bid = NoBid::Reject, &without(job(comment)), true, "untouched");
        check(&gpus(job(comment), "gpu:0"), "untouched");
    }
}

#[test]
fn without_a_bid_the_site_decides() {
    let plain = job("no token here");
    check(&plain, "untouched");
    check_with(|settings| settings.no_bid = NoBid::Free, &plain, true, "0 free(free) 0");
    let sentence = "bid: jobs that ask for GPUs need a bid here; add e.g. --comment=bid:3.5, or --comment=bid:0 for the free tier";
    check_with(|settings| settings.no_bid = NoBid::Reject, &plain, true, sentence);
    // Not a pool, or none in the partition: not priced, so not the market's.
    for unpriced in
        [gpus(job(""), "gpu:t4:1"), Submission { partition: Some("cpu".into()), ..gpus(job(""), "gpu:1") }]
    {
        check_with(|settings| settings.no_bid = NoBid::Reject, &unpriced, true, "untouched");
    }
    let named = Submission { qos: Some("normal".into()), ..job("") };
    let sentence =
        "bid: --qos=normal and no bid, which means QOS free, contradict each other; choose one of them";
    check_with(|settings| settings.no_bid = NoBid::Free, &named, true, sentence);
}

#[test]
fn a_market_qos_needs_a_bid() {
    let sentence = |qos| {
        format!("bid: QOS {qos} is for jobs with a bid; add --comment=bid:PRICE, or choose another --qos")
    };
    for qos in ["standard", "free", "Standard"] {
        check(&Submission { qos: Some(qos.into()), ..job("") }, &sentence(qos));
    }
    check(&Submission { qos: Some("normal".into()), ..job("") }, "untouched");
    // Of the association: of the default account, of a named one, of a partition's.
    check(&Submission { uid: BOB, account: Some("NLP".into()), ..job("") }, &sentence("free"));
    let of_partition = |partition: &'static str| Submission {
        account: Some("nlp".into()),
        partition: Some(partition.into()),
        ..job("")
    };
    check(&of_partition("long"), &sentence("standard"));
    check(&of_partition("gpu"), "untouched");
    // Parts of GPUs count as GPUs here.
    check(&Submission { qos: Some("free".into()), ..gpus(job(""), "shard:2") }, &sentence("free"));
}

#[test]
fn what_cannot_be_priced_yet_is_refused() {
    let sentence = "bid: scrontab jobs cannot carry a bid yet; use bid:0 or submit without";
    check(&Submission { is_scrontab: true, ..job("bid:1") }, sentence);
    let sentence =
        "bid: \"shard\" asks for a part of a GPU, which is not priced yet; ask for whole GPUs, e.g. gpu:1";
    check(&gpus(job("bid:1"), "shard:4"), sentence);
    assert!(told(&market(), &gpus(job("bid:1"), "gpu:a100:x"), true).starts_with("bid: cannot read"));
}

#[test]
fn the_account_must_be_known() {
    let of = |uid, account: Option<&'static str>| Submission {
        uid,
        account: account.map(Into::into),
        ..job("bid:0.3125")
    };
    check(&of(ALICE, Some("Vision")), "0.3125 standard(standard) 131073 vision 2.5");
    check(&of(NEW, Some("nlp")), "0.3125 standard(standard) 131073 nlp 2.5");
    check(
        &of(NEW, None),
        "bid: the market knows no default account of uid 1003; name one with --account=NAME",
    );
    check(
        &of(BOB, None),
        "bid: the market knows no default account of uid 1002; name one with --account=NAME",
    );
    check(
        &of(ALICE, Some("nlp")),
        "bid: user alice has no association with account nlp; choose another --account",
    );
    let in_long = Submission { partition: Some("gpu,long".into()), ..of(ALICE, Some("nlp")) };
    check(&in_long, "0.3125 standard(standard) 131073 nlp 2.5");
    let sentence =
        "bid: account other has no funds in the market; choose another --account, or bid:0 for the free tier";
    check(&of(ALICE, Some("other")), sentence);
    let odd = "a\u{7}b".repeat(30);
    let sentence = told(&market(), &Submission { account: Some(odd.into()), ..job("bid:1") }, true);
    assert!(sentence.len() < 200 && !sentence.contains('\u{7}'));
}

#[test]
fn the_limit_must_buy_in_every_pool_the_job_may_start_in() {
    let sentence = "bid: limit 0.2 is under the least price 0.3125 SU/GPU-hour of tier standard in pool a100; bid at least 0.3125, or bid:0 for the free tier";
    check(&job("bid:0.2"), sentence);
    check(&gpus(job("bid:0.2"), "gpu:v100:2"), "0.2 standard(standard) 142145 vision 1.6");
    let sentence = "bid: limit 0.2 is under the least price 0.3125 SU/GPU-hour of tier standard in pool a100; bid at least 0.3125, or name a model you can pay, e.g. --gres=gpu:v100:N, or bid:0 for the free tier";
    check(&gpus(job("bid:0.2"), "gpu:2"), sentence);
    // Too little for either: no model to name.
    let sentence = "bid: limit 0.1 is under the least price 0.3125 SU/GPU-hour of tier standard in pool a100; bid at least 0.3125, or bid:0 for the free tier";
    check(&gpus(job("bid:0.1"), "gpu:2"), sentence);
    // Untyped, and the partition has only one pool.
    let long = Submission { partition: Some("long".into()), ..gpus(job("bid:0.3"), "gpu:2") };
    assert!(told(&market(), &long, true).contains("in pool a100"));
}

#[test]
fn the_lowest_factor_of_the_pools_counts() {
    // 0.625 is one doubling over ρ0 for an a100, more for a v100.
    check(&gpus(job("bid:0.625"), "gpu:2"), &format!("0.625 standard(standard) {FACTOR_OF_0_625} vision 5"));
    check(
        &gpus(job("bid:0.625"), "gpu:v100:1,gpu:a100:1"),
        &format!("0.625 standard(standard) {FACTOR_OF_0_625} vision 5"),
    );
}

#[test]
fn models_must_exist_where_the_job_may_start() {
    check(
        &gpus(job("bid:1"), "gpu:h100:1"),
        "bid: no GPU model h100 in partition gpu; there are: a100, v100",
    );
    let in_long = Submission { partition: Some("long".into()), ..gpus(job("bid:1"), "gpu:v100:1") };
    check(&in_long, "bid: no GPU model v100 in partition long; there are: a100");
    let sentence =
        "bid: no GPUs are priced in partition cpu; choose another --partition, or submit without a bid";
    for gres in ["gpu:1", "gpu:a100:1"] {
        check(&Submission { partition: Some("cpu".into()), ..gpus(job("bid:1"), gres) }, sentence);
    }
    let listed = Submission { partition: Some("long,over".into()), ..gpus(job("bid:1"), "gpu:v100:1") };
    check(&listed, "bid: no GPU model v100 in partitions long,over; there are: a100");
    // A partition that only Slurm knows: any pool may be meant.
    let unknown = Submission { partition: Some("brand-new".into()), ..gpus(job("bid:1"), "gpu:v100:1") };
    assert!(told(&market(), &unknown, true).starts_with("1 standard(standard)"));
}

#[test]
fn the_longest_time_of_the_partitions_is_covered() {
    let with = |partition: &'static str, walltime| {
        let submission = Submission { partition: Some(partition.into()), walltime, ..job("bid:0.5") };
        told(&market(), &submission, true)
            .rsplit_once(' ')
            .map(|(_, amount)| amount.to_owned())
            .expect("an amount")
    };
    use Walltime::*;
    // 2 GPUs at 0.5: one SU for each hour.
    assert_eq!(with("gpu", Minutes(90)), "1.5");
    assert_eq!(with("gpu", OfPartition), "1");
    assert_eq!(with("gpu", Unlimited), "24");
    assert_eq!(with("gpu", Minutes(10_000)), "24");
    assert_eq!(with("long", OfPartition), "24");
    assert_eq!(with("over", OfPartition), "2");
    assert_eq!(with("over", Minutes(240)), "5");
    assert_eq!(with("gpu,over", OfPartition), "2");
    assert_eq!(with("gpu,unheard-of", OfPartition), "1");
    assert_eq!(with("unheard-of", OfPartition), "24");
    check_with(
        |settings| settings.over_time_limit_s = None,
        &job("bid:0.3125"),
        true,
        "0.3125 standard(standard) 131073 vision 15",
    );
}

#[test]
fn whole_nodes_count_with_all_their_gpus() {
    let exclusive = |submission: Submission<'static>, min_nodes| {
        let ask =
            Ask { exclusive: true, min_nodes: Some(min_nodes), max_nodes: Some(min_nodes), ..submission.ask };
        Submission { ask, ..submission }
    };
    // 8 GPUs a node, 4 h, 0.5 SU.
    check(&exclusive(job("bid:0.5"), 2), "0.5 standard(standard) 142145 vision 32");
    let whole = Submission { partition: Some("whole".into()), ask: Ask::default(), ..job("bid:0.5") };
    check(&whole, "0.5 standard(standard) 142145 vision 16");
    // Nothing is known of partitions: whole nodes may hold GPUs.
    let blind = Snapshot { partitions: Arc::default(), ..market() };
    let bare = exclusive(Submission { ask: Ask::default(), ..job("bid:0.5") }, 1);
    assert_eq!(told(&blind, &bare, false), "0.5 free(free) 0 unavailable");
}

#[test]
fn a_request_holds_no_more_nodes_than_its_partitions_have() {
    let job = job("bid:0.5");
    let ask = Ask { num_tasks: Some(64), min_nodes: None, max_nodes: None, ..job.ask };
    let many_tasks = Submission { ask, ..job };
    let of_cluster = |gpu_nodes| {
        let mut snapshot = market();
        for partition in Arc::make_mut(&mut snapshot.partitions).values_mut() {
            partition.gpu_nodes = gpu_nodes;
        }
        told(&snapshot, &many_tasks, true)
    };
    // 2 GPUs a node, 4 h, 0.5 SU.
    assert_eq!(of_cluster(3), "0.5 standard(standard) 142145 vision 12");
    assert_eq!(of_cluster(0), "0.5 standard(standard) 142145 vision 256", "nobody knows how many there are");
}

/// 2 GPUs a node, 4 h, 0.5 SU: 4 SU for each node.
#[test]
fn nodes_that_are_named_or_that_cpus_need_are_covered() {
    let nodes = |submission: &Submission<'_>| {
        let told = told(&market(), submission, true);
        let amount = told.rsplit_once(' ').and_then(|(_, amount)| amount.parse::<u32>().ok());
        amount.unwrap_or_else(|| panic!("{told}")) / 4
    };
    let named = |list: &'static str| Submission { req_nodes: Some(list.into()), ..job("bid:0.5") };
    assert_eq!(nodes(&named("gpu[1-4]")), 4);
    assert_eq!(nodes(&named("")), 1);
    let shaped = |submission: Submission<'static>, min_nodes, max_nodes, num_tasks| {
        let ask = Ask { min_nodes, max_nodes, num_tasks, ..submission.ask };
        Submission { ask, ..submission }
    };
    assert_eq!(nodes(&shaped(named("gpu[1-4]"), Some(1), None, Some(1))), 4);
    assert_eq!(nodes(&shaped(named("gpu1"), Some(3), Some(3), None)), 3);

    let cpus =
        |min_cpus, cpus_per_task| Submission { min_cpus: Some(min_cpus), cpus_per_task, ..job("bid:0.5") };
    assert_eq!(nodes(&cpus(200, None)), 200);
    assert_eq!(nodes(&cpus(200, Some(0))), 200);
    assert_eq!(nodes(&cpus(64, Some(64))), 1);
    // Stated nodes and tasks bound them.
    assert_eq!(nodes(&shaped(cpus(200, None), Some(1), Some(2), None)), 2);
    assert_eq!(nodes(&shaped(cpus(200, None), Some(1), Some(0), Some(4))), 4);
    let full = shaped(cpus(200, None), None, None, None);
    assert_eq!(nodes(&Submission { ask: Ask { ntasks_per_node: Some(64), ..full.ask }, ..full }), 4);
}

#[test]
fn arrays_are_covered_as_the_site_says() {
    let array = |text: &'static str| Submission { array: Some(text.into()), ..job("bid:0.5") };
    check(&array("0-9%3"), "0.5 standard(standard) 142145 vision 12");
    check(&array("0-9"), "0.5 standard(standard) 142145 vision 40");
    check(&array("0-1%7"), "0.5 standard(standard) 142145 vision 8");
    let all = |settings: &mut Settings| settings.array_earmark = ArrayEarmark::All;
    check_with(all, &array("0-9%3"), true, "0.5 standard(standard) 142145 vision 40");
    assert!(told(&market(), &array("9-0"), true).starts_with("bid: --array: "));
}

#[test]
fn sums_beyond_any_account_are_refused() {
    let sentence =
        "bid: the job asks for more than any account can hold; lower the limit, the hours or the GPUs";
    check(&gpus(job("bid:1000000"), "gpu:a100:4000000000"), sentence);
    check(&gpus(job("bid:1"), "gpu:a100:9999999999"), sentence);
    check(&Submission { array: Some("0-4000000000".into()), ..job("bid:1000000") }, sentence);
}

#[test]
fn while_the_service_is_gone_the_site_decides() {
    let free = |_: &mut Settings| {};
    let reject = |settings: &mut Settings| settings.when_unavailable = WhenUnavailable::Reject;
    let allow = |settings: &mut Settings| settings.when_unavailable = WhenUnavailable::Allow;
    check_with(free, &job("bid:3.50"), false, "3.5 free(free) 0 unavailable");
    // Nobody asks for the account, and a model nobody knows is Slurm's to judge.
    check_with(
        free,
        &Submission { uid: NEW, ..gpus(job("bid:3.5"), "gpu:h100:1") },
        false,
        "3.5 free(free) 0 unavailable",
    );
    let sentence = "bid: the market service is not reachable; try again later, or bid:0 for the free tier";
    check_with(reject, &job("bid:3.5"), false, sentence);
    check_with(reject, &job("bid:0"), false, "0 free(free) 0");
    check_with(
        allow,
        &job("bid:0.625"),
        false,
        &format!("0.625 standard(standard) {FACTOR_OF_0_625} unavailable"),
    );
    let with_qos = |qos: &'static str| Submission { qos: Some(qos.into()), ..job("bid:3.5") };
    check_with(free, &with_qos("standard"), false, "3.5 free(free) 0 unavailable");
    let sentence =
        "bid: --qos=normal and bid:3.5, which means QOS standard, contradict each other; choose one of them";
    check_with(free, &with_qos("normal"), false, sentence);
    check_with(allow, &with_qos("normal"), false, sentence);
}

#[test]
fn before_the_service_ever_spoke_the_file_counts() {
    let blind = |when_unavailable| Snapshot::empty(Settings { when_unavailable, ..settings() });
    assert_eq!(told(&blind(WhenUnavailable::Free), &job("bid:3.5"), false), "3.5 free(free) 0 unavailable");
    assert_eq!(
        told(&blind(WhenUnavailable::Allow), &job("bid:3.5"), false),
        "3.5 standard(standard) 0 unavailable"
    );
    assert_eq!(told(&blind(WhenUnavailable::Free), &job(""), false), "untouched");
    let pools_of_file = Snapshot { pools: Arc::clone(&market().pools), ..blind(WhenUnavailable::Allow) };
    assert_eq!(
        told(&pools_of_file, &job("bid:0.625"), false),
        format!("0.625 standard(standard) {FACTOR_OF_0_625} unavailable")
    );
}

#[test]
fn the_sentence_for_lack_of_funds_shows_the_sum() {
    let of = |submission: &Submission<'_>, free: &str| match decide(&market(), submission, true) {
        Decision::Accept(Accepted { worst_case: Some(worst_case), .. }) => {
            Refusal::short(&worst_case, Amount::parse(free).expect("an amount")).sentence
        }
        other => panic!("{other:?}"),
    };
    let in_nlp = Submission { account: Some("nlp".into()), partition: Some("long".into()), ..job("bid:3") };
    assert_eq!(
        of(&gpus(in_nlp.clone(), "gpu:a100:8"), "0.5"),
        "bid: needs 96 SU (8 GPUs x 4 h x 3) but account nlp has 0.5 SU free; lower the limit or hours, or bid:0 for the free tier"
    );
    let array =
        Submission { array: Some("1-2".into()), walltime: Walltime::Minutes(20), ..gpus(in_nlp, "gpu:1") };
    assert_eq!(
        of(&array, "0"),
        "bid: needs 2 SU (1 GPU x 20 min x 3 x 2 tasks) but account nlp has 0 SU free; lower the limit or hours, or bid:0 for the free tier"
    );
    let case = WorstCase {
        account: "a".into(),
        amount: Amount::from_micros(1),
        gpus: 1,
        horizon_s: 60,
        limit: price("1"),
        tasks: 1,
    };
    assert!(Refusal::short(&case, Amount::from_micros(-5)).sentence.contains("has 0 SU free"));
}

#[test]
fn hours_are_written_exactly() {
    let table = [
        (14_400, "4 h"),
        (86_400, "24 h"),
        (36_000, "10 h"),
        (5_400, "1.5 h"),
        (900, "0.25 h"),
        (180, "0.05 h"),
        (1_200, "20 min"),
        (60, "1 min"),
        (61, "61 s"),
        (0, "0 h"),
    ];
    for (seconds, text) in table {
        assert_eq!(duration_text(seconds), text);
    }
}

#[test]
fn while_the_market_drains_a_bid_is_text_in_a_comment() {
    let draining = |settings: &mut Settings| {
        settings.draining = true;
        settings.no_bid = NoBid::Reject;
    };
    for is_available in [true, false] {
        for comment in ["bid:3.5", "bid:0", "bid:oops", "x bid:1 bid:2"] {
            check_with(draining, &job(comment), is_available, WITHOUT_BID);
        }
        check_with(draining, &job("no token"), is_available, "untouched");
        let named = Submission { qos: Some("standard".into()), ..job("bid:3.5") };
        let sentence = "bid: QOS standard is for jobs with a bid, and the market is being taken out of service; leave --qos=standard out";
        check_with(draining, &named, is_available, sentence);
        let other = Submission { qos: Some("long".into()), ..job("no token") };
        check_with(draining, &other, is_available, "untouched");
    }
}
