//! What `sbid` shows: prices, balances, jobs and the ledger, each to those who may see it.

use std::collections::{BTreeMap, BTreeSet};

use market::amount::{Amount, Price};
use market::ledger::LedgerAccount;
use market::order::{Tier, least_limit_ceil};
use market_api::v1;

use super::line::{Place, places};
use super::waiting::{Waiting, funds};
use super::{Engine, publish};
use crate::doctor::EngineFacts;
use crate::facts::Facts;
use crate::model::{Order, Segment};
use crate::query::{Caller, Query, QueryError, Reply};
use crate::store;

/// Settled jobs are listed this long when no job is named.
const SETTLED_SHOWN_S: i64 = 86_400;
const LEDGER_ENTRIES: u32 = 1000;
const LEDGER_ENTRIES_MOST: u32 = 100_000;
/// Job ids of one question: the ledger's thread answers them one by one.
const JOBS_NAMED_MOST: usize = 1000;

impl Engine {
    pub(super) fn answer(&mut self, query: Query) -> Result<Reply, QueryError> {
        let reply = self.reply_to(query);
        match &reply {
            Err(QueryError::Store(error)) if !error.is_about_a_row() => self.note_trouble(error),
            _ => {}
        }
        reply
    }

    fn reply_to(&mut self, query: Query) -> Result<Reply, QueryError> {
        let reply = match query {
            Query::Prices => Reply::Prices(self.prices()?),
            Query::Balances(caller, request) => Reply::Balances(self.balances(caller, &request)?),
            Query::Jobs(caller, request) => Reply::Jobs(self.jobs(caller, &request)?),
            Query::Explain(caller, request) => {
                Reply::Explain(Box::new(self.explain(caller, request.job_id)?))
            }
            Query::Ledger(caller, request) => Reply::Ledger(self.ledger(caller, &request)?),
            Query::Deposit(caller, request) => Reply::Deposit(self.deposit(caller, &request)?),
            Query::ChangeBid(caller, request) => match self.enter(caller, &request)? {
                Some(uuid) => Reply::Entering(uuid),
                None => Reply::ChangeBid(self.change_bid(caller, &request)?),
            },
            Query::Evict(caller, request) => Reply::Evict(self.evict(caller, &request)?),
            Query::Drain(caller, request) => Reply::Drain(self.drain(caller, request.action())?),
            Query::Doctor(caller) => Reply::Doctor(Box::new(self.for_doctor(caller)?)),
        };
        Ok(reply)
    }

    fn for_doctor(&self, caller: Caller) -> Result<EngineFacts, QueryError> {
        if !self.is_operator(caller) {
            return Err(QueryError::NotAllowed(
                "only root, SlurmUser and Slurm operators may ask the doctor; ask one of them".into(),
            ));
        }
        Ok(EngineFacts {
            now_s: (self.clock)(),
            read: self.facts.as_ref().map(|facts| (facts.as_of_s, facts.cluster.clone())),
            accounting_queue_is_empty: self
                .facts
                .as_ref()
                .is_none_or(|facts| facts.accounting_queue_is_empty),
            sum_usu: store::ledger::sum_micros(self.store.reader())?,
            in_doubt: self.book_in_doubt,
            drains_since_s: self.drains_since_s,
        })
    }

    pub(super) fn facts(&self) -> Result<&Facts, QueryError> {
        self.facts.as_ref().ok_or_else(|| self.why_not_ready())
    }

    pub(super) fn why_not_ready(&self) -> QueryError {
        self.stands_by.clone().map_or(QueryError::NotReady, QueryError::StandsBy)
    }

    /// root, SlurmUser (as whom the daemon runs) and slurmdbd's Operators.
    pub(super) fn is_operator(&self, caller: Caller) -> bool {
        // SAFETY: geteuid takes nothing and cannot fail.
        let own_uid = unsafe { libc::geteuid() };
        let in_slurm = || self.facts.as_ref().and_then(|facts| facts.cluster.users.get(&caller.uid));
        caller.uid == 0 || caller.uid == own_uid || in_slurm().is_some_and(|user| user.is_operator)
    }

    /// Accounts that the caller belongs to or coordinates.
    fn accounts_of(&self, caller: Caller) -> BTreeSet<String> {
        let Some(facts) = &self.facts else { return BTreeSet::new() };
        let member =
            facts.cluster.associations.iter().filter(|association| association.uid == Some(caller.uid));
        let coordinated = facts.cluster.users.get(&caller.uid).map(|user| user.coordinates.clone());
        member
            .map(|association| association.account.clone())
            .chain(coordinated.into_iter().flatten())
            .collect()
    }

