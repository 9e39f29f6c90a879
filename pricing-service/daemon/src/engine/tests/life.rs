//! What a job costs, from submission to settlement.

use super::world::{BEGAN_S, State, World, job, su};
use crate::facts::RunEnd;

/// m·ρ0 of a pool with weight 1.
const LEAST: &str = "0.3125";

fn started_at(s: i64) -> State {
    State::Runs { start_s: BEGAN_S + s }
}

fn ended_at(start_s: i64, end_s: i64) -> State {
    State::Ended { start_s: BEGAN_S + start_s, end_s: BEGAN_S + end_s, suspended_s: Some(0) }
}

#[test]
fn earmark_then_escrow_then_charge_and_refund() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.read_at(10);
    // 8 GPUs × 1 h × 3.5
    assert_eq!(world.published_free("vision"), su("72"));
    assert_eq!(world.available("vision"), su("100"), "an earmark is no charge");

    world.set(1, started_at(20));
    world.read_at(21);
    // Nobody was displaced: 8 GPUs × 1 h × 0.3125
    assert_eq!((world.available("vision"), world.escrow("vision")), (su("97.5"), su("2.5")));

    world.set(1, ended_at(20, 920));
    world.read_at(930);
    // A quarter of an hour.
    assert_eq!((world.available("vision"), world.escrow("vision")), (su("99.375"), su("0")));
    assert_eq!(world.charged(), su("0.625"));
    let segment = world.engine.book.segments.values().next().expect("one run");
    let receipt = segment.receipt_outstanding.clone();
    assert_eq!(receipt.as_deref(), Some("paid=0.625 bid=3.5 price=0.3125 gpu_s=7200 tier=standard"));
}

#[test]
fn a_job_between_two_reads_is_settled_once() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.set(1, ended_at(5, 6));
    for s in [10, 13, 70, 140] {
        world.read_at(s);
        assert_eq!(world.charged(), su("0.000694"), "⌊8 × 0.3125 / 3600⌋");
        assert_eq!(world.engine.book.segments.len(), 1);
    }
    let run = world.jobs[&1].run().expect("ran");
    world.account(run);
    assert_eq!(world.charged(), su("0.000694"));
}

#[test]
fn a_start_pays_what_it_displaced() {
    // (limit of the one that starts, account and limit of the one left waiting) -> price
    let cases = [
        ("3.5", "nlp", "2", "2"),
        ("3.5", "nlp", "9", "3.5"),
        ("3.5", "vision", "3", LEAST),
        ("3.5", "nlp", LEAST, LEAST),
    ];
    for (limit, other_account, other_limit, price) in cases {
        let mut world = World::with_funds("100", "100");
        world.submit(job(1, "vision", limit, 8));
        world.submit(job(2, other_account, other_limit, 8));
        world.read_at(10);
        world.read_at(70);
        world.set(1, started_at(75));
        world.read_at(76);
        let segment = world.engine.book.segments.values().next().expect("one run");
        assert_eq!(segment.held["a100"].prices[0].price.to_string(), price, "{limit} against {other_limit}");
    }
}

#[test]
fn only_orders_of_the_last_round_that_could_have_used_the_gpus_are_displaced() {
    let mut world = World::with_funds("100", "100");
    world.submit(job(1, "vision", "3.5", 2));
    world.submit(job(2, "nlp", "2", 8));
    world.read_at(60);
    // Came after the round.
    world.submit(job(3, "nlp", "3", 1));
    world.set(1, started_at(61));
    world.read_at(62);
    let segment = world.engine.book.segments.values().next().expect("one run");
    assert_eq!(segment.held["a100"].prices[0].price.to_string(), LEAST, "job 2 wants more, job 3 is too new");
}

