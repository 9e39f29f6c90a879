//! Commands that change something: deposits and changed bids. Each is answered once; the same key again gets the
//! first answer.

use std::collections::BTreeMap;

use market::amount::{Amount, Price};
use market::ledger::{LedgerAccount, LedgerError, Transfer, TransferKind};
use market::order::{Tier, least_limit_ceil};
use market::stamp::Stamp;
use market_api::v1;
use prost::Message;

use super::line::{line_of, place_in};
use super::waiting::{self, earmark, free_of};
use super::{Engine, publish};
use crate::facts::JobIdentity;
use crate::model::Order;
use crate::query::{Caller, QueryError};
use crate::store::TransferContext;

const MEMO_CHARS_MOST: usize = 200;
const KEY_CHARS_MOST: usize = 100;
const BID_CHANGES_APART_S: i64 = 300;

/// At most what an amount can hold.
fn plus(a: Amount, b: Amount) -> Amount {
    a.checked_add(b).unwrap_or(Amount::from_micros(i64::MAX))
}

/// A changed bid, as it is kept with its answer.
pub(super) fn summary_of(request: &v1::ChangeBidRequest) -> String {
    format!("bid {} {}", request.job_id, request.limit_usu)
}

pub(super) fn limit_of(request: &v1::ChangeBidRequest) -> Result<Price, QueryError> {
    let limit = Price::from_micros(request.limit_usu).filter(|limit| *limit <= Price::PARSE_MAX);
    limit.ok_or_else(|| QueryError::Invalid("that is no bid; write e.g. sbid bid 12 3.5".into()))
}

/// A waiting order as it is to be, with the earmark that it needs then.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) waiting: waiting::Waiting,
    /// What is earmarked for it already.
    pub(super) promised: Amount,
}

impl Engine {
    /// Money from the mint into an account. For operators.
    pub(super) fn deposit(
        &mut self,
        caller: Caller,
        request: &v1::DepositRequest,
    ) -> Result<v1::DepositReply, QueryError> {
        if !self.is_operator(caller) {
            return Err(QueryError::NotAllowed(
                "only root, SlurmUser and Slurm operators may deposit; ask one of them".into(),
            ));
        }
        let account = request.account.to_lowercase();
        let summary = format!("deposit {account} {} {:?}", request.amount_usu, request.memo);
        if let Some(first) = self.first_answer(caller, &request.idempotency_key, &summary)? {
            return first;
        }
        let known = publish::account_names(&self.facts()?.cluster, &self.book);
        if !known.contains(&account) {
            let hint = format!("there is no account {account}; sacctmgr show account lists them");
            return Err(QueryError::NotFound(hint));
        }
        if request.memo.chars().count() > MEMO_CHARS_MOST {
            return Err(QueryError::Invalid(format!(
                "the comment is longer than {MEMO_CHARS_MOST} characters; shorten it"
            )));
        }
        let to = LedgerAccount::Account(account);
        let amount = Amount::from_micros(request.amount_usu);
        let transfer = Transfer::movement(TransferKind::Deposit, LedgerAccount::Mint, to.clone(), amount);
        let transfer =
            transfer.map_err(|_| QueryError::Invalid("a deposit must be above zero, e.g. 100".into()))?;
        let mut balances = self.book.balances.clone();
        balances.apply(&transfer).map_err(|error| match error {
            LedgerError::Overflow => {
                QueryError::Invalid("the account cannot hold that much; deposit less".into())
            }
            other => QueryError::Refused(other.to_string()),
        })?;

        let tx = self.store.begin()?;
        let now_s = (self.clock)();
        let context =
            TransferContext { at_s: now_s, segment: None, actor_uid: Some(caller.uid), memo: &request.memo };
        let transfer_id = tx.insert_transfer(&transfer, context)?;
        let reply = v1::DepositReply { transfer_id, available_usu: balances.of(&to).micros() };
        tx.insert_answer(&request.idempotency_key, caller.uid, now_s, &summary, &reply.encode_to_vec())?;
        tx.commit()?;
        self.book.balances = balances;
        // Earmarks, factors and publication follow, now or later: the money is there.
        self.pass();
        Ok(reply)
    }

