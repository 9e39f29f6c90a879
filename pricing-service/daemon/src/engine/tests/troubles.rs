//! Bad rows, a ledger that cannot be written, clocks that are wrong: the market goes on.

use std::sync::mpsc::channel;

use tokio::sync::oneshot;

use super::world::{BEGAN_S, Job, NLP1, ROOT, State, World, job, su};
use crate::accounting::AccountingFound;
use crate::engine::{EndTold, EngineError, Event};
use crate::facts::Ending;
use crate::query::{Query, QueryError};
use crate::store::StoreError;

fn started_at(s: i64) -> State {
    State::Runs { start_s: BEGAN_S + s }
}

fn ended_at(start_s: i64, end_s: i64) -> State {
    State::Ended { start_s: BEGAN_S + start_s, end_s: BEGAN_S + end_s, suspended_s: Some(0) }
}

#[test]
fn one_run_that_cannot_be_booked_stops_no_other() {
    let mut world = World::with_funds("100", "100");
    world.submit(job(1, "vision", "3.5", 8));
    world.submit(Job { time_limit_s: None, ..job(2, "vision", "1000000", u32::MAX) });
    world.submit(job(3, "nlp", "1000000", 8));
    world.deposit("nlp", "10000000");
    world.read_at(10);
    world.read_at(70);
    // Job 3 waits, so that job 2 would pay its limit: more than an amount can hold.
    world.set(1, started_at(71));
    world.set(2, started_at(71));
    world.read_at(72);
    assert_eq!(world.escrow("vision"), su("28"), "8 × 1 h × 3.5");
    assert_eq!(world.engine.book.segments.len(), 1);
    world.set(1, ended_at(71, 72));
    world.set(2, ended_at(71, 72));
    world.read_at(75);
    assert_eq!(world.charged(), su("0.007777"));
    // Nor does it after a restart.
    world.restart();
    world.read_at(140);
    assert_eq!((world.charged(), world.escrow("vision")), (su("0.007777"), su("0")));
}

#[test]
fn a_ledger_that_cannot_be_written_keeps_its_prices_and_books_later() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.read_at(10);
    let published = world.published.borrow().clone();
    world.engine.store.refuse_writes(true);
    world.set(1, started_at(20));
    world.read_at(21);
    world.set(1, ended_at(20, 920));
    world.read_at(930);
    assert_eq!(world.available("vision"), su("100"));
    assert!(
        std::sync::Arc::ptr_eq(&published, &world.published.borrow()),
        "the plugins keep the last snapshot"
    );
    assert!(world.engine.answer(Query::Prices).is_ok());
    let refused = world.try_deposit("vision", "1", "k1");
    assert!(matches!(refused, Err(QueryError::Store(_))), "{refused:?}");
    world.engine.store.refuse_writes(false);
    world.read_at(933);
    assert_eq!((world.charged(), world.available("vision")), (su("0.625"), su("99.375")));
    world.try_deposit("vision", "1", "k1").expect("deposits");
    assert_eq!(world.available("vision"), su("100.375"));
}

#[test]
fn after_a_failed_write_the_store_is_believed() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.set(1, started_at(20));
    world.read_at(21);
    // The commit reached the disk, but its answer got lost.
    world.engine.book = crate::model::Book::default();
    world.engine.note_trouble(&StoreError::SumNotZero(0));
    world.set(1, ended_at(20, 920));
    world.read_at(930);
    assert_eq!((world.charged(), world.available("vision")), (su("0.625"), su("99.375")));
}

#[test]
fn a_clock_that_was_ahead_does_not_stop_the_rounds() {
    for restart in [false, true] {
        let mut world = World::with_funds("1000", "1000");
        world.submit(job(1, "vision", "3.5", 16));
        world.submit(job(2, "nlp", "2", 16));
        world.all_gpus_busy = true;
        world.read_at(60);
        world.read_at(10 * 365 * 86_400);
        if restart {
            world.restart();
        }
        let round = world.engine.book.round;
        for s in [120, 180, 240] {
            world.read_at(s);
        }
        assert_eq!(world.engine.book.round, round + 3, "restart: {restart}");
        assert_eq!(world.engine.book.round_at_s, Some(BEGAN_S + 240));
    }
}

