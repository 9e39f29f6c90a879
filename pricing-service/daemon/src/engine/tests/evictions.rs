//! A spot job gives way to a waiting one: what is asked of Slurm, and when.

use market::order::Tier;
use market::stamp::CheckpointSignal;
use market_api::v1;

use super::world::{BEGAN_S, Job, ROOT, State, VIS1, World, job};
use crate::engine::Event;
use crate::eviction::{ActOutcome, Acted, Step};
use crate::query::QueryError;

fn evict(key: &str, job_id: u32, beneficiary_job_id: u32) -> v1::EvictRequest {
    v1::EvictRequest { job_id, beneficiary_job_id, idempotency_key: key.into() }
}

/// Spot job 1 of vision runs on all of gpu1, job 2 of nlp waits for it.
fn world(signal: Option<CheckpointSignal>) -> World {
    let mut world = World::with_funds("100", "100");
    world.submit(Job { tier: Tier::Spot, signal, ..job(1, "vision", "1", 8) });
    world.set(1, State::Runs { start_s: BEGAN_S + 1 });
    world.submit(job(2, "nlp", "3", 8));
    world.read_at(10);
    world
}

/// What the slurmctld thread is asked for, in short.
fn asked(world: &World) -> Vec<String> {
    let short = |step| match step {
        Step::Warn { message, signal } => {
            assert!(message.contains("outbid by job 2"), "{message}");
            signal.map_or("warn".into(), |signal| format!("warn with {signal}"))
        }
        Step::CallOff { .. } => "call off".into(),
        Step::TakeGpus { can_be_requeued: true } => "requeue".into(),
        Step::TakeGpus { can_be_requeued: false } => "cancel".into(),
    };
    world.asked.acts().into_iter().map(|act| format!("{}: {}", act.display_id, short(act.step))).collect()
}

fn answer(world: &mut World, outcome: ActOutcome) {
    let eviction = *world.engine.book.evictions.keys().next().expect("an eviction");
    let (events, inbox) = std::sync::mpsc::channel();
    events.send(Event::Acted(Acted { eviction, outcome })).expect("sent");
    match inbox.recv().expect("received") {
        Event::Acted(acted) => world.engine.take_acted(&acted),
        other => panic!("{other:?}"),
    }
}

fn outcomes(world: &World) -> Vec<(Option<String>, bool)> {
    let sql = "SELECT outcome, closed_s IS NOT NULL FROM eviction ORDER BY id";
    let mut statement = world.engine.store.reader().prepare(sql).expect("prepares");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("reads");
    rows.collect::<Result<_, _>>().expect("reads")
}

#[test]
fn warning_grace_requeue() {
    let mut world = world(None);
    let reply = world.engine.evict(ROOT, &evict("k", 1, 2)).expect("starts");
    assert_eq!((reply.grace_s, reply.is_requeued, reply.signal.as_str()), (60, true, ""));
    assert_eq!(asked(&world), ["1: warn"], "no signal: its default action would kill the job");
    world.read_at(13);
    assert_eq!(asked(&world), [""; 0], "a step that is not answered is not told again");
    answer(&mut world, ActOutcome::Warned);
    let text = world.engine.explain(VIS1, 1).expect("explains").sentences.join(" ");
    assert!(text.contains("Outbid by job 2, it is requeued in"), "{text}");
    world.read_at(72);
    assert_eq!(asked(&world), [""; 0]);
    world.read_at(73);
    assert_eq!(asked(&world), ["1: requeue"]);
    answer(&mut world, ActOutcome::Requeued);
    world.read_at(76);
    assert_eq!((asked(&world), outcomes(&world)), (vec![], vec![(Some("requeued".into()), false)]));
    world.set(1, State::Ended { start_s: BEGAN_S + 1, end_s: BEGAN_S + 77, suspended_s: Some(0) });
    world.read_at(80);
    assert_eq!(outcomes(&world), [(Some("requeued".into()), true)]);
    assert!(world.engine.book.evictions.is_empty());
    assert_eq!(world.engine.evict(ROOT, &evict("k", 1, 2)).expect("the first answer"), reply);
    assert_eq!(outcomes(&world).len(), 1);
}

