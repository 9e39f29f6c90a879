//! Pending orders as the market sees them: what they ask, what they would cost, where they stand.

use std::collections::BTreeMap;

use market::amount::{Amount, MilliGpus, Price};
use market::ledger::LedgerAccount;
use market::metering::earmark_ceil;
use market::order::{OrderId, RankKey, Tier, age_bonus, effective_bid_floor, priority_factor, rank};
use market_api::config::ArrayEarmark;

use super::terms::{self, Terms};
use crate::facts::{Facts, WaitingJob};
use crate::model::{Book, Order, OrderRow};

/// GPUs asked for by each task, of any one of the pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AskedGpus {
    pub(crate) pools: Vec<String>,
    /// The pool in whose line the order stands; `None`: no pool has such GPUs.
    pub(crate) home: Option<String>,
    pub(crate) q: MilliGpus,
}

/// One pending order.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) order: OrderRow,
    pub(crate) id: OrderId,
    pub(crate) tier: Tier,
    pub(crate) limit: Price,
    pub(crate) account: String,
    pub(crate) partition: String,
    /// Slurm's records of it: job id, present submit time.
    pub(crate) records: Vec<(u32, i64)>,
    pub(crate) display_id: String,
    /// Of a component of a heterogeneous job.
    pub(crate) het_leader: Option<u32>,
    pub(crate) is_array: bool,
    pub(crate) tasks: u64,
    /// `%n` of an array.
    pub(crate) at_once: Option<u32>,
    /// Tasks that could start now: pending ones, within `%n`.
    pub(crate) tasks_at_once: u64,
    pub(crate) asked: Vec<AskedGpus>,
    pub(crate) nodes_least: u32,
    /// What each task may come to hold, in all.
    pub(crate) q_most: MilliGpus,
    pub(crate) horizon_s: i64,
    /// Eligible and not held.
    pub(crate) competes: bool,
    pub(crate) reason: String,
    pub(crate) earmark: Amount,
    pub(crate) funded: bool,
    pub(crate) effective: Price,
    pub(crate) key: RankKey,
    pub(crate) factor: u32,
}

impl Waiting {
    pub(crate) fn q_per_task(&self) -> i64 {
        self.asked.iter().map(|asked| asked.q.milli()).fold(0, i64::saturating_add)
    }

    /// Funded, eligible, not held, and of a tier that pays.
    pub(crate) fn is_in_line(&self) -> bool {
        self.tier.is_paid() && self.funded && self.competes
    }

    /// In line, and not kept back by its own `%n`.
    pub(crate) fn is_demand(&self) -> bool {
        self.is_in_line() && self.tasks_at_once > 0
    }

    /// The pool in whose line it stands.
    pub(crate) fn home(&self) -> Option<&str> {
        self.asked.first()?.home.as_deref()
    }

    pub(crate) fn stands_in(&self, pool: &str) -> bool {
        self.asked.iter().any(|asked| asked.home.as_deref() == Some(pool))
    }

    /// Rank and factor that a limit would give it, all else equal.
    pub(crate) fn factor_at(&self, limit: Price, age_s: i64, terms: &Terms) -> (Price, u32) {
        let effective = effective_bid_floor(limit, self.tier);
        let homes = self.asked.iter().filter_map(|asked| asked.home.as_deref());
        homes
            .map(|pool| {
                let rank = rank(effective, age_bonus(terms.rho0(pool), age_s));
                (rank, priority_factor(rank, terms.rho0(pool), &terms.scale))
            })
            .min_by_key(|(_, factor)| *factor)
            .unwrap_or((effective, 0))
    }
}

/// All pending orders, in the order in which they are to be served.
pub(crate) fn all(book: &Book, facts: &Facts, terms: &Terms, policy: ArrayEarmark) -> Vec<Waiting> {
    let mut by_order: BTreeMap<OrderRow, Waiting> = BTreeMap::new();
    for job in &facts.waiting {
        let Some(order) =
            book.order_by_uuid.get(&job.identity.stamp.uuid).and_then(|row| book.orders.get(row))
        else {
            continue;
        };
        let record = (job.identity.job_id, job.identity.submitted_s);
        by_order
            .entry(order.row)
            .and_modify(|waiting| {
                // A task that was split from its array and waits again.
                waiting.records.push(record);
                waiting.tasks = waiting.tasks.saturating_add(job.tasks);
                waiting.at_once = waiting.at_once.or(job.at_once);
                waiting.competes |= competes(job, facts.as_of_s);
            })
            .or_insert_with(|| one(order, job, facts, terms));
    }
    let running = running_tasks(book);
    let mut all: Vec<Waiting> = by_order.into_values().collect();
    for waiting in &mut all {
        let running = running.get(&waiting.order).copied().unwrap_or(0);
        waiting.tasks_at_once = match waiting.at_once {
            Some(at_once) => waiting.tasks.min(u64::from(at_once).saturating_sub(running)),
            None => waiting.tasks,
        };
        waiting.earmark = earmark(waiting, covered(waiting, policy));
    }
    fund(book, &mut all);
    let age_of = |waiting: &Waiting| book.orders.get(&waiting.order).map_or(0, |order| order.age_s);
    for waiting in &mut all {
        if !waiting.tier.is_paid() || !waiting.funded {
            waiting.factor = 0;
        } else {
            waiting.factor = waiting.factor_at(waiting.limit, age_of(waiting), terms).1;
        }
    }
    level_components(&mut all);
    all
}