#[test]
fn a_clock_that_falls_back_a_little_moves_nothing_backwards() {
    let mut world = World::with_funds("1000", "1000");
    world.submit(job(1, "vision", "3.5", 16));
    world.read_at(60);
    world.read_at(120);
    let (round, age) =
        (world.engine.book.round, world.engine.book.orders.values().next().expect("one").age_s);
    world.read_at(30);
    world.read_at(119);
    assert_eq!((world.engine.book.round, world.engine.book.round_at_s), (round, Some(BEGAN_S + 120)));
    world.read_at(180);
    assert_eq!(world.engine.book.round, round + 1);
    assert_eq!(world.engine.book.orders.values().next().expect("one").age_s, age + 60);
}

#[test]
fn a_run_whose_stamp_was_overwritten_is_settled_all_the_same() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.set(1, started_at(20));
    world.read_at(21);
    // An epilog wrote its own AdminComment: neither record is a market job's any more.
    world.set(1, State::Forgotten);
    world.read_at(40);
    assert_eq!(world.escrow("vision"), su("2.5"));
    let ending = Ending { job_id: 1, start_s: BEGAN_S + 20, end_s: BEGAN_S + 920, suspended_s: 0 };
    let other = Ending { start_s: BEGAN_S - 5000, ..ending };
    world.account_for(AccountingFound { endings: vec![other, ending], ..AccountingFound::default() });
    assert_eq!((world.charged(), world.escrow("vision")), (su("0.625"), su("0")));
}

#[test]
fn a_run_that_slurm_forgot_and_wrote_over_costs_nothing() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.set(1, started_at(20));
    world.read_at(21);
    // slurmctld was killed, forgot the start and made it again.
    world.set(1, started_at(25));
    world.read_at(26);
    assert_eq!(world.escrow("vision"), su("5"));
    let told = |starts: &[i64]| AccountingFound {
        starts: starts.iter().map(|s| (1, BEGAN_S + s)).collect(),
        ..AccountingFound::default()
    };
    world.account_for(told(&[20, 25]));
    world.account_for(told(&[10]));
    assert_eq!(world.escrow("vision"), su("5"), "a record of it, or none of a later run");
    world.account_for(told(&[25]));
    assert_eq!((world.escrow("vision"), world.charged()), (su("2.5"), su("0")));
    world.set(1, ended_at(25, 925));
    world.read_at(930);
    assert_eq!((world.escrow("vision"), world.charged()), (su("0"), su("0.625")));
    let outstanding =
        world.engine.book.segments.values().filter(|segment| segment.receipt_outstanding.is_some());
    assert_eq!(outstanding.count(), 1, "only the run with a record gets a receipt");
}

#[test]
fn whoever_asked_and_went_is_not_answered() {
    let world = World::new();
    let (events, inbox) = channel();
    let (answer, gone) = oneshot::channel();
    drop(gone);
    let request = super::commands::deposit("k1", "10");
    events.send(Event::Query(Query::Deposit(ROOT, request), answer)).expect("sends");
    drop(events);
    let directory = world.run(&inbox).expect("ends well");
    assert_eq!(World::over(directory).available("vision"), su("0"));
}

#[test]
fn a_thread_that_dies_ends_the_daemon() {
    let (events, inbox) = channel();
    let told = EndTold { thread: "slurmctld", events: events.clone() };
    let died = std::thread::spawn(move || {
        let _told = told;
        panic!("a bug");
    });
    assert!(died.join().is_err());
    let ended = World::new().run(&inbox);
    assert!(matches!(ended, Err(EngineError::Lost("slurmctld"))), "{ended:?}");
}

#[test]
fn another_cluster_ends_the_daemon() {
    let mut world = World::new();
    world.restart();
    let mut facts = world.facts();
    facts.cluster.name = "other".into();
    let refused = world.engine.take_facts(facts);
    assert!(matches!(refused, Err(EngineError::Store(_))), "{refused:?}");
    assert!(world.engine.explain(NLP1, 1).is_err());
}
