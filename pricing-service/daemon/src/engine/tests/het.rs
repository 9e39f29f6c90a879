//! Heterogeneous jobs: components with one bid, one factor, and funds for all or for none.

use market_api::v1;

use super::world::{BEGAN_S, Job, State, VIS1, World, job, su};

/// Components 1 (8 GPUs) and 2 (2 GPUs) of one job of vision, and a job 3 of nlp.
fn world(vision: &str) -> World {
    let mut world = World::with_funds(vision, "100");
    for (id, gpus) in [(1, 8), (2, 2)] {
        world.submit(Job { het_leader: Some(1), ..job(id, "vision", "2", gpus) });
    }
    world.submit(job(3, "nlp", "1", 8));
    world.read_at(10);
    world
}

fn funded(world: &World) -> Vec<(u32, bool)> {
    let mut all: Vec<_> =
        world.engine.waiting.iter().map(|waiting| (waiting.id.job_id, waiting.funded)).collect();
    all.sort_unstable();
    all
}

#[test]
fn funds_are_for_the_whole_job_or_for_none_of_it() {
    // 16 SU and 4 SU.
    assert_eq!(funded(&world("20")), [(1, true), (2, true), (3, true)]);
    let short = world("19.999999");
    assert_eq!(funded(&short), [(1, false), (2, false), (3, true)]);
    assert_eq!((short.published_factor(1), short.published_factor(2)), (Some(0), Some(0)));
}

#[test]
fn all_components_carry_the_least_factor() {
    let mut world = world("20");
    let apart = |world: &World| world.published_factor(1) != world.published_factor(2);
    assert!(!apart(&world) && world.published_factor(1) > world.published_factor(3));
    // One of them has waited longer.
    let waits = world.engine.book.orders.values().find(|order| order.job_id == 2).cloned().expect("an order");
    let old = crate::model::Order { age_s: 100 * 3600, ..waits };
    world.engine.book.orders.insert(old.row, old);
    world.read_at(13);
    let least = world.engine.waiting.iter().find(|waiting| waiting.id.job_id == 1).expect("waits").factor;
    assert_eq!((world.published_factor(1), world.published_factor(2)), (Some(least), Some(least)));
}

#[test]
fn one_change_of_the_bid_is_for_all_and_each_is_settled_alone() {
    let mut world = world("30");
    let change = |key: &str, job_id, limit: &str| v1::ChangeBidRequest {
        job_id,
        limit_usu: su(limit).micros(),
        idempotency_key: key.into(),
        ..Default::default()
    };
    // 8 GPUs alone would be 26.4, both are 33.
    let refused = world.engine.change_bid(VIS1, &change("k1", 2, "3.3")).expect_err("short");
    assert!(refused.to_string().contains("needs 33 SU but account vision has 30 SU free"), "{refused}");
    world.engine.change_bid(VIS1, &change("k2", 2, "3")).expect("changes");
    let limits: Vec<String> = world
        .engine
        .waiting
        .iter()
        .filter(|waiting| waiting.het_leader.is_some())
        .map(|waiting| waiting.limit.to_string())
        .collect();
    assert_eq!(limits, ["3", "3"]);
    for id in [1, 2] {
        world.set(id, State::Runs { start_s: BEGAN_S + 20 });
    }
    world.read_at(21);
    world.set(2, State::Ended { start_s: BEGAN_S + 20, end_s: BEGAN_S + 1820, suspended_s: Some(0) });
    world.read_at(1821);
    let settled: Vec<bool> =
        world.engine.book.segments.values().map(|segment| segment.settled.is_some()).collect();
    assert_eq!(settled, [false, true]);
}
