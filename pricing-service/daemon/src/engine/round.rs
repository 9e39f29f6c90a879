//! A round: clear every pool, move its index, and write both down with the funded orders that stood in line.

use std::collections::BTreeMap;

use market::amount::MilliGpus;
use market::clearing::{Demand, PoolOutcome, PoolSnapshot, clear};
use market::index::Index;
use market::order::{OrderId, RankKey, Tier};

use super::pass::{Pass, PassError, RECENT_S};
use super::terms;
use super::waiting::{AskedGpus, Waiting};
use crate::facts::PoolFacts;
use crate::model::{Order, PoolState, RoundOrder};
use crate::store::PoolRound;

/// Ages orders, clears and prices every pool.
pub(crate) fn run(pass: &mut Pass<'_>, waiting: &[Waiting], quantum_s: i64) -> Result<(), PassError> {
    let elapsed_s = pass.book.round_at_s.map_or(0, |last_s| (pass.as_of_s - last_s).max(0));
    age(pass, waiting, elapsed_s)?;
    pass.book.round += 1;
    let pools: Vec<(String, PoolFacts)> = pass.cluster.pools.clone().into_iter().collect();
    for (name, facts) in &pools {
        let Some(params) = pass.terms.pools.get(name) else { continue };
        let weight = params.weight;
        let before = pass.book.pools.get(name).cloned().unwrap_or_else(|| PoolState {
            index: Index::at(weight),
            start_price: weight,
            why: String::new(),
        });
        let snapshot = snapshot(pass, name, facts, waiting, &before);
        let outcome = clear(&snapshot);
        let index = before.index.advance(outcome.start_price, elapsed_s, quantum_s);
        let why = why(&snapshot, &outcome, index);
        let state = PoolState { index, start_price: outcome.start_price, why };
        pass.tx.insert_pool_round(&PoolRound {
            round: pass.book.round,
            pool: name,
            at_s: pass.as_of_s,
            supply: outcome.supply,
            reserve: snapshot.reserve,
            state: &state,
        })?;
        pass.book.pools.insert(name.clone(), state);
    }
    pass.book.round_at_s = Some(pass.as_of_s);
    pass.book.round_orders = standing(pass, waiting);
    pass.tx.replace_round_orders(&pass.book.round_orders)?;
    Ok(())
}

fn age(pass: &mut Pass<'_>, waiting: &[Waiting], elapsed_s: i64) -> Result<(), PassError> {
    if elapsed_s == 0 {
        return Ok(());
    }
    for waiting in waiting.iter().filter(|waiting| is_demand(waiting)) {
        if let Some(order) = pass.book.orders.get(&waiting.order) {
            pass.remember(Order { age_s: order.age_s.saturating_add(elapsed_s), ..order.clone() })?;
        }
    }
    Ok(())
}

/// Funded, eligible, not held, and of a tier that pays.
fn is_demand(waiting: &Waiting) -> bool {
    waiting.tier == Tier::Standard && waiting.funded && waiting.competes
}

/// What is asked of this pool, if the order stands in line here.
fn asked_of<'a>(pass: &Pass<'_>, waiting: &'a Waiting, pool: &str) -> Option<&'a AskedGpus> {
    waiting.asked.iter().find(|asked| asked.home(pass.terms) == Some(pool))
}

fn snapshot(
    pass: &Pass<'_>,
    name: &str,
    facts: &PoolFacts,
    waiting: &[Waiting],
    before: &PoolState,
) -> PoolSnapshot {
    let recent_s = pass.as_of_s - RECENT_S;
    let starts = pass
        .book
        .segments
        .values()
        .filter(|segment| segment.tier == Tier::Standard && segment.start_s > recent_s);
    let recent_starts = starts.filter_map(|segment| {
        let q = segment.held.get(name)?.q;
        let order = OrderId { submitted_s: segment.start_s, job_id: segment.job_id, task_id: None };
        let key = RankKey { rank: segment.rank, eligible_s: segment.start_s, order };
        Some(Demand { key, q, effective: segment.effective, feasible: true })
    });
    PoolSnapshot {
        idle: MilliGpus::from_gpus(facts.idle()),
        evictable_free: held_free(pass, name),
        recent_starts: recent_starts.collect(),
        pending: waiting
            .iter()
            .filter(|waiting| is_demand(waiting))
            .flat_map(|waiting| demands(pass, name, facts, waiting))
            .collect(),
        reserve: pass.terms.reserve(name),
        last_start_price: before.start_price,
    }
}

