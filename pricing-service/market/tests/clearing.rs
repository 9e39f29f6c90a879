//! Clearing against an oracle that knows no queue: it enumerates all sets of winners.

use market::amount::{MilliGpus, Price};
use market::clearing::{Demand, PoolOutcome, PoolSnapshot, clear};
use market::order::{OrderId, RankKey};
use proptest::prelude::*;
use proptest::sample::Index as Pick;

const SU: i64 = 1_000_000;

fn price(micros: i64) -> Price {
    Price::from_micros(micros).expect("a test's price is not below zero")
}

fn milli(count: i64) -> MilliGpus {
    MilliGpus::from_milli(count).expect("a test's GPUs are not below zero")
}

/// Who goes before whom, spelled out apart from `RankKey`'s own order: a lesser tuple goes first.
fn place(demand: &Demand) -> (i64, i64, i64, u32, Option<u32>) {
    let RankKey { rank, eligible_s, order } = demand.key;
    (-rank.micros(), eligible_s, order.submitted_s, order.job_id, order.task_id)
}

/// Of all sets of runnable orders that fit together, the winners are the one that favours the first in rank, then the
/// second, and so on: the greatest number when the first in rank is the highest bit.
fn clear_by_enumeration(world: &PoolSnapshot) -> PoolOutcome {
    let starts = world.recent_starts.iter();
    let supply =
        world.idle.milli() + world.evictable_free.milli() + starts.clone().map(|d| d.q.milli()).sum::<i64>();
    let mut queue: Vec<(&Demand, bool)> =
        starts.map(|d| (d, false)).chain(world.pending.iter().map(|d| (d, true))).collect();
    queue.sort_by_key(|(demand, is_pending)| (place(demand), *is_pending));
    let runnable: Vec<(&Demand, bool)> = queue
        .iter()
        .copied()
        .filter(|(demand, _)| supply > 0 && demand.feasible && demand.q.milli() <= supply)
        .collect();
    let wins = |set: u32, place: usize| set >> (runnable.len() - 1 - place) & 1 == 1;
    let used = |set| -> i64 {
        (0..runnable.len()).filter(|place| wins(set, *place)).map(|place| runnable[place].0.q.milli()).sum()
    };
    let best = (0..1 << runnable.len()).rev().find(|set| used(*set) <= supply).expect("the empty set fits");
    let marginal = (0..runnable.len()).find(|place| !wins(best, *place)).map(|place| runnable[place].0);
    let start_price = match marginal {
        Some(demand) => demand.effective.micros().max(world.reserve.micros()),
        None if supply == 0 => world.last_start_price.micros(),
        None => world.reserve.micros(),
    };
    PoolOutcome {
        supply: milli(supply),
        start_price: price(start_price),
        marginal: marginal.map(|demand| demand.key.order),
        awards: (0..runnable.len())
            .filter(|place| wins(best, *place) && runnable[*place].1)
            .map(|place| runnable[place].0.key.order)
            .collect(),
        ranking: queue.iter().filter(|(_, is_pending)| *is_pending).map(|(d, _)| d.key.order).collect(),
    }
}

/// Few values of each kind, so that ties reach down to the task id, which is the order's number in its world.
fn any_demand() -> impl Strategy<Value = Demand> {
    (0..7_i64, 0..3_i64, 0..2_i64, 0..2_i64, 0..2_u32, 1..9_i64, prop::bool::weighted(0.9)).prop_map(
        |(bid, age, eligible_s, submitted_s, job_id, halves, feasible)| Demand {
            key: RankKey {
                rank: price((bid + age) * SU / 5),
                eligible_s,
                order: OrderId { submitted_s, job_id, task_id: None },
            },
            q: milli(halves * 500),
            effective: price(bid * SU / 5),
            feasible,
        },
    )
}

fn any_world() -> impl Strategy<Value = PoolSnapshot> {
    let demands = |most| prop::collection::vec(any_demand(), 0..=most);
    (0..9_i64, 0..5_i64, demands(3), demands(5), 0..4_i64).prop_map(
        |(idle, evictable, mut recent_starts, mut pending, reserve)| {
            recent_starts.iter_mut().for_each(|start| start.feasible = true);
            for (number, demand) in recent_starts.iter_mut().chain(&mut pending).enumerate() {
                demand.key.order.task_id = (number as u32).checked_sub(1);
            }
            PoolSnapshot {
                idle: milli(idle * 500),
                evictable_free: milli(evictable * 500),
                recent_starts,
                pending,
                reserve: price(reserve * SU / 5),
                last_start_price: price(777_777),
            }
        },
    )
}

fn shuffled(demands: &[Demand], picks: &[Pick]) -> Vec<Demand> {
    let mut rest = demands.to_vec();
    let mut picks = picks.iter().cycle();
    let mut shuffled = Vec::new();
    while !rest.is_empty() {
        let pick = picks.next().expect("a cycle does not end").index(rest.len());
        shuffled.push(rest.swap_remove(pick));
    }
    shuffled
}

