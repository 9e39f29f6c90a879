use super::*;
use crate::change::judge;
use crate::snapshot::Snapshot;
use crate::submit::tests::{ALICE, market};

/// alice's job of 2 a100 for 4 h at 0.625: 5 SU.
fn waiting() -> JobRecord<'static> {
    JobRecord {
        job_id: 12,
        array_job_id: None,
        user_id: ALICE,
        pending: true,
        submit_s: 7,
        time_limit: 240,
        min_nodes: 1,
        max_nodes: 1,
        min_cpus: 1,
        num_tasks: 1,
        whole_nodes: false,
        array_tasks: 0,
        array_throttle: None,
        account: Some("vision".into()),
        partition: Some("gpu".into()),
        qos: Some("standard".into()),
        comment: Some(b"bid:0.625"),
        admin_comment: Some("bid:0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e 0.625 tier=standard".into()),
        tres_per_job: None,
        tres_per_node: Some("gres:gpu:a100:2".into()),
        tres_per_socket: None,
        tres_per_task: None,
    }
}

fn by_alice() -> Change<'static> {
    Change { by_uid: ALICE, ..Change::default() }
}

/// `passes`, `account amount` that funds must cover, or the refusal's sentence.
fn told_of(snapshot: &Snapshot, job: &JobRecord<'_>, change: &Change<'_>) -> String {
    match judge(snapshot, job, change, true) {
        Ok(None) => "passes".into(),
        Ok(Some(Increase { account, amount })) => format!("{account} {amount}"),
        Err(refusal) => refusal.sentence,
    }
}

#[track_caller]
fn check(job: &JobRecord<'_>, change: &Change<'_>, expected: &str) {
    assert_eq!(told_of(&market(), job, change), expected, "{change:?}");
}

#[test]
fn what_a_change_costs_more_must_be_there() {
    let job = waiting();
    check(&job, &Change { time_limit: Some(480), ..by_alice() }, "vision 5");
    check(&job, &Change { time_limit: Some(INFINITE), ..by_alice() }, "vision 25"); // a day's worth
    check(&job, &Change { tres_per_node: Some("gres:gpu:a100:4".into()), ..by_alice() }, "vision 5");
    check(&job, &Change { min_nodes: Some(3), ..by_alice() }, "vision 10");
    check(&job, &Change { req_nodes: Some("n[1-2]".into()), ..by_alice() }, "vision 5");
    check(&job, &Change { partition: Some("over".into()), ..by_alice() }, "vision 1.25"); // OverTimeLimit of 1 h
    // Less in one and more in the other.
    let both = Change { time_limit: Some(120), tres_per_node: Some("gres:gpu:a100:4".into()), ..by_alice() };
    check(&job, &both, "passes");
    check(&job, &Change { tres_per_node: Some("".into()), ..by_alice() }, "passes");
    // Another account has covered nothing yet.
    let to_nlp = Change { account: Some("NLP".into()), partition: Some("long".into()), ..by_alice() };
    check(&job, &to_nlp, "nlp 5");
}

#[test]
fn a_change_is_refused_as_a_submission_would_be() {
    let job = waiting();
    let account = Change { account: Some("nlp".into()), ..by_alice() };
    check(
        &job,
        &account,
        "bid: job 12: user alice has no association with account nlp; choose another --account",
    );
    let model = Change { tres_per_node: Some("gres:gpu:t4:1".into()), ..by_alice() };
    check(&job, &model, "bid: job 12: no GPU model t4 in partition gpu; there are: a100, v100");
    let no_tier = Change { qos: Some("normal".into()), ..by_alice() };
    check(
        &job,
        &no_tier,
        "bid: job 12: QOS normal is no tier of the market; choose one of urgent, standard, spot, free",
    );
    let low = JobRecord {
        admin_comment: Some("bid:0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e 0.3125 tier=standard".into()),
        ..waiting()
    };
    let urgent = Change { qos: Some("urgent".into()), ..by_alice() };
    let sentence = told_of(&market(), &low, &urgent);
    assert!(sentence.starts_with("bid: job 12: limit 0.3125 is under the least price 0.5 "), "{sentence}");
}

#[test]
fn a_tier_can_be_changed_while_the_job_waits() {
    let job = waiting();
    for qos in ["spot", "URGENT", "free"] {
        check(&job, &Change { qos: Some(qos.into()), ..by_alice() }, "passes");
    }
    let free = JobRecord {
        admin_comment: Some("bid:0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e 0 tier=free".into()),
        qos: Some("free".into()),
        ..waiting()
    };
    check(&free, &Change { time_limit: Some(480), ..by_alice() }, "passes");
    check(
        &free,
        &Change { qos: Some("standard".into()), ..by_alice() },
        "bid: job 12: it bid 0, which buys no other tier; submit it again with --comment=bid:PRICE",
    );
    // It bid, but the market was away: now it asks for the tier, and all of it is to be covered.
    let unavailable = JobRecord {
        admin_comment: Some(
            "bid:0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e 0.625 tier=free why=unavailable".into(),
        ),
        ..free
    };
    check(&unavailable, &Change { qos: Some("standard".into()), ..by_alice() }, "vision 5");
}

#[test]
fn a_parked_job_is_not_let_go_by_its_user() {
    let parked = JobRecord { qos: Some("parked".into()), ..waiting() };
    let sentence = "bid: job 12: it is parked, and only an operator lets it go on; sbid explain 12 says why";
    for qos in ["standard", "free", "normal"] {
        check(&parked, &Change { qos: Some(qos.into()), ..by_alice() }, sentence);
    }
    check(&parked, &Change { qos: Some("parked".into()), ..by_alice() }, "passes");
    let by_operator = Change { by_operator: true, qos: Some("standard".into()), ..by_alice() };
    check(&parked, &by_operator, "passes");
}

#[test]
fn an_array_is_covered_by_its_tasks() {
    let array = |tasks, throttle| JobRecord {
        array_tasks: tasks,
        array_throttle: (tasks > 0).then_some(throttle),
        ..waiting()
    };
    let throttle = |throttle| Change { array_throttle: Some(throttle), ..by_alice() };
    check(&array(10, 2), &throttle(3), "vision 5");
    check(&array(10, 2), &throttle(0), "vision 40");
    check(&array(3, 2), &throttle(9), "vision 5");
    check(&array(10_000, 2), &Change { time_limit: Some(480), ..by_alice() }, "vision 10");
    // What Slurm 22.05 already wrote into the record.
    check(&array(10, 3), &throttle(3), "passes");
}

#[test]
fn nobody_else_and_not_a_running_job() {
    let longer = |by_uid| Change { time_limit: Some(480), by_uid, ..Change::default() };
    let sentence = "bid: job 12: the time limit of a job with a bid cannot be raised; submit it again, or ask an operator";
    check(&waiting(), &longer(ALICE + 1), sentence);
    check(&JobRecord { pending: false, ..waiting() }, &longer(ALICE), sentence);
    let stale = judge(&market(), &waiting(), &longer(ALICE), false).expect_err("prices may be old");
    assert_eq!(stale.sentence, sentence);
}

#[test]
fn a_refusal_for_want_of_funds_says_how_much_and_what_to_do() {
    let (job, change) = (waiting(), by_alice());
    let increase = Increase { account: "vision".into(), amount: Amount::from_micros(2_500_000) };
    let refusal = crate::change::short(&market(), &job, &change, &increase, Amount::from_micros(-3));
    assert_eq!(
        refusal.sentence,
        "bid: job 12: the change needs 2.5 SU more but account vision has 0 SU free; \
         change less, or lower the bid: sbid bid 12 PRICE"
    );
}
