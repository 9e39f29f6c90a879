//! Jobs that were submitted without a bid, and get one while they wait.

use market::order::Tier;
use market_api::v1;
use tokio::sync::oneshot;

use super::world::{Job, NLP1, ROOT, VIS1, World, job, su};
use crate::controller::{Entered, Entry};
use crate::engine::Event;
use crate::facts::{Unpriced, WaitingJob};
use crate::query::{Caller, Query, QueryError, Reply};

fn bid(key: &str, job_id: u32, limit: &str) -> v1::ChangeBidRequest {
    v1::ChangeBidRequest {
        job_id,
        limit_usu: su(limit).micros(),
        idempotency_key: key.into(),
        tier: String::new(),
    }
}

fn unpriced(id: u32, gpus: u32) -> WaitingJob<Unpriced> {
    Job { qos: Some("normal"), ..job(id, "vision", "0", gpus) }.waiting().stamped(Unpriced::default())
}

/// A world with two jobs of vision that carry no bid.
fn world() -> World {
    let mut world = World::with_funds("50", "0.5");
    world.unpriced = vec![unpriced(1, 8), unpriced(2, 8)];
    world.read_at(60);
    world
}

/// What the controller's thread is asked after the command.
fn asked(world: &mut World, caller: Caller, request: &v1::ChangeBidRequest) -> Entry {
    let reply = world.engine.answer(Query::ChangeBid(caller, request.clone()));
    assert!(matches!(reply, Ok(Reply::Entering(_))), "{reply:?}");
    world.asked.entries().0.pop().expect("asks Slurm")
}

fn refusal(world: &mut World, caller: Caller, request: &v1::ChangeBidRequest) -> String {
    let refused = world.engine.answer(Query::ChangeBid(caller, request.clone()));
    assert!(world.asked.entries().0.is_empty(), "nothing is asked of Slurm");
    refused.expect_err("refuses").to_string()
}

/// Slurm does what was asked: it shows the job with its stamp from now on.
fn slurm_agrees(world: &mut World, entry: &Entry) {
    let place = world.unpriced.iter().position(|job| job.identity.job_id == entry.job_id);
    world.unpriced.remove(place.expect("waits"));
    world.stamped.push((entry.job_id, entry.stamp.clone()));
    world.submit(job(entry.job_id, "vision", "0", 8));
    world.read_at(63);
}

#[test]
fn a_waiting_job_enters_the_market_with_its_bid() {
    let mut world = world();
    let entry = asked(&mut world, VIS1, &bid("k1", 1, "3"));
    assert_eq!((entry.job_id, entry.qos.as_str()), (1, "standard"));
    assert_eq!(entry.stamp.limit.micros(), 3_000_000);
    assert_eq!(world.published_free("vision"), su("50"), "Slurm has not answered");
    slurm_agrees(&mut world, &entry);
    assert_eq!(world.published_free("vision"), su("26"), "50 − 8 × 1 h × 3");
    assert!(world.published_factor(1).is_some_and(|factor| factor > 0));
    world.engine.take_entered(Entered { uuid: entry.stamp.uuid, outcome: Ok(()) });
    // The same key again is answered, and nothing more is asked of Slurm.
    let reply = world.engine.answer(Query::ChangeBid(VIS1, bid("k1", 1, "3"))).expect("answers");
    let Reply::ChangeBid(reply) = reply else { panic!("{reply:?}") };
    assert_eq!((reply.entered, reply.limit_usu, reply.rank, reply.of), (true, 3_000_000, 1, 1));
    assert!(world.asked.entries().0.is_empty());
    // From now on it is an order like any other.
    let reply = world.engine.change_bid(VIS1, &bid("k2", 1, "4")).expect("changes");
    assert_eq!((reply.old_limit_usu, reply.entered), (3_000_000, false));
}

