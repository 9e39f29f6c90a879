//! What a spot job costs: its price floats with the index.

use market::order::Tier;

use super::world::{BEGAN_S, Job, State, World, job, su};

fn spot(id: u32, limit: &'static str) -> Job {
    Job { tier: Tier::Spot, ..job(id, "vision", limit, 8) }
}

/// The index of pool a100 as published now, in micro-SU.
fn index(world: &World) -> i64 {
    world.engine.book.pools["a100"].index.price().micros()
}

#[test]
fn each_interval_pays_the_index_published_before_it() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(spot(1, "3"));
    world.read_at(3);
    assert_eq!(world.published_free("vision"), su("76"), "earmarked is the limit for an hour");
    world.set(1, State::Runs { start_s: BEGAN_S + 10 });
    let mut owed = 0;
    let mut paid_from_s = 10;
    for at_s in [60, 120, 180, 240] {
        // The price of the time up to this round.
        owed += i128::from(index(&world)) * 8 * i128::from(at_s - paid_from_s);
        paid_from_s = at_s;
        world.read_at(at_s);
        assert_eq!(world.escrow("vision"), su("24"), "what floats may come to cost its limit");
    }
    assert!(index(&world) < 1_000_000, "nobody waits, so it falls from the pool's weight");
    owed += i128::from(index(&world)) * 8 * 20;
    world.set(1, State::Ended { start_s: BEGAN_S + 10, end_s: BEGAN_S + 260, suspended_s: Some(0) });
    world.restart();
    world.read_at(263);
    assert_eq!(i128::from(world.charged().micros()), owed / 3600);
    assert_eq!(world.escrow("vision"), su("0"));
    let segment = world.engine.book.segments.values().next().expect("one run");
    assert_eq!(segment.held["a100"].prices.len(), 5, "each round moved the index");
}

#[test]
fn no_price_is_above_the_limit_or_below_the_reserve() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(spot(1, "0.5"));
    world.set(1, State::Runs { start_s: BEGAN_S + 1 });
    for minute in 1..=600 {
        world.read_at(60 * minute);
        let held = &world.engine.book.segments.values().next().expect("one run").held["a100"];
        let price = held.prices.last().expect("priced").price.micros();
        assert_eq!(price, index(&world).clamp(250_000, 500_000));
    }
    assert!(index(&world) < 300_000, "it came down through the limit");
}

#[test]
fn a_suspended_job_keeps_its_price_and_a_resumed_one_takes_the_new() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(spot(1, "3"));
    world.set(1, State::Runs { start_s: BEGAN_S + 1 });
    world.read_at(30);
    let prices = |world: &World| {
        let segment = world.engine.book.segments.values().next().expect("one run");
        segment.held["a100"].prices.iter().map(|interval| interval.from_metered_s).collect::<Vec<_>>()
    };
    let mut read_suspended = |at_s: i64, running_since_s: Option<i64>| {
        world.now_s = BEGAN_S + at_s;
        let mut facts = world.facts();
        facts.runs[0].clock.counted_s = 40;
        facts.runs[0].clock.running_since_s = running_since_s.map(|since_s| BEGAN_S + since_s);
        world.take(facts);
        prices(&world)
    };
    assert_eq!(read_suspended(90, None), [0]);
    assert_eq!(read_suspended(150, None), [0]);
    assert_eq!(read_suspended(210, Some(160)), [0, 90], "40 s before, 50 s since");
}
