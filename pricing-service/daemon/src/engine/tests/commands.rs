//! Deposits, changed bids and who may do and see what.

use market_api::v1;

use super::world::{BEGAN_S, NLP1, ROOT, State, VIS1, World, job, su};
use crate::query::{Caller, QueryError};

pub(super) fn deposit(key: &str, amount: &str) -> v1::DepositRequest {
    v1::DepositRequest {
        account: "vision".into(),
        amount_usu: su(amount).micros(),
        memo: String::new(),
        idempotency_key: key.into(),
    }
}

fn bid(key: &str, job_id: u32, limit: &str) -> v1::ChangeBidRequest {
    v1::ChangeBidRequest {
        job_id,
        limit_usu: su(limit).micros(),
        idempotency_key: key.into(),
        ..Default::default()
    }
}

#[test]
fn a_repeated_deposit_gets_the_first_answer_and_moves_nothing() {
    let mut world = World::new();
    let first = world.engine.deposit(ROOT, &deposit("k1", "10")).expect("deposits");
    let again = world.engine.deposit(ROOT, &deposit("k1", "10")).expect("answers");
    assert_eq!(first, again);
    assert_eq!(world.available("vision"), su("10"));
    world.restart();
    world.read();
    assert_eq!(world.engine.deposit(ROOT, &deposit("k1", "10")).expect("answers"), first);
    let other = world.engine.deposit(ROOT, &deposit("k1", "11"));
    assert!(matches!(other, Err(QueryError::Invalid(_))), "{other:?}");
    assert_eq!(world.available("vision"), su("10"));
}

#[test]
fn only_operators_deposit_and_only_into_accounts_that_exist() {
    let mut world = World::new();
    let refused = world.engine.deposit(VIS1, &deposit("k1", "10"));
    assert!(matches!(refused, Err(QueryError::NotAllowed(_))), "{refused:?}");
    let request = v1::DepositRequest { account: "nobody".into(), ..deposit("k2", "10") };
    assert!(matches!(world.engine.deposit(ROOT, &request), Err(QueryError::NotFound(_))));
    for amount_usu in [0, -1, i64::MIN] {
        let request = v1::DepositRequest { amount_usu, ..deposit("k3", "1") };
        assert!(matches!(world.engine.deposit(ROOT, &request), Err(QueryError::Invalid(_))), "{amount_usu}");
    }
    let request = deposit("", "1");
    assert!(matches!(world.engine.deposit(ROOT, &request), Err(QueryError::Invalid(_))));
    world
        .engine
        .deposit(ROOT, &v1::DepositRequest { amount_usu: i64::MAX, ..deposit("k4", "1") })
        .expect("fits");
    let over = world.engine.deposit(ROOT, &deposit("k5", "1"));
    assert!(matches!(over, Err(QueryError::Invalid(_))), "{over:?}");
    assert_eq!(world.available("vision").micros(), i64::MAX);
}

#[test]
fn a_changed_bid_moves_factor_and_earmark_at_once() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "2", 8));
    world.submit(job(2, "vision", "3", 8));
    world.read_at(60);
    let before = world.published_factor(1);
    let reply = world.engine.change_bid(VIS1, &bid("k1", 1, "3.5")).expect("changes");
    assert_eq!((reply.old_limit_usu, reply.limit_usu, reply.rank, reply.of), (2_000_000, 3_500_000, 1, 2));
    assert!(world.published_factor(1) > before);
    assert_eq!(world.published_free("vision"), su("48"), "100 − 28 − 24");
    assert_eq!(world.engine.change_bid(VIS1, &bid("k1", 1, "3.5")).expect("answers"), reply);
    world.restart();
    world.read_at(63);
    assert_eq!(world.published_free("vision"), su("48"), "the stamp in Slurm may still say 2");
}