#[test]
fn what_nobody_can_pay_is_house_loss() {
    let mut world = World::with_funds("1", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.set(1, started_at(10));
    world.read_at(11);
    assert_eq!((world.available("vision"), world.escrow("vision")), (su("0"), su("1")));
    world.set(1, ended_at(10, 3610));
    world.read_at(3620);
    assert_eq!(world.charged(), su("2.5"));
    assert_eq!(world.house_loss(), su("1.5").checked_neg().expect("fits"));
    assert_eq!(world.available("vision"), su("0"));
}

#[test]
fn a_job_that_ran_before_the_ledger_began_is_left_alone() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.set(1, started_at(-10));
    world.read_at(10);
    world.set(1, ended_at(-10, 20));
    world.read_at(21);
    assert!(world.engine.book.segments.is_empty());
    assert_eq!(world.available("vision"), su("100"));
}

#[test]
fn a_job_cancelled_while_it_waits_costs_nothing() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.read_at(10);
    world.set(1, State::Cancelled);
    world.read_at(13);
    assert_eq!(world.published_free("vision"), su("100"));
    assert!(world.engine.book.orders.is_empty());
}

#[test]
fn the_free_tier_costs_nothing_and_has_no_factor() {
    let mut world = World::with_funds("0.5", "0.5");
    world.submit(job(1, "vision", "0", 8));
    world.read_at(10);
    assert_eq!(world.published_factor(1), Some(0));
    world.set(1, ended_at(12, 3612));
    world.read_at(3620);
    assert_eq!(world.available("vision"), su("0.5"));
    let segment = world.engine.book.segments.values().next().expect("one run");
    assert_eq!(segment.receipt_outstanding.as_deref(), Some("paid=0 bid=0 gpu_s=28800 tier=free"));
}

#[test]
fn an_order_without_funds_leaves_the_line_until_there_is_money() {
    let mut world = World::with_funds("30", "0.5");
    world.submit(job(1, "vision", "3", 8));
    world.submit(job(2, "vision", "2", 8));
    world.read_at(60);
    assert!(world.published_factor(1) > Some(0));
    assert_eq!(world.published_factor(2), Some(0), "24 of 30 SU are earmarked for job 1");
    world.deposit("vision", "10");
    assert!(world.published_factor(2) > Some(0));
    assert!(world.published_factor(1) > world.published_factor(2));
}

#[test]
fn suspended_time_is_not_charged_and_waits_for_the_accounting_record() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.set(1, started_at(10));
    world.read_at(11);
    world.set(1, State::Ended { start_s: BEGAN_S + 10, end_s: BEGAN_S + 3610, suspended_s: None });
    world.read_at(3620);
    assert_eq!(world.charged(), su("0"), "slurmctld does not know how long it was suspended");
    let mut run = world.jobs[&1].run().expect("ran");
    run.end = Some(RunEnd { end_s: BEGAN_S + 3610, suspended_s: Some(1800) });
    world.account(run);
    assert_eq!(world.charged(), su("1.25"));
    assert_eq!(world.available("vision"), su("98.75"));
}

#[test]
fn a_requeued_job_pays_each_run_by_its_own_record() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.set(1, started_at(10));
    world.read_at(11);
    let mut first = world.jobs[&1].run().expect("runs");
    // Requeued: it waits again, under a new submit time.
    world.set(1, State::Waits);
    world.jobs.get_mut(&1).expect("submitted").submitted_s += 100;
    world.read_at(120);
    assert_eq!(world.escrow("vision"), su("2.5"), "the first run is open until its record tells its end");
    first.end = Some(RunEnd { end_s: BEGAN_S + 110, suspended_s: Some(0) });
    world.account(first);
    assert_eq!(world.escrow("vision"), su("0"));
    world.set(1, ended_at(200, 300));
    world.read_at(301);
    assert_eq!(world.charged(), su("0.138888"), "twice ⌊8 × 0.3125 × 100 / 3600⌋");
    assert_eq!(world.engine.book.segments.len(), 2);
    assert!(world.engine.book.orders.is_empty(), "both runs are of one order, which is closed");
}