#[test]
fn the_signal_and_the_time_it_asked_for() {
    let signal = |lead_s| CheckpointSignal { number: 10, batch_only: true, lead_s };
    for (lead_s, grace_s) in [(30, 60), (120, 120), (3600, 600)] {
        let mut world = world(Some(signal(lead_s)));
        let reply = world.engine.evict(ROOT, &evict("k", 1, 2)).expect("starts");
        assert_eq!((reply.grace_s, reply.signal.clone()), (grace_s, format!("B:10@{lead_s}")));
        assert_eq!(asked(&world), [format!("1: warn with B:10@{lead_s}")]);
        answer(&mut world, ActOutcome::Warned);
        world.read_at(9 + i64::from(grace_s));
        assert_eq!(asked(&world), [""; 0]);
        world.read_at(10 + i64::from(grace_s));
        assert_eq!(asked(&world), ["1: requeue"]);
    }
}

#[test]
fn a_restart_goes_on_where_it_was() {
    let mut world = world(None);
    world.engine.evict(ROOT, &evict("k", 1, 2)).expect("starts");
    assert_eq!(asked(&world), ["1: warn"]);
    world.restart();
    world.read_at(13);
    assert_eq!(asked(&world), ["1: warn"], "nobody knows whether it was");
    answer(&mut world, ActOutcome::Warned);
    world.restart();
    world.read_at(60);
    assert_eq!(asked(&world), [""; 0]);
    world.read_at(80);
    assert_eq!(asked(&world), ["1: requeue"]);
    answer(&mut world, ActOutcome::Failed);
    world.read_at(83);
    assert_eq!(asked(&world), ["1: requeue"], "what was not done is wanted again");
}

#[test]
fn nothing_is_taken_for_whom_it_is_no_use() {
    let mut world = world(None);
    world.engine.evict(ROOT, &evict("k", 1, 2)).expect("starts");
    asked(&world);
    answer(&mut world, ActOutcome::Warned);
    world.set(2, State::Cancelled);
    world.read_at(80);
    assert_eq!(asked(&world), ["1: call off"]);
    answer(&mut world, ActOutcome::CalledOff);
    world.read_at(90);
    assert_eq!((asked(&world), outcomes(&world)), (vec![], vec![(Some("called_off".into()), true)]));
}

#[test]
fn a_job_that_ends_in_its_grace_is_left_alone() {
    let mut world = world(None);
    world.engine.evict(ROOT, &evict("k", 1, 2)).expect("starts");
    asked(&world);
    answer(&mut world, ActOutcome::Warned);
    world.set(1, State::Ended { start_s: BEGAN_S + 1, end_s: BEGAN_S + 20, suspended_s: Some(0) });
    world.read_at(90);
    assert_eq!((asked(&world), outcomes(&world)), (vec![], vec![(Some("ended_by_itself".into()), true)]));
}

#[test]
fn only_operators_only_spot_only_for_one_that_can_start() {
    let mut world = world(None);
    world.submit(job(3, "nlp", "2", 8));
    world.set(3, State::Runs { start_s: BEGAN_S + 2 });
    world.submit(job(4, "nlp", "0", 8));
    world.read_at(12);
    let refusals = [
        (VIS1, 1, 2, "only root, SlurmUser and Slurm operators"),
        (ROOT, 2, 2, "job 2 does not run with a bid"),
        (ROOT, 3, 2, "job 3 is of tier standard, and only spot jobs can be evicted"),
        (ROOT, 1, 3, "job 3 does not wait with a bid"),
        (ROOT, 1, 4, "job 4 could not use the GPUs now"),
        (ROOT, 9, 2, "job 9 does not run with a bid"),
    ];
    for (number, (caller, victim, beneficiary, expected)) in refusals.into_iter().enumerate() {
        let refused = world.engine.evict(caller, &evict(&format!("k{number}"), victim, beneficiary));
        let text = refused.expect_err(expected).to_string();
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
    assert!(outcomes(&world).is_empty() && asked(&world).is_empty());
    world.engine.evict(ROOT, &evict("first", 1, 2)).expect("starts");
    let again = world.engine.evict(ROOT, &evict("second", 1, 2));
    assert!(matches!(again, Err(QueryError::Refused(_))), "{again:?}");
}