#[test]
fn bids_that_cannot_be_changed_say_why() {
    let mut world = World::with_funds("30", "0.5");
    world.submit(job(1, "vision", "2", 8));
    world.submit(job(2, "vision", "0", 8));
    world.submit(job(3, "vision", "1", 1));
    world.set(3, State::Runs { start_s: BEGAN_S + 5 });
    world.read_at(60);
    let refusals = [
        (NLP1, 1, "3", "belongs to vis1"),
        (VIS1, 1, "0.1", "under the least price 0.3125"),
        (VIS1, 1, "4", "needs 32 SU but account vision has"),
        (VIS1, 2, "3", "free tier"),
        (VIS1, 3, "3", "runs"),
        (VIS1, 99, "3", "no pending job 99"),
    ];
    for (number, (caller, id, limit, expected)) in refusals.into_iter().enumerate() {
        let refused = world.engine.change_bid(caller, &bid(&format!("k{number}"), id, limit));
        let text = refused.expect_err(expected).to_string();
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
    assert_eq!(world.published_free("vision"), su("13.6875"), "30 − 16 − the escrow of job 3");
    world.engine.change_bid(ROOT, &bid("operator", 1, "3")).expect("operators may");
}

#[test]
fn users_see_their_own_accounts_and_operators_all() {
    let mut world = World::with_funds("100", "7");
    let mut names = |caller: Caller, accounts: &[&str]| {
        let request =
            v1::BalancesRequest { accounts: accounts.iter().map(|name| (*name).to_owned()).collect() };
        let query = crate::query::Query::Balances(caller, request);
        world.engine.answer(query).map(|reply| match reply {
            crate::query::Reply::Balances(reply) => {
                reply.accounts.into_iter().map(|account| account.account).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(names(VIS1, &[]).expect("answers"), ["vision"]);
    assert_eq!(names(ROOT, &[]).expect("answers"), ["nlp", "vision"]);
    assert_eq!(names(VIS1, &["Vision"]).expect("answers"), ["vision"], "accounts are lower case in Slurm");
    assert!(matches!(names(VIS1, &["nlp"]), Err(QueryError::NotAllowed(_))));
    assert!(matches!(names(ROOT, &["nobody"]), Err(QueryError::NotFound(_))));
}

#[test]
fn explain_names_rank_price_funds_and_the_bid_that_helps() {
    let mut world = World::with_funds("1000", "0.5");
    for (id, limit) in [(1, "0.8"), (2, "3.5"), (3, "2")] {
        world.submit(job(id, "vision", limit, 8));
    }
    world.read_at(60);
    let reply = world.engine.explain(VIS1, 1).expect("explains");
    let text = reply.sentences.join(" ");
    assert!(
        text.starts_with("Job 1 waits for 8 a100. It is number 3 of 3: jobs 2 and 3 bid more."),
        "{text}"
    );
    assert!(text.contains("Funds are not the reason"), "{text}");
    assert!(text.ends_with("To pass job 3 bid 2.01, to be first 3.51:"), "{text}");
    assert_eq!(reply.hints, ["sbid bid 1 3.51"]);
    // The advice is good.
    let reply = world.engine.change_bid(VIS1, &bid("k1", 1, "2.01")).expect("changes");
    assert_eq!((reply.rank, reply.of), (2, 3));
    assert!(world.published_factor(1) > world.published_factor(3));
    world.read_at(360);
    let reply = world.engine.change_bid(VIS1, &bid("k2", 1, "3.51")).expect("changes");
    assert_eq!(reply.rank, 1);
    assert!(world.published_factor(1) > world.published_factor(2));
    assert!(matches!(world.engine.explain(VIS1, 99), Err(QueryError::NotFound(_))));
}

#[test]
fn a_user_changes_a_bid_once_in_five_minutes() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "2", 8));
    world.read_at(60);
    world.engine.change_bid(VIS1, &bid("k1", 1, "3")).expect("changes");
    world.restart();
    world.read_at(61);
    let text = world.engine.change_bid(VIS1, &bid("k2", 1, "2")).expect_err("too soon").to_string();
    assert!(text.contains("was changed 1 s ago") && text.ends_with("try again in 299 s"), "{text}");
    assert_eq!(
        world.engine.change_bid(VIS1, &bid("k1", 1, "3")).expect("the first answer").limit_usu,
        3_000_000
    );
    world.engine.change_bid(ROOT, &bid("k3", 1, "2.5")).expect("operators are not bound");
    world.read_at(360);
    assert!(world.engine.change_bid(VIS1, &bid("k4", 1, "2")).is_err(), "counted from the last change");
    world.read_at(361);
    world.engine.change_bid(VIS1, &bid("k5", 1, "2")).expect("changes");
}

#[test]
fn a_tier_is_not_changed_by_a_bid() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "2", 8));
    world.read_at(60);
    let spot = v1::ChangeBidRequest { tier: "spot".into(), ..bid("k1", 1, "3") };
    let text = world.engine.change_bid(VIS1, &spot).expect_err("refused").to_string();
    assert!(text.contains("job 1 is of tier standard"), "{text}");
    let same = v1::ChangeBidRequest { tier: "standard".into(), ..bid("k2", 1, "3") };
    assert_eq!(world.engine.change_bid(VIS1, &same).expect("changes").limit_usu, 3_000_000);
}

