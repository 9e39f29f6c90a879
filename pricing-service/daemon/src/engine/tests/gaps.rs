//! Times in which slurmctld was not read, or not for long enough.

use super::world::{BEGAN_S, State, World, job, su};
use crate::accounting::AccountingFound;
use crate::charge::StandBy;
use crate::engine::Gap;
use crate::query::QueryError;

fn gap_from(world: &World) -> Option<i64> {
    world.engine.gap.map(|gap| gap.from_s - BEGAN_S)
}

fn searched(gap: Option<Gap>) -> AccountingFound {
    AccountingFound { gap_searched: gap, ..AccountingFound::default() }
}

#[test]
fn the_time_between_two_daemons_is_searched_in_slurmdbd() {
    let mut world = World::new();
    world.read_at(40);
    world.read_at(70);
    world.restart();
    world.read_at(5000);
    assert_eq!(gap_from(&world), Some(70));
    // Another restart before it was searched does not lose it.
    world.restart();
    world.read_at(5100);
    assert_eq!(gap_from(&world), Some(70));
    world.account_for(searched(world.engine.gap));
    assert_eq!(gap_from(&world), None);
    // slurmctld that did not answer for long leaves a gap as well.
    world.read_at(5110);
    world.read_at(5410);
    assert_eq!(gap_from(&world), Some(5110));
}

#[test]
fn a_search_from_before_the_last_silence_does_not_close_the_gap() {
    let mut world = World::new();
    world.read_at(10);
    world.read_at(400);
    let under_way = world.engine.gap;
    assert_eq!(gap_from(&world), Some(10));
    // slurmctld is silent again while slurmdbd searches.
    world.read_at(800);
    world.account_for(searched(under_way));
    assert_eq!(gap_from(&world), Some(10), "from 400 to 800 was not searched");
    world.account_for(searched(world.engine.gap));
    assert_eq!(gap_from(&world), None);
}

#[test]
fn a_gap_stays_open_until_what_was_found_in_it_is_booked() {
    let mut world = World::with_funds("100", "0.5");
    world.read_at(10);
    world.submit(job(1, "vision", "3.5", 8));
    let (start_s, end_s) = (BEGAN_S + 20, BEGAN_S + 920);
    world.set(1, State::Ended { start_s, end_s, suspended_s: Some(0) });
    let missed = world.jobs[&1].run().expect("ran");
    world.set(1, State::Forgotten);
    world.read_at(4000);
    let found = || AccountingFound { runs: vec![missed.clone()], ..searched(world.engine.gap) };
    let (first, again) = (found(), found());
    world.engine.store.lose_segments(true);
    world.engine.take_accounting(first);
    assert_eq!(gap_from(&world), Some(10));
    world.engine.store.lose_segments(false);
    world.account_for(again);
    assert_eq!((gap_from(&world), world.charged()), (None, su("0.625")));
}

#[test]
fn silence_is_measured_to_the_end_of_the_read_and_by_a_clock_that_nobody_sets() {
    let silence = |wall_s: i64, began_s: u64, ended_s: u64| {
        let mut world = World::new();
        world.read_at(10);
        let mut facts = world.facts();
        let ns = |s: u64| facts.read_began_ns + s * 1_000_000_000;
        (facts.read_began_ns, facts.read_ended_ns) = (ns(began_s), ns(ended_s));
        facts.as_of_s += wall_s;
        world.take(facts);
        gap_from(&world)
    };
    assert_eq!(silence(250, 250, 251), None);
    assert_eq!(silence(250, 250, 310), Some(10), "the read took a minute");
    assert_eq!(silence(-3600, 310, 311), Some(10 - 3600), "the clock was set back meanwhile");
    assert_eq!(silence(3600, 3, 4), Some(10), "slurmctld forgets by the clock on the wall");
}

#[test]
fn passes_that_were_not_booked_are_a_silence_too() {
    let mut world = World::new();
    world.read_at(10);
    world.engine.store.refuse_writes(true);
    for s in [100, 200, 300, 400] {
        world.read_at(s);
    }
    world.engine.store.refuse_writes(false);
    world.read_at(403);
    assert_eq!(gap_from(&world), Some(10));
}

#[test]
fn a_daemon_that_stands_by_books_nothing_and_searches_afterwards() {
    let mut world = World::with_funds("100", "0.5");
    world.submit(job(1, "vision", "3.5", 8));
    world.read_at(10);
    let entries = world.entries();
    let elsewhere = || StandBy::Elsewhere("ctl2".into());
    world.engine.stand_by(elsewhere());
    assert!(world.published.borrow().rows.is_empty(), "the plugins hear nothing");
    let refused = world.try_deposit("vision", "1", "while standing by");
    assert!(matches!(refused, Err(QueryError::StandsBy(why)) if why == elsewhere()));
    // slurmdbd's answer to what was asked before comes late.
    let (start_s, end_s) = (BEGAN_S + 12, BEGAN_S + 912);
    world.set(1, State::Ended { start_s, end_s, suspended_s: Some(0) });
    let run = world.jobs[&1].run().expect("ran");
    world.set(1, State::Forgotten);
    world.engine.take_accounting(AccountingFound { runs: vec![run], ..searched(None) });
    assert_eq!(world.entries(), entries);
    world.read_at(920);
    assert_eq!(gap_from(&world), Some(0), "since the last round");
    assert!(world.charged() > su("0"));
    assert!(!world.published.borrow().rows.is_empty());
}

#[test]
fn a_restarted_slurmctld_has_the_last_receipts_looked_at_again() {
    let mut world = World::with_funds("100", "0.5");
    for id in [1, 2] {
        world.submit(job(id, "vision", "3.5", 4));
    }
    world.set(1, State::Ended { start_s: BEGAN_S + 20, end_s: BEGAN_S + 100, suspended_s: Some(0) });
    world.read_at(101);
    world.set(2, State::Ended { start_s: BEGAN_S + 20, end_s: BEGAN_S + 3000, suspended_s: Some(0) });
    world.read_at(3001);
    let outstanding = |world: &World| -> Vec<u32> {
        let segments = world.engine.book.segments.values();
        segments
            .filter(|segment| segment.receipt_outstanding.is_some())
            .map(|segment| segment.job_id)
            .collect()
    };
    let rows: Vec<i64> = world.engine.book.segments.keys().copied().collect();
    let read_back = |world: &mut World| {
        world.account_for(AccountingFound { receipts_read_back: rows.clone(), ..searched(None) });
        assert_eq!(outstanding(world), [0; 0]);
    };
    read_back(&mut world);
    let restarted = |world: &mut World, began_s, accounting_queue_is_empty| {
        world.now_s += 1;
        let mut facts = world.facts();
        facts.cluster.controller_began_s = Some(began_s);
        facts.accounting_queue_is_empty = accounting_queue_is_empty;
        world.take(facts);
    };
    // As long as slurmctld holds something back, it can still write over them.
    restarted(&mut world, 7, false);
    assert_eq!(outstanding(&world), [0; 0]);
    // Nor does a restart of the daemon meanwhile lose it. The first ended before slurmctld's memory reaches back.
    world.restart();
    restarted(&mut world, 7, true);
    assert_eq!(outstanding(&world), [2]);
    read_back(&mut world);
    restarted(&mut world, 7, true);
    assert_eq!(outstanding(&world), [0; 0], "the same slurmctld");
    restarted(&mut world, 8, true);
    assert_eq!(outstanding(&world), [2]);
}
