//! One pass over Slurm's facts, one transaction: orders come and go, runs start, are renewed and settled. It can be
//! repeated at will: what the ledger already holds is not booked again.

use market::amount::{Amount, MilliGpus, Price};
use market::index::time_weighted_mean_floor;
use market::ledger::{LedgerAccount, LedgerError, Settlement, Transfer, TransferKind};
use market::metering::{
    Candidate, MeterError, PRICE_WINDOW_S, PriceInterval, Taker, charge_floor, displaced_price, escrow_ceil,
    start_price_paid, window_price,
};
use market::order::{Tier, age_bonus, effective_bid_floor, rank};
use market::stamp::Receipt;

use super::terms::{self, Terms};
use crate::facts::{ClusterFacts, JobIdentity, Run, RunEnd};
use crate::model::{Book, HeldGpus, Order, Segment, SegmentRow, Settled};
use crate::store::{StoreError, TransferContext, Tx};

/// An escrow is renewed when so little of it remains.
const RENEW_BEFORE_S: i64 = 30 * 60;
/// Starts of this long ago still count as supply, so their segments stay at hand.
pub(crate) const RECENT_S: i64 = 4 * 3600;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("job {job_id}: {source}")]
    Meter { job_id: u32, source: MeterError },
    #[error("job {job_id}: {source}")]
    Ledger { job_id: u32, source: LedgerError },
}

/// A transaction and the book as it will be when it is committed.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    pub(crate) tx: Tx<'a>,
    pub(crate) book: Book,
    pub(crate) cluster: &'a ClusterFacts,
    pub(crate) terms: &'a Terms,
    pub(crate) as_of_s: i64,
    /// Runs that began before the ledger did are left alone.
    pub(crate) began_s: i64,
}