    /// The accounts asked for, or all that the caller may see; `None`: no restriction.
    fn visible_accounts(
        &self,
        caller: Caller,
        asked: &[String],
    ) -> Result<Option<BTreeSet<String>>, QueryError> {
        let asked: BTreeSet<String> = asked.iter().map(|name| name.to_lowercase()).collect();
        let known = publish::account_names(&self.facts()?.cluster, &self.book);
        if let Some(unknown) = asked.difference(&known).next() {
            return Err(QueryError::NotFound(format!(
                "there is no account {unknown}; sacctmgr show account lists them"
            )));
        }
        if self.is_operator(caller) {
            return Ok((!asked.is_empty()).then_some(asked));
        }
        let own = self.accounts_of(caller);
        if let Some(foreign) = asked.difference(&own).next() {
            return Err(QueryError::NotAllowed(format!(
                "you do not belong to account {foreign}; leave out --accounts to see your own"
            )));
        }
        Ok(Some(if asked.is_empty() { own } else { asked }))
    }

    fn prices(&self) -> Result<v1::PricesReply, QueryError> {
        let facts = self.facts()?;
        let pools = facts.cluster.pools.iter().map(|(name, pool)| {
            let waiting_milli: i64 = self
                .waiting
                .iter()
                .filter(|waiting| waiting.is_in_line())
                .flat_map(|waiting| waiting.asked.iter().map(move |asked| (waiting, asked)))
                .filter(|(_, asked)| asked.home.as_ref() == Some(name))
                .map(|(waiting, asked)| {
                    asked.q.milli().saturating_mul(i64::try_from(waiting.tasks).unwrap_or(i64::MAX))
                })
                .fold(0, i64::saturating_add);
            let state = self.book.pools.get(name);
            let standard = |price: Price| least_limit_ceil(price, Tier::Standard).micros();
            v1::PoolPrice {
                pool: name.clone(),
                gpus: pool.installed(),
                gpus_in_supply: pool.in_supply(),
                gpus_idle: pool.idle(),
                gpus_waiting: u32::try_from(waiting_milli / 1000).unwrap_or(u32::MAX),
                reserve_usu: standard(self.terms.reserve(name)),
                charge_usu: state.map_or(0, |state| standard(state.index.price())),
                start_usu: state.map_or(0, |state| standard(state.start_price)),
                why: state.map_or_else(String::new, |state| state.why.clone()),
            }
        });
        Ok(v1::PricesReply { as_of_s: self.book.round_at_s.unwrap_or(0), pools: pools.collect() })
    }

    fn balances(
        &self,
        caller: Caller,
        request: &v1::BalancesRequest,
    ) -> Result<v1::BalancesReply, QueryError> {
        let facts = self.facts()?;
        let all = || publish::account_names(&facts.cluster, &self.book);
        let names = self.visible_accounts(caller, &request.accounts)?.unwrap_or_else(all);
        let funds = funds(&self.book, &self.waiting);
        let accounts = names.into_iter().map(|account| {
            let funds = funds.get(account.as_str()).copied().unwrap_or_default();
            let available = self.book.balances.of(&LedgerAccount::Account(account.clone()));
            let escrow = self.book.balances.of(&LedgerAccount::Escrow(account.clone()));
            Ok(v1::AccountBalance {
                available_usu: available.micros(),
                escrow_usu: escrow.micros(),
                earmarked_usu: funds.earmarked().micros(),
                free_usu: funds.free().micros(),
                charged_usu: store::ledger::charged(self.store.reader(), &account)?.micros(),
                account,
            })
        });
        Ok(v1::BalancesReply {
            as_of_s: facts.as_of_s,
            accounts: accounts.collect::<Result<_, QueryError>>()?,
        })
    }

    fn ledger(&self, caller: Caller, request: &v1::LedgerRequest) -> Result<v1::LedgerReply, QueryError> {
        let accounts = self.visible_accounts(caller, &request.accounts)?;
        let accounts: Option<Vec<String>> = accounts.map(|names| names.into_iter().collect());
        let limit = if request.limit == 0 { LEDGER_ENTRIES } else { request.limit.min(LEDGER_ENTRIES_MOST) };
        let mut rows = store::ledger::entries(self.store.reader(), accounts.as_deref(), limit + 1)?;
        let truncated = rows.len() > limit as usize;
        if truncated {
            rows.remove(0);
        }
        let entries = rows.into_iter().map(|row| v1::LedgerEntry {
            transfer_id: row.transfer,
            at_s: row.at_s,
            kind: row.kind,
            ledger_account: row.account.to_string(),
            amount_usu: row.amount.micros(),
            job_id: row.job_id,
            memo: row.memo,
        });
        Ok(v1::LedgerReply {
            as_of_s: (self.clock)(),
            entries: entries.collect(),
            sum_usu: store::ledger::sum_micros(self.store.reader())?,
            truncated,
        })
    }

