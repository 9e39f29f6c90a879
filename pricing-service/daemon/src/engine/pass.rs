//! One pass over Slurm's facts, one transaction: orders come and go, runs start, are renewed and settled. It can be
//! repeated at will: what the ledger already holds is not booked again.

use std::collections::{BTreeSet, HashMap};

use market::amount::Price;
use market::ledger::{LedgerError, Transfer};
use market::metering::MeterError;

use super::terms::Terms;
use crate::facts::{ClusterFacts, Ending, Facts, JobIdentity, Run, WaitingJob};
use crate::model::{Book, HeldGpus, Order, OrderRow, Segment};
use crate::store::{StoreError, TransferContext, Tx};

/// Starts of this long ago still count as supply, so their segments stay at hand.
pub(crate) const RECENT_S: i64 = 4 * 3600;

/// Names a run: ids are given again, starts are not.
pub(crate) type RunKey = (u32, i64);

/// Why a pass books nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Without this run the pass can be made.
    #[error("job {}: {source}", run.0)]
    Run { run: RunKey, source: BookingError },
}

/// Why one run cannot be booked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BookingError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Meter(#[from] MeterError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl BookingError {
    /// What lies in the run itself concerns no other; a database that cannot be written concerns all.
    pub(crate) fn of_run(self, run: RunKey) -> PassError {
        match self {
            Self::Store(error) if !error.is_about_a_row() => PassError::Store(error),
            source => PassError::Run { run, source },
        }
    }
}

impl Run {
    pub(crate) fn key(&self) -> RunKey {
        (self.identity.job_id, self.start_s)
    }

    /// `None` while it runs, and while its end is not known in full.
    pub(crate) fn ending(&self) -> Option<Ending> {
        let end = self.end?;
        let (job_id, start_s) = self.key();
        Some(Ending { job_id, start_s, end_s: end.end_s, suspended_s: end.suspended_s? })
    }
}

impl Ending {
    pub(crate) fn key(&self) -> RunKey {
        (self.job_id, self.start_s)
    }
}

/// A transaction and the book as it will be when it is committed.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    pub(crate) tx: Tx<'a>,
    pub(crate) book: Book,
    pub(crate) cluster: &'a ClusterFacts,
    pub(crate) terms: &'a Terms,
    /// What waits now, by uuid; of an array with several records any one.
    pub(crate) waiting: HashMap<&'a str, &'a WaitingJob>,
    pub(crate) as_of_s: i64,
    /// Runs that began before the ledger did are left alone.
    pub(crate) began_s: i64,
}

pub(crate) fn waiting_by_uuid(facts: &Facts) -> HashMap<&str, &WaitingJob> {
    facts.waiting.iter().map(|job| (job.identity.stamp.uuid.as_str(), job)).collect()
}

impl<'a> Pass<'a> {
    /// The order of a job, written down at first sight.
    pub(crate) fn order_of(&mut self, job: &JobIdentity) -> Result<Order, StoreError> {
        if let Some(order) =
            self.book.order_by_uuid.get(&job.stamp.uuid).and_then(|row| self.book.orders.get(row))
        {
            return Ok(order.clone());
        }
        let order = match self.tx.order_by_uuid(&job.stamp.uuid)? {
            Some(closed) => {
                let open = Order { closed_s: None, ..closed };
                self.tx.update_order(&open)?;
                open
            }
            None => self.tx.insert_order(new_order(job))?,
        };
        self.book.order_by_uuid.insert(order.uuid.clone(), order.row);
        self.book.orders.insert(order.row, order.clone());
        Ok(order)
    }

    /// Writes down what has changed of an open order.
    pub(crate) fn remember(&mut self, order: Order) -> Result<(), StoreError> {
        self.tx.update_order(&order)?;
        self.book.orders.insert(order.row, order);
        Ok(())
    }

    /// Takes over what Slurm now says of a pending order: who is charged, its tier, and since when it is eligible.
    pub(crate) fn refresh_waiting(&mut self, job: &JobIdentity) -> Result<(), StoreError> {
        let order = self.order_of(job)?;
        let eligible = (1..=self.as_of_s).contains(&job.eligible_s).then_some(job.eligible_s);
        let fresh = Order {
            account: job.account.clone(),
            partition: job.partition.clone(),
            tier: self.terms.tier_in(job.qos.as_deref(), &order),
            eligible_s: order.eligible_s.or(eligible),
            ..order.clone()
        };
        if fresh != order { self.remember(fresh) } else { Ok(()) }
    }

    /// The pending job of an order; `None` if it waits no longer.
    pub(crate) fn waiting_job(&self, order: OrderRow) -> Option<&'a WaitingJob> {
        self.waiting.get(self.book.orders.get(&order)?.uuid.as_str()).copied()
    }

    pub(crate) fn post(&mut self, transfer: &Transfer, segment: &Segment) -> Result<(), BookingError> {
        if transfer.is_empty() {
            return Ok(());
        }
        self.book.balances.apply(transfer)?;
        let held: Vec<String> = segment.held.iter().map(|(pool, held)| describe(pool, held)).collect();
        let memo = format!("job {}: {}", segment.display_id, held.join(" + "));
        let context =
            TransferContext { at_s: self.as_of_s, segment: Some(segment.row), actor_uid: None, memo: &memo };
        self.tx.insert_transfer(transfer, context)?;
        Ok(())
    }

    /// Closes orders of which Slurm shows nothing pending and the ledger nothing unsettled.
    pub(crate) fn close_finished(&mut self) -> Result<(), StoreError> {
        let open = self.book.segments.values().filter(|segment| segment.settled.is_none());
        let busy: BTreeSet<OrderRow> = open.map(|segment| segment.order).collect();
        let is_done =
            |order: &&Order| !busy.contains(&order.row) && !self.waiting.contains_key(order.uuid.as_str());
        let done: Vec<Order> = self.book.orders.values().filter(is_done).cloned().collect();
        for order in done {
            self.tx.update_order(&Order { closed_s: Some(self.as_of_s), ..order.clone() })?;
            self.book.orders.remove(&order.row);
            self.book.order_by_uuid.remove(&order.uuid);
        }
        Ok(())
    }

    /// Forgets settled segments that no rule looks at any more; the store keeps them.
    pub(crate) fn prune(&mut self) {
        let recent_s = self.as_of_s - RECENT_S;
        self.book.segments.retain(|_, segment| {
            segment.settled.is_none() || segment.receipt_outstanding.is_some() || segment.start_s > recent_s
        });
        let Book { segments, segment_by_run, .. } = &mut self.book;
        segment_by_run.retain(|_, row| segments.contains_key(row));
    }
}

pub(super) fn new_order(job: &JobIdentity) -> Order {
    Order {
        row: 0,
        uuid: job.stamp.uuid.clone(),
        job_id: job.array_job_id,
        submitted_s: job.submitted_s,
        uid: job.uid,
        user: job.user.clone(),
        account: job.account.clone(),
        partition: job.partition.clone(),
        tier: job.stamp.tier,
        limit: job.stamp.limit,
        eligible_s: None,
        age_s: 0,
        closed_s: None,
    }
}

fn describe(pool: &str, held: &HeldGpus) -> String {
    let price = held.prices.last().map_or(Price::ZERO, |interval| interval.price);
    format!("{} {pool} at {price}", held.q)
}