impl Pass<'_> {
    /// The order of a job, written down at first sight.
    pub(crate) fn order_of(&mut self, job: &JobIdentity) -> Result<Order, PassError> {
        if let Some(order) =
            self.book.order_by_uuid.get(&job.stamp.uuid).and_then(|row| self.book.orders.get(row))
        {
            return Ok(order.clone());
        }
        let order = match self.tx.order_by_uuid(&job.stamp.uuid)? {
            Some(closed) => Order { closed_s: None, ..closed },
            None => self.tx.insert_order(new_order(job))?,
        };
        self.remember(order.clone())?;
        Ok(order)
    }

    pub(crate) fn remember(&mut self, order: Order) -> Result<(), PassError> {
        self.tx.update_order(&order)?;
        self.book.order_by_uuid.insert(order.uuid.clone(), order.row);
        self.book.orders.insert(order.row, order);
        Ok(())
    }

    /// Takes over what Slurm now says of a pending order: who is charged, and since when it is eligible.
    pub(crate) fn refresh_waiting(&mut self, job: &JobIdentity) -> Result<(), PassError> {
        let order = self.order_of(job)?;
        let eligible = (1..=self.as_of_s).contains(&job.eligible_s).then_some(job.eligible_s);
        let fresh = Order {
            account: job.account.clone(),
            partition: job.partition.clone(),
            eligible_s: order.eligible_s.or(eligible),
            ..order.clone()
        };
        if fresh != order { self.remember(fresh) } else { Ok(()) }
    }

    /// Settles a run that has ended and is known to the ledger.
    pub(crate) fn settle_known(&mut self, run: &Run) -> Result<(), PassError> {
        let Some(row) = self.book.segment_by_run.get(&(run.identity.job_id, run.start_s)).copied() else {
            return Ok(());
        };
        match run.end {
            Some(RunEnd { end_s, suspended_s: Some(suspended_s) }) => self.settle(row, end_s, suspended_s),
            _ => Ok(()),
        }
    }

    /// Places the escrow of a run seen for the first time, and settles it at once if it is over.
    pub(crate) fn start_new(&mut self, run: &Run) -> Result<(), PassError> {
        let job_id = run.identity.job_id;
        let is_known = self.book.segment_by_run.contains_key(&(job_id, run.start_s));
        let is_over_unknown = matches!(run.end, Some(RunEnd { suspended_s: None, .. }));
        if is_known
            || run.start_s < self.began_s
            || run.gpus.is_empty()
            || self.tx.has_segment(job_id, run.start_s)?
        {
            return Ok(());
        }
        let order = self.order_of(&run.identity)?;
        let order = Order {
            account: run.identity.account.clone(),
            eligible_s: order.eligible_s.or(Some(run.identity.eligible_s).filter(|s| *s > 0)),
            ..order
        };
        self.remember(order.clone())?;
        let segment = self.tx.insert_segment(self.new_segment(run, &order))?;
        let row = segment.row;
        self.book.segment_by_run.insert((job_id, run.start_s), row);
        self.book.segments.insert(row, segment);
        self.extend_escrow(row, 0)?;
        if is_over_unknown { Ok(()) } else { self.settle_known(run) }
    }

    fn new_segment(&self, run: &Run, order: &Order) -> Segment {
        let effective = effective_bid_floor(order.limit, order.tier);
        let ranks =
            run.gpus.keys().map(|pool| rank(effective, age_bonus(self.terms.rho0(pool), order.age_s)));
        let held = run.gpus.iter().map(|(pool, gpus)| {
            let q = MilliGpus::from_gpus(*gpus);
            let price = PriceInterval { from_metered_s: 0, price: self.start_price(run, order, pool, q) };
            (pool.clone(), HeldGpus { q, prices: vec![price] })
        });
        let identity = &run.identity;
        Segment {
            row: 0,
            order: order.row,
            job_id: identity.job_id,
            display_id: identity.display_id(),
            start_s: run.start_s,
            time_limit_s: terms::run_limit_s(self.cluster, &identity.partition, identity.time_limit_s),
            tier: order.tier,
            limit: order.limit,
            account: identity.account.clone(),
            effective,
            rank: ranks.min().unwrap_or(effective),
            held: held.collect(),
            escrow: Amount::ZERO,
            escrow_until_s: 0,
            settled: None,
            receipt_outstanding: None,
        }
    }

    /// π at the start, by what the start displaced of the last committed round. (design "Price paid")
    fn start_price(&self, run: &Run, order: &Order, pool: &str, q: MilliGpus) -> Price {
        let still_pending = |candidate: &&crate::model::RoundOrder| {
            candidate.pool == pool
                && candidate.order != order.row
                && self.book.orders.contains_key(&candidate.order)
        };
        let candidates: Vec<Candidate<'_>> = self
            .book
            .round_orders
            .iter()
            .filter(still_pending)
            .map(|candidate| Candidate {
                account: &candidate.account,
                effective: candidate.effective,
                eligible_s: candidate.eligible_s,
                q: candidate.q,
                fits: self.could_use(candidate.order, run),
            })
            .collect();
        let taker = Taker { account: &run.identity.account, started_s: run.start_s, q };
        let displaced = displaced_price(&candidates, &taker);
        start_price_paid(order.limit, order.tier, self.terms.reserve(pool), displaced)
    }

    fn could_use(&self, order: i64, run: &Run) -> bool {
        let Some(order) = self.book.orders.get(&order) else {
            return false;
        };
        run.nodes.iter().all(|node| terms::reaches_node(self.cluster, &order.partition, node))
    }

    /// Renews what is about to run out, and follows a changed time limit.
    pub(crate) fn renew(&mut self, run: &Run) -> Result<(), PassError> {
        let Some(row) = self.book.segment_by_run.get(&(run.identity.job_id, run.start_s)).copied() else {
            return Ok(());
        };
        let limit_s = terms::run_limit_s(self.cluster, &run.identity.partition, run.identity.time_limit_s);
        let Some(segment) = self.book.segments.get_mut(&row).filter(|segment| segment.settled.is_none())
        else {
            return Ok(());
        };
        if segment.time_limit_s != limit_s {
            segment.time_limit_s = limit_s;
            self.tx.update_escrow(segment)?;
        }
        let elapsed_s = self.as_of_s - run.start_s;
        self.extend_escrow(row, elapsed_s.saturating_add(RENEW_BEFORE_S))
    }

    /// Places escrow, and fixes the price of further 24 h windows, until more than `needed_s` metered seconds are
    /// covered or the time limit is. Takes what money there is; the rest becomes house loss if it is used.
    fn extend_escrow(&mut self, row: SegmentRow, needed_s: i64) -> Result<(), PassError> {
        loop {
            let Some(segment) = self.book.segments.get(&row) else {
                return Ok(());
            };
            let from_s = segment.escrow_until_s;
            let mark_s = (from_s / PRICE_WINDOW_S + 1).saturating_mul(PRICE_WINDOW_S);
            let until_s = segment.time_limit_s.map_or(mark_s, |limit_s| limit_s.min(mark_s));
            if from_s > needed_s || until_s <= from_s {
                return Ok(());
            }
            if from_s > 0 && from_s % PRICE_WINDOW_S == 0 {
                self.fix_window_price(row, from_s)?;
            }
            self.place_escrow(row, until_s)?;
        }
    }

    fn fix_window_price(&mut self, row: SegmentRow, from_s: i64) -> Result<(), PassError> {
        let Some(segment) = self.book.segments.get_mut(&row) else {
            return Ok(());
        };
        // The index is known up to now; renewed early, its last value stands for the minutes to come.
        let mark_s = segment.start_s + from_s;
        for (pool, held) in &mut segment.held {
            let points = self.tx.index_points(pool, mark_s - PRICE_WINDOW_S, mark_s)?;
            let mean = time_weighted_mean_floor(&points, mark_s - PRICE_WINDOW_S, mark_s);
            let last = held.prices.last().map_or(Price::ZERO, |interval| interval.price);
            let price = mean.map_or(last, |mean| window_price(segment.limit, segment.tier, mean));
            let interval = PriceInterval { from_metered_s: from_s, price };
            self.tx.insert_price(row, pool, interval)?;
            held.prices.push(interval);
        }
        Ok(())
    }

    fn place_escrow(&mut self, row: SegmentRow, until_s: i64) -> Result<(), PassError> {
        let Some(segment) = self.book.segments.get(&row).cloned() else {
            return Ok(());
        };
        let meter = |source| PassError::Meter { job_id: segment.job_id, source };
        let mut wanted: i64 = 0;
        for held in segment.held.values() {
            let price = held.prices.last().map_or(Price::ZERO, |interval| interval.price);
            let cost = escrow_ceil(price, held.q, until_s - segment.escrow_until_s).map_err(meter)?;
            wanted = wanted.checked_add(cost.micros()).ok_or(meter(MeterError::Overflow))?;
        }
        let available = self.book.balances.of(&LedgerAccount::Account(segment.account.clone()));
        let placed = Amount::from_micros(wanted).min(available);
        if placed > Amount::ZERO {
            let from = LedgerAccount::Account(segment.account.clone());
            let to = LedgerAccount::Escrow(segment.account.clone());
            let transfer = Transfer::movement(TransferKind::EscrowPlaced, from, to, placed);
            let transfer = transfer.map_err(|source| PassError::Ledger { job_id: segment.job_id, source })?;
            self.post(&transfer, &segment)?;
        }
        let escrow = segment.escrow.checked_add(placed).ok_or(meter(MeterError::Overflow))?;
        let segment = Segment { escrow, escrow_until_s: until_s, ..segment };
        self.tx.update_escrow(&segment)?;
        self.book.segments.insert(row, segment);
        Ok(())
    }

    /// Charges a run by Slurm's record, gives the rest of its escrow back and writes its receipt.
    fn settle(&mut self, row: SegmentRow, end_s: i64, suspended_s: i64) -> Result<(), PassError> {
        let Some(segment) = self.book.segments.get(&row).filter(|segment| segment.settled.is_none()) else {
            return Ok(());
        };
        let metered_s = (end_s - segment.start_s - suspended_s.max(0)).max(0);
        // A run that outlived the renewals, because nobody looked, still pays each window its own price.
        self.price_until(row, metered_s)?;
        let Some(segment) = self.book.segments.get(&row).cloned() else {
            return Ok(());
        };
        let meter = |source| PassError::Meter { job_id: segment.job_id, source };
        let ledger = |source| PassError::Ledger { job_id: segment.job_id, source };
        let charge = charge_floor(0, segment.numerator(metered_s).map_err(meter)?).map_err(meter)?;
        let available = self.book.balances.of(&LedgerAccount::Account(segment.account.clone()));
        let settlement =
            Settlement::of(&segment.account, segment.escrow, available, charge).map_err(ledger)?;
        self.post(&settlement.charge, &segment)?;
        self.post(&settlement.refund, &segment)?;
        let receipt = receipt(&segment, metered_s, settlement.paid).to_string();
        let settled = Settled { end_s, metered_s, charge, loss: settlement.loss };
        self.tx.settle_segment(row, settled, &receipt)?;
        let settled = Some(settled);
        let segment =
            Segment { escrow: Amount::ZERO, settled, receipt_outstanding: Some(receipt), ..segment };
        self.book.segments.insert(row, segment);
        Ok(())
    }

    fn price_until(&mut self, row: SegmentRow, metered_s: i64) -> Result<(), PassError> {
        loop {
            let Some(segment) = self.book.segments.get_mut(&row) else {
                return Ok(());
            };
            let mark_s = (segment.escrow_until_s / PRICE_WINDOW_S + 1).saturating_mul(PRICE_WINDOW_S);
            if metered_s <= segment.escrow_until_s {
                return Ok(());
            }
            let from_s = segment.escrow_until_s;
            segment.escrow_until_s = mark_s.min(metered_s);
            if from_s > 0 && from_s % PRICE_WINDOW_S == 0 {
                self.fix_window_price(row, from_s)?;
            }
        }
    }

    fn post(&mut self, transfer: &Transfer, segment: &Segment) -> Result<(), PassError> {
        if transfer.is_empty() {
            return Ok(());
        }
        let ledger = |source| PassError::Ledger { job_id: segment.job_id, source };
        self.book.balances.apply(transfer).map_err(ledger)?;
        let held: Vec<String> = segment.held.iter().map(|(pool, held)| describe(pool, held)).collect();
        let memo = format!("job {}: {}", segment.display_id, held.join(" + "));
        let context =
            TransferContext { at_s: self.as_of_s, segment: Some(segment.row), actor_uid: None, memo: &memo };
        self.tx.insert_transfer(transfer, context)?;
        Ok(())
    }

    /// Closes orders of which Slurm shows nothing pending and the ledger nothing unsettled.
    pub(crate) fn close_finished(&mut self, is_waiting: impl Fn(&str) -> bool) -> Result<(), PassError> {
        let busy: std::collections::BTreeSet<i64> = self
            .book
            .segments
            .values()
            .filter(|segment| segment.settled.is_none())
            .map(|s| s.order)
            .collect();
        let done =
            self.book.orders.values().filter(|order| !busy.contains(&order.row) && !is_waiting(&order.uuid));
        let done: Vec<Order> = done.cloned().collect();
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

fn new_order(job: &JobIdentity) -> Order {
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

fn receipt(segment: &Segment, metered_s: i64, paid: Amount) -> Receipt {
    let gpu_milliseconds = i128::from(segment.q_milli()) * i128::from(metered_s);
    let mean = segment.numerator(metered_s).ok().and_then(|n| n.checked_div(gpu_milliseconds));
    Receipt {
        paid,
        limit: segment.limit,
        tier: segment.tier,
        gpu_seconds: i64::try_from(gpu_milliseconds / 1000).unwrap_or(i64::MAX),
        price: mean
            .filter(|_| segment.tier != Tier::Free)
            .and_then(|micros| i64::try_from(micros).ok())
            .and_then(Price::from_micros),
    }
}