/// GPUs of running free jobs. They are not evicted yet, but what they hold goes to the best bid when they end, so they
/// hide no supply: else a pool full of free jobs would show an old price to those who wait for it.
fn held_free(pass: &Pass<'_>, pool: &str) -> MilliGpus {
    let free =
        pass.book.segments.values().filter(|segment| segment.tier == Tier::Free && segment.settled.is_none());
    let held: i64 = free.filter_map(|segment| segment.held.get(pool)).map(|held| held.q.milli()).sum();
    MilliGpus::from_milli(held).unwrap_or_default()
}

/// One demand for each task that could start now, but never more tasks than the pool could hold and one.
fn demands(pass: &Pass<'_>, name: &str, facts: &PoolFacts, waiting: &Waiting) -> Vec<Demand> {
    let Some(asked) = asked_of(pass, waiting, name) else {
        return Vec::new();
    };
    let whole_pool = u64::from(facts.installed()) * 1000;
    let enough = whole_pool / asked.q.milli().unsigned_abs().max(1) + 1;
    let feasible = is_feasible(pass, facts, waiting, asked);
    (0..waiting.tasks_at_once.min(enough))
        .map(|task| {
            let task_id = waiting.is_array.then(|| u32::try_from(task).unwrap_or(u32::MAX));
            let order = OrderId { task_id, ..waiting.id };
            let key = RankKey { order, ..waiting.key };
            Demand { key, q: asked.q, effective: waiting.effective, feasible }
        })
        .collect()
}

/// Whether the partition has enough nodes in supply that are large enough, busy or not.
fn is_feasible(pass: &Pass<'_>, facts: &PoolFacts, waiting: &Waiting, asked: &AskedGpus) -> bool {
    let nodes = i64::from(waiting.nodes_least.max(1));
    let on_each = (asked.q.milli() / 1000 + nodes - 1) / nodes;
    let large_enough = facts.nodes.iter().filter(|(node, gpus)| {
        gpus.in_supply
            && i64::from(gpus.installed) >= on_each
            && terms::reaches_node(pass.cluster, &waiting.partition, node)
    });
    let large_enough = i64::try_from(large_enough.count()).unwrap_or(i64::MAX);
    large_enough >= nodes
}

fn why(snapshot: &PoolSnapshot, outcome: &PoolOutcome, index: Index) -> String {
    let start = if outcome.supply == MilliGpus::ZERO {
        "nothing is idle and nothing was sold in the last 4 h, so the start price stays where it was"
            .to_owned()
    } else if let Some(marginal) = outcome.marginal {
        format!("job {} is the first that does not fit and sets the start price", marginal.job_id)
    } else if snapshot.pending.is_empty() {
        "nobody with funds waits, so the start price is the reserve".to_owned()
    } else {
        "all that waits fits, so the start price is the reserve".to_owned()
    };
    let charge = match index.price().cmp(&outcome.start_price) {
        std::cmp::Ordering::Less => "the charge price, its smoothed course, rises towards it",
        std::cmp::Ordering::Equal => "the charge price, its smoothed course, has reached it",
        std::cmp::Ordering::Greater => "the charge price, its smoothed course, falls towards it",
    };
    format!("{start}; {charge}")
}

/// The funded orders of this round, by pool: what later starts displace.
fn standing(pass: &Pass<'_>, waiting: &[Waiting]) -> Vec<RoundOrder> {
    let mut standing = BTreeMap::new();
    for waiting in waiting.iter().filter(|waiting| is_demand(waiting)) {
        for asked in &waiting.asked {
            let Some(pool) = asked.home(pass.terms) else { continue };
            let row = RoundOrder {
                order: waiting.order,
                pool: pool.to_owned(),
                account: waiting.account.clone(),
                effective: waiting.effective,
                eligible_s: waiting.key.eligible_s,
                q: asked.q,
            };
            standing.insert((waiting.order, pool.to_owned()), row);
        }
    }
    standing.into_values().collect()
}
