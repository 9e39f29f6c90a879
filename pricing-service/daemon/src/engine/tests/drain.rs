//! The market is taken out of service.

use market_api::v1;
use market_api::v1::DrainAction;

use super::world::{BEGAN_S, ROOT, State, VIS1, World, job, su};
use crate::publication::RowKey;
use crate::query::QueryError;

fn is_told_to_the_plugins(world: &World) -> bool {
    match &world.published.borrow().rows[&RowKey::Settings] {
        v1::item::Item::Settings(settings) => settings.draining,
        other => panic!("{other:?}"),
    }
}

fn drain(world: &mut World) -> v1::DrainReply {
    world.engine.drain(ROOT, DrainAction::Begin).expect("drains")
}

#[test]
fn draining_takes_factors_and_earmarks_and_settles_what_runs() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3", 8));
    world.submit(job(2, "vision", "2", 8));
    world.read_at(10);
    world.set(1, State::Runs { start_s: BEGAN_S + 20 });
    world.read_at(60);
    assert!(world.published_factor(2).is_some_and(|factor| factor > 0));

    let reply = drain(&mut world);
    assert_eq!((reply.draining, reply.waiting, reply.running), (true, 1, 1));
    assert_eq!(reply.running_until_s, BEGAN_S + 20 + 3600);
    assert_eq!(world.asked.entries().1, Some(true));
    assert!(is_told_to_the_plugins(&world));
    assert_eq!(world.published_factor(2), Some(0), "before Slurm's record is reset");

    // Slurm's record is reset: the job is none of the market's any more.
    world.set(2, State::Forgotten);
    world.read_at(63);
    let free_while_one_runs = world.published_free("vision");
    assert_eq!(world.published_factor(2), None);
    assert_eq!(world.engine.book.orders.len(), 1, "only what runs");
    let reply = drain(&mut world);
    assert_eq!((reply.waiting, reply.running, reply.receipts), (0, 1, 0));

    world.set(1, State::Ended { start_s: BEGAN_S + 20, end_s: BEGAN_S + 920, suspended_s: Some(0) });
    world.read_at(930);
    let reply = drain(&mut world);
    assert_eq!((reply.waiting, reply.running, reply.receipts), (0, 0, 1));
    assert!(world.charged() > su("0") && world.published_free("vision") > free_while_one_runs);
    assert_eq!(world.escrow("vision"), su("0"));
}

#[test]
fn draining_outlives_the_daemon_and_can_be_undone() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3", 8));
    world.read_at(10);
    let since_s = drain(&mut world).since_s;
    assert_eq!(drain(&mut world).since_s, since_s, "repeated");
    world.restart();
    world.read_at(300);
    assert_eq!(world.asked.entries().1, Some(true));
    assert_eq!(drain(&mut world).since_s, since_s);
    assert_eq!(world.published_factor(1), Some(0));

    let request = v1::ChangeBidRequest {
        job_id: 1,
        limit_usu: 4_000_000,
        idempotency_key: "k".into(),
        tier: String::new(),
    };
    let refused = world.engine.change_bid(VIS1, &request);
    assert!(matches!(refused, Err(QueryError::Refused(_))), "{refused:?}");

    let reply = world.engine.drain(ROOT, DrainAction::Undo).expect("is in service");
    assert!(!reply.draining && reply.since_s == 0);
    assert_eq!(world.asked.entries().1, Some(false));
    assert!(!is_told_to_the_plugins(&world));
    assert!(world.published_factor(1).is_some_and(|factor| factor > 0));
    world.engine.change_bid(VIS1, &request).expect("bids count again");
}

#[test]
fn only_operators_drain() {
    let mut world = World::new();
    for action in [DrainAction::Begin, DrainAction::Undo, DrainAction::Unspecified] {
        let refused = world.engine.drain(VIS1, action);
        assert!(matches!(refused, Err(QueryError::NotAllowed(_))), "{refused:?}");
    }
    assert!(!world.engine.drain(ROOT, DrainAction::Unspecified).expect("tells").draining);
    assert_eq!(world.asked.entries().1, None);
}