/// The components of a heterogeneous job start together, so they carry one factor, the least.
fn level_components(all: &mut [Waiting]) {
    let mut least: BTreeMap<u32, u32> = BTreeMap::new();
    for waiting in all.iter() {
        if let Some(leader) = waiting.het_leader {
            let of_job = least.entry(leader).or_insert(waiting.factor);
            *of_job = waiting.factor.min(*of_job);
        }
    }
    for waiting in all.iter_mut() {
        let of_job = waiting.het_leader.and_then(|leader| least.get(&leader));
        waiting.factor = of_job.copied().unwrap_or(waiting.factor);
    }
}

/// The tasks that funds must cover.
pub(crate) fn covered(waiting: &Waiting, policy: ArrayEarmark) -> u64 {
    match policy {
        ArrayEarmark::All => waiting.tasks,
        ArrayEarmark::AtOnce => waiting.tasks_at_once,
    }
}

/// A job as it would stand there with an order that is not in the book.
pub(crate) fn candidate(
    order: &Order,
    job: &WaitingJob,
    facts: &Facts,
    terms: &Terms,
    policy: ArrayEarmark,
) -> Waiting {
    let mut waiting = one(order, job, facts, terms);
    waiting.tasks_at_once = job.at_once.map_or(job.tasks, |at_once| job.tasks.min(at_once.into()));
    waiting.earmark = earmark(&waiting, covered(&waiting, policy));
    waiting
}

fn running_tasks(book: &Book) -> BTreeMap<OrderRow, u64> {
    let mut running = BTreeMap::new();
    for segment in book.segments.values().filter(|segment| segment.settled.is_none()) {
        *running.entry(segment.order).or_default() += 1;
    }
    running
}

fn competes(job: &WaitingJob, now_s: i64) -> bool {
    !job.held && (1..=now_s).contains(&job.identity.eligible_s)
}

fn one(order: &Order, job: &WaitingJob, facts: &Facts, terms: &Terms) -> Waiting {
    let run_limit_s = terms::run_limit_s(&facts.cluster, &job.identity.partition, job.identity.time_limit_s);
    let mut waiting = Waiting {
        order: order.row,
        id: order.id(),
        tier: order.tier,
        limit: order.limit,
        account: job.identity.account.clone(),
        partition: job.identity.partition.clone(),
        records: vec![(job.identity.job_id, job.identity.submitted_s)],
        display_id: job.display_id.clone(),
        het_leader: job.identity.het_leader,
        is_array: job.display_id.contains('_'),
        tasks: job.tasks,
        at_once: job.at_once,
        tasks_at_once: job.tasks,
        asked: asked(terms, job),
        nodes_least: job.nodes_least,
        q_most: MilliGpus::from_gpus(u32::try_from(job.gpus_most).unwrap_or(u32::MAX)),
        horizon_s: terms::horizon_s(run_limit_s),
        competes: competes(job, facts.as_of_s),
        reason: job.reason.clone(),
        earmark: Amount::ZERO,
        funded: true,
        effective: effective_bid_floor(order.limit, order.tier),
        key: RankKey {
            rank: Price::ZERO,
            eligible_s: order.eligible_s.unwrap_or(i64::MAX),
            order: order.id(),
        },
        factor: 0,
    };
    if order.tier.is_paid() {
        waiting.key.rank = waiting.factor_at(order.limit, order.age_s, terms).0;
    }
    waiting
}

fn asked(terms: &Terms, job: &WaitingJob) -> Vec<AskedGpus> {
    let reachable = || terms.pools_of(&job.identity.partition);
    job.asked
        .iter()
        .filter_map(|(model, count)| {
            let gpus = u32::try_from(*count).unwrap_or(u32::MAX);
            let pools = match model {
                Some(model) => vec![model.clone()],
                None => reachable(),
            };
            let home = terms.home_of(&pools).map(str::to_owned);
            (gpus > 0).then(|| AskedGpus { pools, home, q: MilliGpus::from_gpus(gpus) })
        })
        .collect()
}