    /// A new limit for a pending order. For its user and for operators.
    pub(super) fn change_bid(
        &mut self,
        caller: Caller,
        request: &v1::ChangeBidRequest,
    ) -> Result<v1::ChangeBidReply, QueryError> {
        let summary = summary_of(request);
        if let Some(first) = self.first_answer(caller, &request.idempotency_key, &summary)? {
            return first;
        }
        self.check_in_service()?;
        let limit = limit_of(request)?;
        let order = self.changeable_order(caller, request.job_id)?;
        if !request.tier.is_empty() && request.tier != order.tier.name() {
            return Err(QueryError::Refused(format!(
                "job {} is of tier {} and stays so; leave tier= out, or submit it again",
                request.job_id, order.tier
            )));
        }
        self.check_limit(&order, limit)?;
        self.check_pace(caller, &order, request.job_id)?;

        let now_s = (self.clock)();
        let old_limit = order.limit;
        let components = self.components_of(&order);
        let mut book = self.book.clone();
        for component in &components {
            book.orders.insert(component.row, Order { limit, ..component.clone() });
        }
        let waiting = waiting::all(&book, self.facts()?, &self.terms, self.config.array_earmark);
        let place = place_in(&line_of(&waiting, order.row), order.row);
        let reply = v1::ChangeBidReply {
            old_limit_usu: old_limit.micros(),
            limit_usu: limit.micros(),
            rank: place.rank,
            of: place.of,
            entered: false,
        };

        let tx = self.store.begin()?;
        for component in &components {
            tx.insert_bid_change(component.row, now_s, component.limit)?;
            tx.update_order(&Order { limit, ..component.clone() })?;
        }
        tx.insert_answer(&request.idempotency_key, caller.uid, now_s, &summary, &reply.encode_to_vec())?;
        tx.commit()?;
        (self.book, self.waiting) = (book, waiting);
        self.publish();
        self.restamp_waiting();
        Ok(reply)
    }

    /// The reply to a command that came before. The same key for something else is an error.
    pub(super) fn first_answer<R: Message + Default>(
        &mut self,
        caller: Caller,
        key: &str,
        summary: &str,
    ) -> Result<Option<Result<R, QueryError>>, QueryError> {
        if key.is_empty() || key.chars().count() > KEY_CHARS_MOST {
            return Err(QueryError::Invalid(
                "the request carries no idempotency key; use this version's sbid".into(),
            ));
        }
        let tx = self.store.begin()?;
        let Some((uid, first_summary, reply)) = tx.answered(key)? else {
            return Ok(None);
        };
        if uid != caller.uid || first_summary != summary {
            return Err(QueryError::Invalid(
                "this idempotency key was used for another command; take a new one".into(),
            ));
        }
        let reply = R::decode(reply.as_slice());
        Ok(Some(reply.map_err(|_| QueryError::Refused("the stored answer cannot be read".into()))))
    }

    /// Whether a command with this key was carried out before.
    pub(super) fn was_answered(&mut self, key: &str) -> Result<bool, QueryError> {
        Ok(self.store.begin()?.answered(key)?.is_some())
    }

    fn changeable_order(&self, caller: Caller, job_id: u32) -> Result<Order, QueryError> {
        let waiting = self.waiting.iter().find(|waiting| waiting.records.iter().any(|(id, _)| *id == job_id));
        let by_array = || self.waiting.iter().find(|waiting| waiting.id.job_id == job_id);
        // A first component without GPUs is no order itself.
        let by_leader = || self.waiting.iter().find(|waiting| waiting.het_leader == Some(job_id));
        let order = waiting
            .or_else(by_array)
            .or_else(by_leader)
            .and_then(|waiting| self.book.orders.get(&waiting.order));
        let Some(order) = order else {
            let runs = self.book.segments.values().any(|s| s.job_id == job_id && s.settled.is_none());
            return Err(if runs {
                QueryError::Refused(format!("job {job_id} runs; its bid is fixed from its start on"))
            } else {
                QueryError::NotFound(format!(
                    "no pending job {job_id} asks for GPUs; a job gets a bid at submission: sbatch --comment=bid:PRICE"
                ))
            });
        };
        if order.uid != caller.uid && !self.is_operator(caller) {
            return Err(QueryError::NotAllowed(format!(
                "job {job_id} belongs to {}; only they or an operator may change its bid",
                order.user
            )));
        }
        if order.tier == Tier::Free {
            return Err(QueryError::Refused(format!(
                "job {job_id} is in the free tier; cancel it and submit it with --comment=bid:PRICE"
            )));
        }
        Ok(order.clone())
    }