#[test]
fn a_waiting_job_has_the_tier_of_its_qos() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "2", 8));
    let tier_in = |world: &mut World, qos, at_s| {
        world.jobs.get_mut(&1).expect("submitted").qos = qos;
        world.read_at(at_s);
        let waiting = world.engine.waiting.iter().find(|waiting| waiting.id.job_id == 1).expect("waits");
        (waiting.tier.name(), waiting.effective.to_string(), waiting.earmark.to_string())
    };
    let told = |tier, effective: &str, earmark: &str| (tier, effective.to_owned(), earmark.to_owned());
    assert_eq!(tier_in(&mut world, Some("standard"), 3), told("standard", "1.6", "16"));
    assert_eq!(tier_in(&mut world, Some("spot"), 6), told("spot", "2", "16"));
    assert_eq!(tier_in(&mut world, Some("urgent"), 9), told("urgent", "1", "16"));
    assert_eq!(tier_in(&mut world, Some("free"), 12), told("free", "0", "0"));
    assert_eq!(world.published_factor(1), Some(0));
    assert_eq!(tier_in(&mut world, Some("spot"), 15), told("spot", "2", "16"));
    // Other QOS say nothing of tiers.
    for qos in ["normal", "parked"] {
        assert_eq!(tier_in(&mut world, Some(qos), 18), told("spot", "2", "16"));
    }
    world.restart();
    world.read_at(21);
    assert_eq!(world.engine.waiting[0].tier.name(), "spot");
    world.set(1, State::Runs { start_s: BEGAN_S + 22 });
    world.read_at(24);
    let segment = world.engine.book.segments.values().next().expect("runs");
    assert_eq!((segment.tier.name(), segment.escrow), ("spot", su("16")));
    // What bid nothing buys no tier.
    world.submit(super::world::Job { qos: Some("standard"), ..job(2, "vision", "0", 8) });
    world.read_at(27);
    assert_eq!(world.engine.waiting[0].tier.name(), "free");
}

#[test]
fn slurm_gets_the_stamp_of_the_ledger_also_after_a_restart() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "2", 8));
    world.read_at(60);
    assert_eq!(world.asked.stamps(), []);
    world.engine.change_bid(VIS1, &bid("k1", 1, "3")).expect("changes");
    let stamps = |world: &World| {
        world.asked.stamps().into_iter().map(|(id, stamp)| (id, stamp.limit.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(stamps(&world), [(1, "3".to_owned())]);
    world.read_at(63);
    assert_eq!(stamps(&world), [], "once is enough");
    world.restart();
    world.read_at(66);
    assert_eq!(stamps(&world), [(1, "3".to_owned())], "the daemon may have died before it was written");
}

#[test]
fn a_refused_change_is_told_to_whom_it_concerns() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "2", 8));
    world.read_at(60);
    let refused = |submit_s| v1::ChangeRefused {
        job_id: 1,
        submit_s,
        sentence: "bid: job 1: the change needs 5 SU more; change less".into(),
    };
    let told = |world: &World, caller| world.engine.explain(caller, 1).expect("explains").sentences.join(" ");
    world.engine.note_refused(refused(BEGAN_S + 1));
    let text = told(&world, VIS1);
    assert!(
        text.contains("The last change of it was refused: the change needs 5 SU more; change less."),
        "{text}"
    );
    assert!(!told(&world, NLP1).contains("refused"), "funds are not for everybody");
    // A job before it that had the same id.
    world.engine.note_refused(refused(BEGAN_S - 99));
    assert!(!told(&world, VIS1).contains("refused"));
}

#[test]
fn a_flood_of_refused_changes_is_bounded() {
    let mut world = World::with_funds("100", "0.5");
    for job_id in 1..=2000 {
        let refused = v1::ChangeRefused { job_id, submit_s: 0, sentence: "bid: no".into() };
        world.engine.note_refused(refused);
    }
    assert_eq!(world.engine.refused.len(), super::super::REFUSED_KEPT);
    assert!(world.engine.refused.contains_key(&2000));
}