#[test]
fn a_long_run_is_renewed_each_day_at_a_new_price() {
    let mut world = World::with_funds("1000", "1000");
    let long = super::world::Job { time_limit_s: Some(50 * 3600), ..job(1, "vision", "3.5", 8) };
    world.submit(long);
    world.set(1, started_at(10));
    world.read_at(11);
    assert_eq!(world.escrow("vision"), su("60"), "8 × 24 h × 0.3125");
    for hour in 1..=50 {
        world.read_at(hour * 3600);
    }
    let segment = world.engine.book.segments.values().next().expect("one run").clone();
    let marks: Vec<i64> =
        segment.held["a100"].prices.iter().map(|interval| interval.from_metered_s).collect();
    assert_eq!(marks, [0, 86_400, 172_800]);
    assert!(segment.held["a100"].prices.iter().all(|interval| interval.price <= segment.limit));
    assert_eq!(segment.escrow_until_s, 50 * 3600);
    world.set(1, ended_at(10, 10 + 50 * 3600));
    world.read_at(51 * 3600);
    assert_eq!(world.escrow("vision"), su("0"));
    assert_eq!(world.house_loss(), su("0"));
}

#[test]
fn a_run_that_nobody_watched_pays_each_day_its_own_price() {
    let watch = |hours: &[i64]| {
        let mut world = World::with_funds("1000", "1000");
        world.submit(super::world::Job { time_limit_s: Some(72 * 3600), ..job(1, "vision", "3.5", 8) });
        world.set(1, started_at(10));
        world.read_at(11);
        for hour in hours {
            world.read_at(hour * 3600);
        }
        world.set(1, ended_at(10, 10 + 70 * 3600));
        world.read_at(71 * 3600);
        let segment = world.engine.book.segments.values().next().expect("one run").clone();
        segment.held["a100"].prices.len()
    };
    assert_eq!(watch(&[]), 3);
    assert_eq!(watch(&[24, 48]), 3);
}

#[test]
fn higher_bids_get_higher_factors_and_age_helps() {
    let mut world = World::with_funds("1000", "1000");
    for (id, limit) in [(1, "0.8"), (2, "3.5"), (3, "2"), (4, "2")] {
        world.submit(job(id, "vision", limit, 8));
    }
    world.read_at(60);
    let factor = |world: &World, id| world.published_factor(id).expect("published");
    assert!(factor(&world, 2) > factor(&world, 3) && factor(&world, 3) > factor(&world, 1));
    assert_eq!(factor(&world, 3), factor(&world, 4));
    let young = factor(&world, 1);
    world.read_at(60 + 14 * 86_400);
    assert!(factor(&world, 1) > young);
}

#[test]
fn an_array_earmarks_what_may_run_at_once() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "1", 1));
    let mut facts = world.facts();
    facts.waiting[0].tasks = 10;
    facts.waiting[0].at_once = Some(2);
    facts.waiting[0].display_id = "1_[0-9%2]".into();
    facts.as_of_s += 10;
    world.take(facts);
    assert_eq!(world.published_free("vision"), su("98"), "2 tasks × 1 GPU × 1 h × 1");
}

#[test]
fn what_free_jobs_hold_is_supply_that_the_waiting_compete_for() {
    let mut world = World::with_funds("1000", "1000");
    world.submit(job(1, "nlp", "0", 16));
    world.set(1, started_at(5));
    for (id, limit) in [(2, "0.8"), (3, "3.5"), (4, "2")] {
        world.submit(job(id, "vision", limit, 16));
    }
    world.all_gpus_busy = true;
    world.read_at(60);
    // Job 3 gets the 16 GPUs, job 4 is the first that does not fit: ⌊2/1.25⌋.
    assert_eq!(world.engine.book.pools["a100"].start_price.to_string(), "1.6");
    assert_eq!(world.engine.book.pools["h100"].start_price.to_string(), "0.25");
}