    /// The waiting orders that share the bid of this one: the components of its heterogeneous job, else itself.
    fn components_of(&self, order: &Order) -> Vec<Order> {
        let leader =
            self.waiting.iter().find(|waiting| waiting.order == order.row).and_then(|of| of.het_leader);
        let Some(leader) = leader else { return vec![order.clone()] };
        let of_job = self.waiting.iter().filter(|waiting| waiting.het_leader == Some(leader));
        of_job.filter_map(|waiting| self.book.orders.get(&waiting.order)).cloned().collect()
    }

    fn check_limit(&self, order: &Order, limit: Price) -> Result<(), QueryError> {
        let rows: Vec<_> = self.components_of(order).iter().map(|component| component.row).collect();
        let components = self.waiting.iter().filter(|waiting| rows.contains(&waiting.order));
        let changed: Vec<Changed> = components
            .map(|waiting| {
                let changed = waiting::Waiting { limit, ..waiting.clone() };
                let needed = earmark(&changed, waiting::covered(&changed, self.config.array_earmark));
                let changed = waiting::Waiting { earmark: needed, ..changed };
                Changed { waiting: changed, promised: waiting.earmark }
            })
            .collect();
        if changed.is_empty() { Err(self.why_not_ready()) } else { self.check_terms(&changed) }
    }

    /// Whether the limit reaches the least price of every pool they may start in, and the accounts can pay for them.
    pub(super) fn check_terms(&self, changed: &[Changed]) -> Result<(), QueryError> {
        for Changed { waiting, .. } in changed {
            let waiting::Waiting { limit, tier, .. } = waiting;
            let pools = waiting.asked.iter().flat_map(|asked| &asked.pools);
            let least = pools.map(|pool| (least_limit_ceil(self.terms.reserve(pool), *tier), pool)).max();
            if let Some((least, pool)) = least.filter(|(least, _)| limit < least) {
                return Err(QueryError::Invalid(format!(
                    "limit {limit} is under the least price {least} SU/GPU-hour of tier {tier} in pool {pool}; bid at least {least}"
                )));
            }
        }
        let mut by_account: BTreeMap<&str, (Amount, Amount)> = BTreeMap::new();
        for Changed { waiting, promised } in changed {
            let (needed, of_account) = by_account.entry(waiting.account.as_str()).or_default();
            *needed = plus(*needed, waiting.earmark);
            *of_account = plus(*of_account, *promised);
        }
        for (account, (needed, promised)) in by_account {
            let free = free_of(&self.book, &self.waiting, account).checked_add(promised);
            let free = free.and_then(|free| free.checked_sub(self.held_by_entries(account)));
            if free.is_some_and(|free| needed > free && needed > promised) {
                return Err(QueryError::Refused(format!(
                    "needs {needed} SU but account {account} has {} SU free; bid less or ask for a deposit",
                    free.unwrap_or(Amount::ZERO)
                )));
            }
        }
        Ok(())
    }

    /// A user changes a bid once in five minutes: more often is no news but a probe of the others' bids. (design "Edits")
    fn check_pace(&mut self, caller: Caller, order: &Order, job_id: u32) -> Result<(), QueryError> {
        if self.is_operator(caller) {
            return Ok(());
        }
        let since_s = self.store.begin()?.bid_changed_s(order.row)?.map(|at_s| (self.clock)() - at_s);
        match since_s {
            // A clock that was set back holds nobody up.
            Some(since_s) if (0..BID_CHANGES_APART_S).contains(&since_s) => {
                Err(QueryError::Refused(format!(
                    "the bid of job {job_id} was changed {since_s} s ago, and can be changed once in {} min; try again in {} s",
                    BID_CHANGES_APART_S / 60,
                    BID_CHANGES_APART_S - since_s
                )))
            }
            _ => Ok(()),
        }
    }

    /// Lets the bid of record in Slurm follow the ledger's, whose word already counts: this is for those who look there.
    /// Asked for once for each stamp; after a restart again.
    pub(super) fn restamp_waiting(&mut self) {
        let Some(facts) = &self.facts else { return };
        self.restamped.retain(|job_id, _| facts.waiting.iter().any(|job| job.identity.job_id == *job_id));
        for job in &facts.waiting {
            let JobIdentity { job_id, stamp, .. } = &job.identity;
            let order = self.book.order_by_uuid.get(&stamp.uuid).and_then(|row| self.book.orders.get(row));
            let Some(order) = order else { continue };
            let wanted = Stamp { limit: order.limit, tier: order.tier, ..stamp.clone() };
            if wanted != *stamp && self.restamped.get(job_id) != Some(&wanted) {
                self.restamped.insert(*job_id, wanted.clone());
                self.controller.restamp(*job_id, wanted);
            }
        }
    }
}