    fn jobs(&self, caller: Caller, request: &v1::JobsRequest) -> Result<v1::JobsReply, QueryError> {
        let facts = self.facts()?;
        let accounts = self.visible_accounts(caller, &request.accounts)?;
        if request.job_ids.len() > JOBS_NAMED_MOST {
            return Err(QueryError::Invalid(format!(
                "more than {JOBS_NAMED_MOST} jobs are named; ask for fewer, or for all of an account"
            )));
        }
        let places = places(&self.waiting);
        let mut jobs = Vec::new();
        for waiting in &self.waiting {
            if let Some(order) = self.book.orders.get(&waiting.order) {
                let place = places.get(&order.row).copied().unwrap_or_default();
                jobs.push((order.clone(), waiting_job(order, waiting, place)));
            }
        }
        for segment in self.shown_segments(&request.job_ids, facts.as_of_s)? {
            if let Some(order) = self.order_row(segment.order)? {
                let job = segment_job(&order, &segment);
                jobs.push((order, job));
            }
        }
        let wanted = |(order, job): &(Order, v1::MarketJob)| {
            let named = request.job_ids.is_empty()
                || request.job_ids.contains(&job.job_id)
                || request.job_ids.contains(&order.job_id);
            let visible =
                order.uid == caller.uid || accounts.as_ref().is_none_or(|names| names.contains(&job.account));
            named && visible && (!request.only_mine || order.uid == caller.uid)
        };
        let jobs = jobs.into_iter().filter(wanted).map(|(_, job)| job);
        Ok(v1::JobsReply { as_of_s: facts.as_of_s, jobs: jobs.collect() })
    }

    pub(super) fn order_row(&self, row: i64) -> Result<Option<Order>, QueryError> {
        match self.book.orders.get(&row) {
            Some(order) => Ok(Some(order.clone())),
            None => Ok(store::orders::by_row(self.store.reader(), row)?),
        }
    }

    /// Running segments and recently settled ones, or all those of the named jobs.
    fn shown_segments(&self, job_ids: &[u32], now_s: i64) -> Result<Vec<Segment>, QueryError> {
        let mut shown: BTreeMap<i64, Segment> = BTreeMap::new();
        let running = self.book.segments.values().filter(|segment| segment.settled.is_none());
        shown.extend(running.map(|segment| (segment.row, segment.clone())));
        if job_ids.is_empty() {
            let settled = store::segments::settled_since(self.store.reader(), now_s - SETTLED_SHOWN_S)?;
            shown.extend(settled.into_iter().map(|segment| (segment.row, segment)));
        }
        for job_id in job_ids {
            let segments = store::segments::of_job(self.store.reader(), *job_id)?;
            shown.extend(segments.into_iter().map(|segment| (segment.row, segment)));
        }
        Ok(shown.into_values().collect())
    }
}

pub(super) fn waiting_job(order: &Order, waiting: &Waiting, place: Place) -> v1::MarketJob {
    let pools: Vec<String> = waiting.asked.iter().map(|asked| asked.pools.join("|")).collect();
    v1::MarketJob {
        job_id: waiting.records.first().map_or(order.job_id, |(job_id, _)| *job_id),
        job_name: waiting.display_id.clone(),
        user: order.user.clone(),
        account: waiting.account.clone(),
        tier: waiting.tier.to_string(),
        state: "PENDING".into(),
        limit_usu: waiting.limit.micros(),
        gpus: u32::try_from(waiting.q_per_task() / 1000).unwrap_or(u32::MAX),
        pools: pools.join("+"),
        earmark_usu: waiting.earmark.micros(),
        rank: place.rank,
        funded: waiting.funded,
        ..v1::MarketJob::default()
    }
}

pub(super) fn segment_job(order: &Order, segment: &Segment) -> v1::MarketJob {
    let dearest =
        segment.held.values().filter_map(|held| held.prices.last()).map(|interval| interval.price).max();
    let pools: Vec<&str> = segment.held.keys().map(String::as_str).collect();
    let state = match (&segment.settled, &segment.receipt_outstanding) {
        (None, _) => "RUNNING",
        (Some(_), Some(_)) => "ENDED",
        (Some(_), None) => "SETTLED",
    };
    let charged = segment.settled.map_or(Amount::ZERO, |settled| settled.charge);
    let loss = segment.settled.map_or(Amount::ZERO, |settled| settled.loss);
    v1::MarketJob {
        job_id: segment.job_id,
        job_name: segment.display_id.clone(),
        user: order.user.clone(),
        account: segment.account.clone(),
        tier: segment.tier.to_string(),
        state: state.into(),
        limit_usu: segment.limit.micros(),
        price_usu: dearest.unwrap_or_default().micros(),
        gpus: u32::try_from(segment.q_milli() / 1000).unwrap_or(u32::MAX),
        pools: pools.join("+"),
        escrow_usu: segment.escrow.micros(),
        charged_usu: charged.checked_sub(loss).unwrap_or(charged).micros(),
        start_s: segment.start_s,
        end_s: segment.settled.map_or(0, |settled| settled.end_s),
        funded: true,
        ..v1::MarketJob::default()
    }
}
