//! A round: clear every pool, move its index, and write both down with the funded orders that stood in line.

use std::collections::{BTreeMap, HashMap};

use market::amount::MilliGpus;
use market::clearing::{Demand, PoolOutcome, PoolSnapshot, clear};
use market::index::Index;
use market::order::{OrderId, RankKey, Tier};

use super::pass::{Pass, PassError, RECENT_S};
use super::waiting::{AskedGpus, Waiting};
use crate::facts::PoolFacts;
use crate::model::{Order, PoolState, RoundOrder, Segment};
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
    pass.book.round_orders = standing(waiting);
    pass.tx.replace_round_orders(&pass.book.round_orders)?;
    Ok(())
}

fn age(pass: &mut Pass<'_>, waiting: &[Waiting], elapsed_s: i64) -> Result<(), PassError> {
    if elapsed_s == 0 {
        return Ok(());
    }
    for waiting in waiting.iter().filter(|waiting| waiting.is_in_line()) {
        if let Some(order) = pass.book.orders.get(&waiting.order) {
            pass.remember(Order { age_s: order.age_s.saturating_add(elapsed_s), ..order.clone() })?;
        }
    }
    Ok(())
}

fn snapshot(
    pass: &Pass<'_>,
    name: &str,
    facts: &PoolFacts,
    waiting: &[Waiting],
    before: &PoolState,
) -> PoolSnapshot {
    let mut snapshot = PoolSnapshot {
        idle: MilliGpus::from_gpus(facts.idle()),
        evictable_free: held_free(pass, name),
        recent_starts: recent_starts(pass, name),
        pending: Vec::new(),
        reserve: pass.terms.reserve(name),
        last_start_price: before.start_price,
    };
    snapshot.pending = pending(pass, name, facts, waiting, supply_milli(&snapshot));
    snapshot
}

fn recent_starts(pass: &Pass<'_>, pool: &str) -> Vec<Demand> {
    let recent_s = pass.as_of_s - RECENT_S;
    let segments = pass.book.segments.values();
    let starts = segments.filter(|segment| segment.tier.is_paid() && segment.start_s > recent_s);
    let demand = |segment: &Segment| {
        let q = segment.held.get(pool)?.q;
        let order = OrderId { submitted_s: segment.start_s, job_id: segment.job_id, task_id: None };
        let key = RankKey { rank: segment.rank, eligible_s: segment.start_s, order };
        Some(Demand { key, q, effective: segment.effective, feasible: true })
    };
    starts.filter_map(demand).collect()
}

/// GPUs of running free jobs. They are not evicted yet, but what they hold goes to the best bid when they end, so they
/// hide no supply: else a pool full of free jobs would show an old price to those who wait for it.
fn held_free(pass: &Pass<'_>, pool: &str) -> MilliGpus {
    let free =
        pass.book.segments.values().filter(|segment| segment.tier == Tier::Free && segment.settled.is_none());
    let held = free.filter_map(|segment| segment.held.get(pool)).map(|held| held.q.milli());
    MilliGpus::from_milli(held.fold(0, i64::saturating_add)).unwrap_or_default()
}

/// S, as [`clear`] works it out.
fn supply_milli(snapshot: &PoolSnapshot) -> i64 {
    let started = snapshot.recent_starts.iter().map(|start| start.q);
    let parts = started.chain([snapshot.idle, snapshot.evictable_free]);
    parts.map(MilliGpus::milli).fold(0, i64::saturating_add)
}

/// A demand for each task that could start now, best first. Of an order no more tasks than fit into what those before
/// it leave of the supply, and one: that one cannot fit, so those behind it change no price, and a pool full of large
/// arrays stays as cheap to clear as one of single jobs.
fn pending(
    pass: &Pass<'_>,
    name: &str,
    facts: &PoolFacts,
    waiting: &[Waiting],
    supply_milli: i64,
) -> Vec<Demand> {
    let mut feasibility = Feasibility { pass, facts, known: HashMap::new() };
    let mut left_milli = supply_milli;
    let mut demands = Vec::new();
    for waiting in waiting.iter().filter(|waiting| waiting.is_demand()) {
        let Some(asked) = waiting.asked.iter().find(|asked| asked.home.as_deref() == Some(name)) else {
            continue;
        };
        let q_milli = asked.q.milli().max(1);
        let tasks = waiting.tasks_at_once.min(left_milli.unsigned_abs() / q_milli.unsigned_abs() + 1);
        let feasible = feasibility.of(waiting, asked);
        if feasible && q_milli <= supply_milli {
            let wanted_milli = q_milli.saturating_mul(i64::try_from(tasks).unwrap_or(i64::MAX));
            left_milli = left_milli.saturating_sub(wanted_milli).max(0);
        }
        demands.extend((0..tasks).map(|task| {
            let task_id = waiting.is_array.then(|| u32::try_from(task).unwrap_or(u32::MAX));
            let key = RankKey { order: OrderId { task_id, ..waiting.id }, ..waiting.key };
            Demand { key, q: asked.q, effective: waiting.effective, feasible }
        }));
    }
    demands
}

/// Which orders could run in the pool at all; most ask alike, so each question is answered once.
struct Feasibility<'a, 'b> {
    pass: &'a Pass<'b>,
    facts: &'a PoolFacts,
    known: HashMap<(&'a str, u32, i64), bool>,
}

impl<'a> Feasibility<'a, '_> {
    fn of(&mut self, waiting: &'a Waiting, asked: &AskedGpus) -> bool {
        let key = (waiting.partition.as_str(), waiting.nodes_least.max(1), asked.q.milli());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let feasible = self.has_nodes(key.0, key.1, key.2);
        self.known.insert(key, feasible);
        feasible
    }

    /// Whether the partition has enough nodes in supply that are large enough, busy or not.
    fn has_nodes(&self, partition: &str, nodes: u32, q_milli: i64) -> bool {
        let nodes = i64::from(nodes);
        let on_each = (q_milli / 1000 + nodes - 1) / nodes;
        let large_enough = self.facts.nodes.iter().filter(|(node, gpus)| {
            gpus.in_supply
                && i64::from(gpus.installed) >= on_each
                && self.pass.cluster.reaches(partition, node)
        });
        i64::try_from(large_enough.count()).unwrap_or(i64::MAX) >= nodes
    }
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

/// The funded orders of this round in each pool, best first: what later starts displace.
fn standing(waiting: &[Waiting]) -> Vec<RoundOrder> {
    let mut standing = BTreeMap::new();
    for waiting in waiting.iter().filter(|waiting| waiting.is_demand()) {
        for asked in &waiting.asked {
            let Some(pool) = &asked.home else { continue };
            let row = RoundOrder {
                order: waiting.order,
                pool: pool.clone(),
                account: waiting.account.clone(),
                effective: waiting.effective,
                eligible_s: waiting.key.eligible_s,
                q: asked.q,
            };
            standing.insert((waiting.order, pool.clone()), row);
        }
    }
    let mut standing: Vec<RoundOrder> = standing.into_values().collect();
    standing.sort_by_key(|row| std::cmp::Reverse(row.effective));
    standing
}