/// ⌈limit·q·h⌉ for so many tasks, at the most GPUs that each may come to hold; the dearest amount there is where that is beyond what an amount can hold.
pub(crate) fn earmark(waiting: &Waiting, tasks: u64) -> Amount {
    if !waiting.tier.is_paid() || tasks == 0 {
        return Amount::ZERO;
    }
    let too_dear = Amount::from_micros(i64::MAX);
    let of_task = earmark_ceil(waiting.limit, waiting.q_most, waiting.horizon_s).unwrap_or(too_dear);
    i64::try_from(tasks)
        .ok()
        .and_then(|tasks| of_task.micros().checked_mul(tasks))
        .map_or(too_dear, Amount::from_micros)
}

/// Sorts by rank and gives each account's money to its orders in that order, while it lasts. A heterogeneous job is
/// funded as a whole, when its best component's turn comes, or not at all.
fn fund(book: &Book, all: &mut [Waiting]) {
    all.sort_by_key(|waiting| (!waiting.tier.is_paid(), waiting.key));
    let mut components: BTreeMap<u32, Vec<&Waiting>> = BTreeMap::new();
    for waiting in all.iter() {
        if let Some(leader) = waiting.het_leader {
            components.entry(leader).or_default().push(waiting);
        }
    }
    let mut left = available(book);
    let mut decided: BTreeMap<u32, bool> = BTreeMap::new();
    let funded: Vec<bool> = all
        .iter()
        .map(|waiting| match waiting.het_leader {
            None => take(&mut left, &[waiting]),
            Some(leader) => {
                let of_job = components.get(&leader).map_or(&[][..], Vec::as_slice);
                *decided.entry(leader).or_insert_with(|| take(&mut left, of_job))
            }
        })
        .collect();
    for (waiting, funded) in all.iter_mut().zip(funded) {
        waiting.funded = funded;
    }
}

/// Takes the earmarks of all of them out of what is left, or of none.
fn take(left: &mut BTreeMap<&str, Amount>, orders: &[&Waiting]) -> bool {
    let mut rest: BTreeMap<&str, Amount> = BTreeMap::new();
    for order in orders {
        let account = order.account.as_str();
        let money = rest.get(account).or_else(|| left.get(account)).copied().unwrap_or(Amount::ZERO);
        let Some(after) = money.checked_sub(order.earmark).filter(|after| *after >= Amount::ZERO) else {
            return false;
        };
        rest.insert(account, after);
    }
    for (account, money) in rest {
        if let Some(left) = left.get_mut(account) {
            *left = money;
        }
    }
    true
}

/// What each account holds, open escrows taken out.
fn available(book: &Book) -> BTreeMap<&str, Amount> {
    let accounts = book.balances.iter().filter_map(|(account, balance)| match account {
        LedgerAccount::Account(name) => Some((name.as_str(), balance)),
        _ => None,
    });
    accounts.collect()
}

/// Money and promises of one account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Funds {
    available_usu: i64,
    /// All earmarks, funded or not.
    earmarked_usu: i128,
}

impl Funds {
    /// At most what an amount can hold.
    pub(crate) fn earmarked(self) -> Amount {
        Amount::from_micros(i64::try_from(self.earmarked_usu).unwrap_or(i64::MAX))
    }

    /// What the account can still promise: its money less every earmark, funded or not. Below zero while the earmarks
    /// exceed the money.
    pub(crate) fn free(self) -> Amount {
        let free = i128::from(self.available_usu) - self.earmarked_usu;
        Amount::from_micros(i64::try_from(free).unwrap_or(i64::MIN))
    }
}

/// Funds of every account that holds money or has orders.
pub(crate) fn funds<'a>(book: &'a Book, all: &'a [Waiting]) -> BTreeMap<&'a str, Funds> {
    let with_money = |(account, available): (&'a str, Amount)| {
        (account, Funds { available_usu: available.micros(), earmarked_usu: 0 })
    };
    let mut funds: BTreeMap<&str, Funds> = available(book).into_iter().map(with_money).collect();
    for waiting in all {
        funds.entry(waiting.account.as_str()).or_default().earmarked_usu +=
            i128::from(waiting.earmark.micros());
    }
    funds
}

/// What one account can still promise.
pub(crate) fn free_of(book: &Book, all: &[Waiting], account: &str) -> Amount {
    funds(book, all).get(account).copied().unwrap_or_default().free()
}
