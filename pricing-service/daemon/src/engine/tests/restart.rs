//! Killed at any moment, the daemon books what it would have booked.

use proptest::prelude::*;

use super::world::{BEGAN_S, Job, State, World, job, su};

const JOBS: u32 = 4;

/// A step of the play: what happens to which job, and seconds until slurmctld is read.
type Step = (u32, u8, i64);

fn play(steps: &[Step], restart_before: Option<usize>) -> World {
    let mut world = World::with_funds("40", "40");
    for id in 1..=JOBS {
        let account = if id % 2 == 0 { "vision" } else { "nlp" };
        world.submit(Job {
            time_limit_s: Some(1800),
            ..job(id, account, ["1", "2", "3.5"][id as usize % 3], 4)
        });
    }
    for (index, (id, what, seconds)) in steps.iter().enumerate() {
        if restart_before == Some(index) {
            world.restart();
        }
        let now_s = world.now_s;
        let state = match (world.jobs[id].state, what % 3) {
            (State::Waits, 0) => State::Runs { start_s: now_s + 1 },
            (State::Waits, 1) => State::Cancelled,
            (State::Runs { start_s }, 0 | 1) => {
                State::Ended { start_s, end_s: now_s + 1, suspended_s: Some(0) }
            }
            (State::Ended { .. }, 2) => State::Forgotten,
            (same, _) => same,
        };
        world.set(*id, state);
        world.read_at(now_s - BEGAN_S + seconds);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_restart_at_any_moment_leaves_the_same_ledger(
        steps in prop::collection::vec((1..=JOBS, any::<u8>(), 2_i64..400), 1..16),
    ) {
        let undisturbed = play(&steps, None).entries();
        for moment in 0..steps.len() {
            prop_assert_eq!(&play(&steps, Some(moment)).entries(), &undisturbed, "restarted before step {}", moment);
        }
    }
}

#[test]
fn a_job_that_lived_while_the_daemon_was_down_costs_the_same() {
    let run = |down: bool| {
        let mut world = World::with_funds("100", "0.5");
        world.submit(job(1, "vision", "3.5", 8));
        if down {
            world.set(1, State::Forgotten);
        }
        world.read_at(10);
        let (start_s, end_s) = (BEGAN_S + 20, BEGAN_S + 920);
        if !down {
            world.set(1, State::Runs { start_s });
            world.read_at(21);
        }
        world.set(1, State::Ended { start_s, end_s, suspended_s: Some(0) });
        if down {
            let told_by_slurmdbd = world.jobs[&1].run().expect("ran");
            world.set(1, State::Forgotten);
            world.restart();
            world.read_at(4000);
            world.account(told_by_slurmdbd);
        } else {
            world.read_at(930);
        }
        (world.entries(), world.charged())
    };
    assert_eq!(run(false).1, su("0.625"));
    assert_eq!(run(true), run(false));
}
