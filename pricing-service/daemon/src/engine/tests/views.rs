//! What each may see, and that questions stay cheap.

use market_api::v1;

use super::world::{BEGAN_S, NLP1, ROOT, State, VIS1, World, job};
use crate::query::{Query, QueryError, Reply};

fn ledger(world: &mut World, accounts: &[&str], limit: u32) -> v1::LedgerReply {
    let accounts = accounts.iter().map(|name| (*name).to_owned()).collect();
    match world.engine.answer(Query::Ledger(ROOT, v1::LedgerRequest { accounts, limit })) {
        Ok(Reply::Ledger(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

fn private(world: &mut World) {
    let mut facts = world.facts();
    facts.cluster.jobs_are_private = true;
    world.take(facts);
}

#[test]
fn explain_shows_no_more_of_a_job_than_squeue() {
    let mut world = World::with_funds("1000", "1000");
    world.submit(job(1, "vision", "2", 8));
    world.submit(job(2, "nlp", "3", 8));
    world.submit(job(3, "vision", "1", 8));
    world.submit(job(4, "nlp", "1", 1));
    let (start_s, end_s) = (BEGAN_S + 5, BEGAN_S + 6);
    world.set(4, State::Ended { start_s, end_s, suspended_s: Some(0) });
    world.read_at(60);
    for id in [1, 2, 4] {
        world.engine.explain(VIS1, id).expect("squeue shows all jobs to everybody");
    }
    private(&mut world);
    for (caller, id) in [(VIS1, 2), (VIS1, 4), (NLP1, 1)] {
        let refused = world.engine.explain(caller, id);
        assert!(matches!(refused, Err(QueryError::NotAllowed(_))), "{refused:?}");
    }
    world.engine.explain(ROOT, 2).expect("operators see all");
    let own = world.engine.explain(VIS1, 3).expect("explains");
    assert!(own.sentences[0].ends_with("It is number 3 of 3: jobs 1 and 1 more bid more."), "{own:?}");
    assert_eq!(own.jobs_ahead, [1]);
    let own = world.engine.explain(VIS1, 1).expect("explains");
    assert!(own.sentences[0].ends_with("It is number 2 of 3: 1 job bids more."), "{own:?}");
    assert!(own.sentences.iter().any(|text| text == "To pass the next job bid 3.01:"), "{own:?}");
}

#[test]
fn a_job_whose_id_is_given_again_has_its_own_runs() {
    let mut world = World::with_funds("1000", "1000");
    for (id, array_id, start_s) in [(11, Some(10), 5), (12, Some(10), 5), (13, Some(10), 500)] {
        world.submit(super::world::Job { array_id, ..job(id, "vision", "2", 1) });
        let (start_s, end_s) = (BEGAN_S + start_s, BEGAN_S + start_s + 10);
        world.set(id, State::Ended { start_s, end_s, suspended_s: Some(0) });
    }
    world.read_at(600);
    let reply = world.engine.explain(VIS1, 10).expect("explains");
    assert!(reply.sentences.iter().all(|text| !text.contains("It is the last of")), "{reply:?}");
}

#[test]
fn the_newest_entries_of_some_accounts_are_listed_without_reading_the_others() {
    let mut world = World::with_funds("10", "20");
    for amount in ["1", "2", "3"] {
        world.now_s += 1;
        world.deposit("vision", amount);
    }
    let reply = ledger(&mut world, &["nlp"], 10);
    assert_eq!(reply.entries.iter().map(|entry| entry.amount_usu).collect::<Vec<_>>(), [20_000_000]);
    let reply = ledger(&mut world, &["vision", "nlp"], 3);
    let amounts: Vec<i64> = reply.entries.iter().map(|entry| entry.amount_usu / 1_000_000).collect();
    assert_eq!((amounts, reply.truncated), (vec![1, 2, 3], true));
    assert_eq!(ledger(&mut world, &[], 100).entries.len(), 10);
}

#[test]
fn a_question_names_a_bounded_number_of_jobs() {
    let mut world = World::new();
    let request = v1::JobsRequest { job_ids: (0..1001).collect(), ..Default::default() };
    let refused = world.engine.answer(Query::Jobs(ROOT, request));
    assert!(matches!(refused, Err(QueryError::Invalid(_))), "{refused:?}");
}
