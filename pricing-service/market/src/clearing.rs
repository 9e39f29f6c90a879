//! Clearing of one pool: which pending orders win, and what it takes to start now (design, "Clearing").
//!
//! Clearing is a flow: most rounds find no free GPU, so what was sold in the last hours is sold again, to the paid
//! starts of that time and the pending orders together. Winners are a set by rank: at equal bids one order can win and
//! another lose, so "limit above the price" never decides.

use crate::amount::{MilliGpus, Price};
use crate::order::{OrderId, RankKey};

/// What one order asks of the pool, or what a recent start took from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand {
    /// Frozen at the start, for a recent start.
    pub key: RankKey,
    /// Billed GPUs.
    pub q: MilliGpus,
    /// e, the effective bid: the only thing about an order that can become a price.
    pub effective: Price,
    /// Whether any set of the pool's nodes could run it; a recent start's is true.
    pub feasible: bool,
}

/// All that clearing looks at. The order within the lists does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// Idle GPUs of nodes that are in supply.
    pub idle: MilliGpus,
    /// GPUs of free jobs that can be evicted now.
    pub evictable_free: MilliGpus,
    /// Paid starts of the last 4 h.
    pub recent_starts: Vec<Demand>,
    /// Pending orders that are funded; the others are not demand.
    pub pending: Vec<Demand>,
    pub reserve: Price,
    /// The start price of the round before, at first κ.
    pub last_start_price: Price,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOutcome {
    /// S, at most the highest `MilliGpus`.
    pub supply: MilliGpus,
    /// What an effective bid must reach to start now.
    pub start_price: Price,
    /// The order whose misfit set the start price (its e, or the reserve if that is more). None: the price is the
    /// reserve because all fit, or the last one because there is no supply.
    pub marginal: Option<OrderId>,
    /// The pending orders that won, by rank.
    pub awards: Vec<OrderId>,
    /// All pending orders by rank, the infeasible too: a place in the queue is its index here.
    pub ranking: Vec<OrderId>,
}

/// Clears one pool: takes recent starts and pending orders by rank, skips those that could never run (q > S, or no
/// feasible node set), and awards each that still fits. The first that does not fit sets the start price; smaller ones
/// behind it may fit all the same.
#[must_use]
pub fn clear(snapshot: &PoolSnapshot) -> PoolOutcome {
    let queue = by_rank(snapshot);
    let supply = supply_milli(snapshot);
    let mut used: i128 = 0;
    let mut marginal: Option<&Demand> = None;
    let mut awards = Vec::new();
    for entry in queue.iter().filter(|entry| could_run(entry.demand, supply)) {
        let q = i128::from(entry.demand.q.milli());
        if used + q > supply {
            marginal = marginal.or(Some(entry.demand));
            continue;
        }
        used += q;
        if entry.is_pending {
            awards.push(entry.demand.key.order);
        }
    }
    let start_price = match marginal {
        _ if supply == 0 => snapshot.last_start_price,
        Some(demand) => demand.effective.max(snapshot.reserve),
        None => snapshot.reserve,
    };
    PoolOutcome {
        supply: saturated(supply),
        start_price,
        marginal: marginal.map(|demand| demand.key.order),
        awards,
        ranking: queue.iter().filter(|entry| entry.is_pending).map(|entry| entry.demand.key.order).collect(),
    }
}

/// The derived order starts with the rank key. Only a requeued order stands in both lists, and could have equal keys
/// there: then its start goes first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Queued<'a> {
    key: RankKey,
    is_pending: bool,
    demand: &'a Demand,
}

fn by_rank(snapshot: &PoolSnapshot) -> Vec<Queued<'_>> {
    let starts = snapshot.recent_starts.iter().map(|demand| (demand, false));
    let pending = snapshot.pending.iter().map(|demand| (demand, true));
    let mut queue: Vec<Queued<'_>> = starts
        .chain(pending)
        .map(|(demand, is_pending)| Queued { key: demand.key, is_pending, demand })
        .collect();
    queue.sort_unstable();
    queue
}

/// S = idle GPUs + GPUs of evictable free jobs + Σ q of the recent starts.
fn supply_milli(snapshot: &PoolSnapshot) -> i128 {
    let parts = [snapshot.idle, snapshot.evictable_free];
    let started = snapshot.recent_starts.iter().map(|start| start.q);
    parts.into_iter().chain(started).map(|q| i128::from(q.milli())).sum()
}

fn could_run(demand: &Demand, supply: i128) -> bool {
    demand.feasible && supply > 0 && i128::from(demand.q.milli()) <= supply
}