#[test]
fn whoever_asks_hears_what_slurm_said() {
    for (outcome, expected) in
        [(Ok(()), None), (Err("Job is no longer pending".to_owned()), Some("no longer pending"))]
    {
        let mut world = world();
        let (events, inbox) = std::sync::mpsc::channel();
        let (answer, mut reply) = oneshot::channel();
        let query = Query::ChangeBid(VIS1, bid("k1", 1, "3"));
        let Ok(Reply::Entering(uuid)) = world.engine.answer(query) else { panic!("enters") };
        world.engine.answer_when_entered(&uuid, answer);
        assert!(reply.try_recv().is_err(), "nothing is said before Slurm has spoken");
        events.send(Event::Entered(Entered { uuid, outcome })).expect("sends");
        drop(events);
        let _ledger = world.run(&inbox).expect("ends well");
        match (reply.try_recv().expect("is answered"), expected) {
            (Ok(Reply::ChangeBid(reply)), None) => assert!(reply.entered),
            (Err(QueryError::Refused(text)), Some(expected)) => assert!(text.contains(expected), "{text}"),
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_slurm_does_not_do_holds_no_funds() {
    let mut world = world();
    let entry = asked(&mut world, VIS1, &bid("k1", 1, "4"));
    let text = refusal(&mut world, VIS1, &bid("k2", 2, "4"));
    assert!(text.contains("needs 32 SU but account vision has 18 SU free"), "{text}");
    let text = refusal(&mut world, VIS1, &bid("k3", 1, "1"));
    assert!(text.contains("is just entering"), "{text}");
    world.engine.take_entered(Entered { uuid: entry.stamp.uuid, outcome: Err("gone".into()) });
    asked(&mut world, VIS1, &bid("k2", 2, "4"));
}

#[test]
fn jobs_that_cannot_enter_say_why() {
    let mut world = world();
    let with = |id, change: fn(&mut WaitingJob<Unpriced>)| {
        let mut job = unpriced(id, 1);
        change(&mut job);
        job
    };
    world.unpriced.extend([
        with(3, |job| job.identity.qos = Some("long".into())),
        with(4, |job| job.identity.stamp.obstacle = Some("scrontab jobs cannot carry a bid yet")),
        with(5, |job| job.identity.account = "nlp".into()),
        with(6, |job| job.asked = [(Some("v100".to_owned()), 1)].into()),
    ]);
    world.read_at(61);
    let table = [
        (NLP1, 1, "3", "belongs to vis1"),
        (VIS1, 1, "0.1", "under the least price 0.3125"),
        (VIS1, 1, "0", "under the least price 0.3125"),
        (VIS1, 1, "7", "needs 56 SU but account vision has 50 SU free"),
        (VIS1, 3, "3", "scontrol update JobId=3 QOS=normal"),
        (VIS1, 4, "3", "scrontab jobs cannot carry a bid yet"),
        (VIS1, 5, "3", "user vis1 may not use QOS standard in account nlp"),
        (VIS1, 6, "3", "are priced"),
        (VIS1, 99, "3", "no pending job 99"),
    ];
    for (number, (caller, id, limit, expected)) in table.into_iter().enumerate() {
        let text = refusal(&mut world, caller, &bid(&format!("k{number}"), id, limit));
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
    asked(&mut world, ROOT, &bid("operator", 1, "3"));
}

#[test]
fn a_job_that_starts_before_it_enters_costs_nothing() {
    let mut world = world();
    let entry = asked(&mut world, VIS1, &bid("k1", 1, "3"));
    world.unpriced.clear();
    world.read_at(63);
    world.engine.take_entered(Entered { uuid: entry.stamp.uuid, outcome: Err("it no longer waits".into()) });
    world.read_at(66);
    assert_eq!((world.published_free("vision"), world.engine.book.orders.len()), (su("50"), 0));
}

#[test]
fn a_tier_that_is_named_brings_its_qos() {
    let mut world = world();
    world.asked.entries();
    let with_tier = |key: &str, tier: &str| v1::ChangeBidRequest { tier: tier.into(), ..bid(key, 1, "3") };
    for tier in ["free", "gold"] {
        let text = refusal(&mut world, VIS1, &with_tier(tier, tier));
        assert!(text.contains("take urgent, standard or spot"), "{text}");
    }
    // Members of vision may use standard and free only.
    let text = refusal(&mut world, VIS1, &with_tier("k1", "spot"));
    assert!(text.contains("may not use QOS spot"), "{text}");
    let mut facts = world.facts();
    facts.cluster.associations[0].qos.push("spot".into());
    world.take(facts);
    let entry = asked(&mut world, VIS1, &with_tier("k1", "spot"));
    assert_eq!((entry.qos.as_str(), entry.stamp.tier), ("spot", Tier::Spot));
}