/// The same but for who stands in the queue.
fn without_ranking(outcome: PoolOutcome) -> PoolOutcome {
    PoolOutcome { ranking: Vec::new(), ..outcome }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn clearing_agrees_with_enumeration(world in any_world()) {
        prop_assert_eq!(clear(&world), clear_by_enumeration(&world));
    }

    #[test]
    fn an_infeasible_bid_changes_no_price(world in any_world(), mut bid in any_demand(), is_too_large: bool) {
        let before = clear(&world);
        bid.effective = price(1_000_000 * SU);
        bid.key.rank = bid.effective;
        bid.key.order.task_id = Some(99);
        bid.feasible = is_too_large;
        if is_too_large {
            bid.q = milli(before.supply.milli() + 1);
        }
        let mut world = world;
        world.pending.push(bid);
        prop_assert_eq!(without_ranking(clear(&world)), without_ranking(before));
    }

    #[test]
    fn the_order_of_input_does_not_matter(
        world in any_world(),
        picks in prop::collection::vec(any::<Pick>(), 1..9),
    ) {
        let permuted = PoolSnapshot {
            recent_starts: shuffled(&world.recent_starts, &picks),
            pending: shuffled(&world.pending, &picks),
            ..world.clone()
        };
        prop_assert_eq!(format!("{:?}", clear(&permuted)), format!("{:?}", clear(&world)));
    }
}

/// A bid of a whole number of GPUs without age; the job id decides ties.
fn bid(job_id: u32, micros: i64, gpus: u32) -> Demand {
    Demand {
        key: RankKey {
            rank: price(micros),
            eligible_s: 0,
            order: OrderId { submitted_s: 0, job_id, task_id: None },
        },
        q: MilliGpus::from_gpus(gpus),
        effective: price(micros),
        feasible: true,
    }
}

fn pool(idle_gpus: u32, recent_starts: Vec<Demand>, pending: Vec<Demand>) -> PoolSnapshot {
    PoolSnapshot {
        idle: MilliGpus::from_gpus(idle_gpus),
        evictable_free: MilliGpus::ZERO,
        recent_starts,
        pending,
        reserve: price(SU / 4),
        last_start_price: price(SU),
    }
}

fn job_ids(orders: &[OrderId]) -> Vec<u32> {
    orders.iter().map(|order| order.job_id).collect()
}

#[test]
fn every_small_world_agrees_with_enumeration() {
    for idle in 0..4 {
        // Three bids of 1…3 GPUs at 1…3 fifths of an SU: nine kinds each.
        for kinds in 0..9_u32.pow(3) {
            let kind = |place: u32| kinds / 9_u32.pow(place) % 9;
            let demand = |place| bid(place, i64::from(kind(place) / 3 + 1) * SU / 5, kind(place) % 3 + 1);
            for starts in 0..2 {
                let (recent, pending): (Vec<Demand>, Vec<Demand>) =
                    ((0..starts).map(demand).collect(), (starts..3).map(demand).collect());
                let world = pool(idle, recent, pending);
                assert_eq!(clear(&world), clear_by_enumeration(&world), "{world:?}");
            }
        }
    }
}

#[test]
fn with_no_free_gpu_the_head_bid_is_not_the_price() {
    let sold = |micros: i64| (1..=8).map(move |id| bid(id, micros, 1)).collect::<Vec<_>>();
    let outcome = clear(&pool(0, sold(SU), vec![bid(20, 5 * SU, 1)]));
    assert_eq!(outcome.start_price, price(SU), "what the last of the sold GPUs was worth");
    assert_eq!(job_ids(&outcome.awards), [20]);
    let outcome = clear(&pool(0, vec![], vec![bid(20, 5 * SU, 1)]));
    assert_eq!(outcome.start_price, price(SU), "nothing for sale: the price stays");
    assert_eq!(outcome.awards, []);
}

#[test]
fn a_gang_that_cannot_start_purges_nobody() {
    let running: Vec<Demand> = (1..=40).map(|id| bid(id, SU / 2, 1)).collect();
    let small = bid(50, SU, 4);
    let without_gang = clear(&pool(8, running.clone(), vec![small.clone()]));
    let outcome = clear(&pool(8, running, vec![small, bid(60, 1_000 * SU, 64)]));
    assert_eq!(without_ranking(outcome.clone()), without_ranking(without_gang));
    assert_eq!(job_ids(&outcome.awards), [50]);
    assert_eq!(outcome.start_price, price(SU / 4));
}

#[test]
fn a_newcomer_who_bids_a_little_more_does_not_wait_for_ever() {
    let running: Vec<Demand> = (1..=8).map(|id| bid(id, SU, 1)).collect();
    let outcome = clear(&pool(0, running, vec![bid(9, SU + SU / 100, 1)]));
    assert_eq!(job_ids(&outcome.awards), [9], "the next GPU that falls free is its own");
    assert_eq!(outcome.start_price, price(SU));
    assert_eq!(outcome.marginal.map(|order| order.job_id), Some(8));
}

#[test]
fn winners_are_a_set_by_rank_not_all_above_the_price() {
    // Price 1: the second bid of 1 wins for its size, and the third loses at the very same bid.
    let outcome =
        clear(&pool(3, vec![], vec![bid(1, 2 * SU, 2), bid(2, SU, 2), bid(3, SU, 1), bid(4, SU, 1)]));
    assert_eq!(outcome.start_price, price(SU));
    assert_eq!(outcome.marginal.map(|order| order.job_id), Some(2));
    assert_eq!(job_ids(&outcome.awards), [1, 3]);
}