fn saturated(milli: i128) -> MilliGpus {
    MilliGpus::from_milli(i64::try_from(milli).unwrap_or(i64::MAX)).unwrap_or(MilliGpus::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(gpus: u32) -> MilliGpus {
        MilliGpus::from_gpus(gpus)
    }

    fn su(micros: i64) -> Price {
        Price::from_micros(micros).expect("a test's price is not below zero")
    }

    fn order(job_id: u32) -> OrderId {
        OrderId { submitted_s: 0, job_id, task_id: None }
    }

    /// A bid without age: its rank is its effective bid.
    fn bid(job_id: u32, micros: i64, count: u32) -> Demand {
        let key = RankKey { rank: su(micros), eligible_s: 0, order: order(job_id) };
        Demand { key, q: gpus(count), effective: su(micros), feasible: true }
    }

    fn pool(idle: u32, recent_starts: Vec<Demand>, pending: Vec<Demand>) -> PoolSnapshot {
        PoolSnapshot {
            idle: gpus(idle),
            evictable_free: MilliGpus::ZERO,
            recent_starts,
            pending,
            reserve: su(250_000),
            last_start_price: su(1_000_000),
        }
    }

    fn orders(ids: &[u32]) -> Vec<OrderId> {
        ids.iter().map(|id| order(*id)).collect()
    }

    #[test]
    fn all_fit_at_the_reserve() {
        let outcome = clear(&pool(4, vec![], vec![bid(1, 900_000, 1), bid(2, 2_000_000, 3)]));
        assert_eq!(outcome.start_price, su(250_000));
        assert_eq!(outcome.marginal, None);
        assert_eq!(outcome.awards, orders(&[2, 1]));
    }

    #[test]
    fn the_first_misfit_sets_the_price_and_smaller_ones_behind_it_still_win() {
        let outcome = clear(&pool(
            4,
            vec![],
            vec![bid(1, 900, 3), bid(2, 800_000, 2), bid(3, 700_000, 3), bid(4, 600_000, 2)],
        ));
        assert_eq!(outcome.start_price, su(700_000));
        assert_eq!(outcome.marginal, Some(order(3)));
        assert_eq!(outcome.awards, orders(&[2, 4]));
        assert_eq!(outcome.ranking, orders(&[2, 3, 4, 1]));
    }

    #[test]
    fn a_misfit_below_the_reserve_leaves_the_reserve() {
        let outcome = clear(&pool(1, vec![], vec![bid(1, 900, 1), bid(2, 800, 1)]));
        assert_eq!(outcome.start_price, su(250_000));
        assert_eq!(outcome.marginal, Some(order(2)));
        assert_eq!(outcome.awards, orders(&[1]));
    }

    #[test]
    fn age_orders_and_never_raises_the_price() {
        let mut aged = bid(1, 300_000, 1);
        aged.key.rank = su(5_000_000);
        let outcome = clear(&pool(1, vec![], vec![aged.clone(), bid(2, 1_000_000, 1)]));
        assert_eq!((outcome.awards, outcome.start_price), (orders(&[1]), su(1_000_000)));
        let outcome = clear(&pool(1, vec![], vec![aged, bid(2, 6_000_000, 1)]));
        assert_eq!((outcome.awards, outcome.start_price), (orders(&[2]), su(300_000)));
    }

    #[test]
    fn at_equal_bids_one_wins_and_one_loses() {
        let outcome = clear(&pool(1, vec![], vec![bid(2, 1_000_000, 1), bid(1, 1_000_000, 1)]));
        assert_eq!((outcome.awards, outcome.start_price), (orders(&[1]), su(1_000_000)));
    }

    #[test]
    fn evictable_free_jobs_are_supply() {
        let mut snapshot = pool(0, vec![], vec![bid(1, 1_000_000, 2)]);
        snapshot.evictable_free = gpus(2);
        let outcome = clear(&snapshot);
        assert_eq!((outcome.supply, outcome.awards), (gpus(2), orders(&[1])));
    }

    #[test]
    fn without_supply_the_last_price_stands_and_nobody_wins() {
        let mut gpuless = bid(1, 1_000_000, 0);
        gpuless.q = MilliGpus::ZERO;
        let outcome = clear(&pool(0, vec![], vec![bid(2, 9_000_000, 1), gpuless]));
        assert_eq!(outcome.start_price, su(1_000_000));
        assert_eq!((outcome.marginal, outcome.awards), (None, vec![]));
        assert_eq!(outcome.ranking, orders(&[2, 1]));
    }

    #[test]
    fn huge_counts_saturate() {
        let all = MilliGpus::from_milli(i64::MAX).expect("not below zero");
        let mut snapshot = pool(1, vec![], vec![bid(1, 1_000_000, 1)]);
        snapshot.evictable_free = all;
        snapshot.pending.push(Demand { q: all, ..bid(2, 2_000_000, 1) });
        let outcome = clear(&snapshot);
        assert_eq!((outcome.supply, outcome.awards), (all, orders(&[2, 1])));
    }
}
