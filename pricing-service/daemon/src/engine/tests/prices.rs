//! What a start pays for, and what sets the start price.

use super::world::{BEGAN_S, State, World, job, su};
use crate::facts::WaitingJob;

/// m·ρ0 of a pool with weight 1.
const LEAST: &str = "0.3125";

fn started_at(s: i64) -> State {
    State::Runs { start_s: BEGAN_S + s }
}

fn price_of(world: &World, job_id: u32) -> String {
    let segment = world.engine.book.segments.values().find(|segment| segment.job_id == job_id);
    segment.expect("it runs").held["a100"].prices[0].price.to_string()
}

/// Reads slurmctld with one waiting job changed.
fn read_with(world: &mut World, s: i64, id: u32, change: impl Fn(&mut WaitingJob)) {
    world.now_s = BEGAN_S + s;
    let mut facts = world.facts();
    let job = facts.waiting.iter_mut().find(|job| job.identity.job_id == id).expect("waits");
    change(job);
    world.take(facts);
}

#[test]
fn orders_that_start_or_are_gone_as_well_are_not_displaced() {
    for then in [started_at(71), State::Cancelled] {
        let mut world = World::with_funds("100", "100");
        world.submit(job(1, "vision", "3.5", 8));
        world.submit(job(2, "nlp", "2", 8));
        world.read_at(10);
        world.read_at(70);
        world.set(1, started_at(71));
        world.set(2, then);
        world.read_at(72);
        assert_eq!(price_of(&world, 1), LEAST, "job 2 waits no longer: {then:?}");
    }
    // The other one had started some time before.
    let mut world = World::with_funds("100", "100");
    world.submit(job(1, "vision", "3.5", 8));
    world.submit(job(2, "nlp", "2", 8));
    world.read_at(10);
    world.read_at(70);
    world.set(2, started_at(71));
    world.read_at(72);
    assert_eq!(price_of(&world, 2), "2", "job 1 waits and bids more");
    world.set(1, started_at(75));
    world.read_at(76);
    assert_eq!(price_of(&world, 1), LEAST);
}

#[test]
fn an_array_at_its_own_limit_of_running_tasks_is_not_displaced() {
    let price_with = |at_once: Option<u32>| {
        let mut world = World::with_funds("100", "100");
        world.submit(job(1, "vision", "3.5", 8));
        world.submit(job(2, "nlp", "2", 4));
        world.submit(job(3, "nlp", "2", 4));
        let array = |job: &mut WaitingJob| {
            (job.tasks, job.at_once, job.display_id) = (9, at_once, "2_[1-9]".into());
        };
        // Job 3 is the array's first task.
        world.jobs.get_mut(&3).expect("submitted").array_id = Some(2);
        world.set(3, started_at(5));
        read_with(&mut world, 10, 2, array);
        read_with(&mut world, 70, 2, array);
        world.set(1, started_at(71));
        read_with(&mut world, 72, 2, array);
        price_of(&world, 1)
    };
    assert_eq!(price_with(None), "2");
    assert_eq!(price_with(Some(2)), "2");
    assert_eq!(price_with(Some(1)), LEAST, "its one task runs");
}

#[test]
fn an_order_that_needs_more_nodes_than_were_taken_is_not_displaced() {
    for (nodes_least, price) in [(1, "2"), (2, LEAST)] {
        let mut world = World::with_funds("100", "100");
        world.submit(job(1, "vision", "3.5", 8));
        world.submit(job(2, "nlp", "2", 8));
        let spread = |job: &mut WaitingJob| job.nodes_least = nodes_least;
        read_with(&mut world, 10, 2, spread);
        read_with(&mut world, 70, 2, spread);
        world.set(1, started_at(71));
        read_with(&mut world, 72, 2, spread);
        assert_eq!(price_of(&world, 1), price, "{nodes_least} nodes");
    }
}

#[test]
fn nobody_is_displaced_from_nodes_that_are_not_known() {
    let mut world = World::with_funds("100", "100");
    world.submit(job(1, "vision", "3.5", 8));
    world.submit(job(2, "nlp", "2", 8));
    world.read_at(10);
    world.read_at(70);
    world.set(1, started_at(71));
    world.now_s += 2;
    let mut facts = world.facts();
    facts.runs[0].nodes.clear();
    world.take(facts);
    assert_eq!(price_of(&world, 1), LEAST);
}

#[test]
fn a_large_array_wants_all_that_was_sold_in_the_last_hours() {
    let mut world = World::with_funds("10000", "10000");
    // 16 GPUs were sold twice in the last 4 h, at the least price: S = 32.
    for (id, start_s) in [(1, 5), (2, 5), (3, 700), (4, 700)] {
        world.submit(job(id, "vision", LEAST, 8));
        world.set(
            id,
            State::Ended { start_s: BEGAN_S + start_s, end_s: BEGAN_S + start_s + 600, suspended_s: Some(0) },
        );
    }
    world.submit(job(5, "nlp", "5", 1));
    world.all_gpus_busy = true;
    let array = |job: &mut WaitingJob| (job.tasks, job.display_id) = (100, "5_[0-99]".into());
    read_with(&mut world, 1400, 5, array);
    // Its 33rd task is the first that does not fit: 5/1.25.
    assert_eq!(world.engine.book.pools["a100"].start_price.to_string(), "4");
}

#[test]
fn a_lower_bid_after_the_start_saves_nothing() {
    let mut world = World::with_funds("100", "100");
    world.submit(job(1, "vision", "3.5", 8));
    world.submit(job(2, "nlp", "3", 8));
    world.read_at(10);
    world.read_at(70);
    // Job 1 has started, but slurmctld was not read since.
    world.set(1, started_at(71));
    for (key, limit) in [("k1", "1"), ("k2", "0.4")] {
        world.change_bid_at(75, key, 1, limit);
    }
    world.read_at(76);
    assert_eq!(price_of(&world, 1), "3", "the bid of the moment it started");
    assert_eq!(world.escrow("vision"), su("24"));
}
