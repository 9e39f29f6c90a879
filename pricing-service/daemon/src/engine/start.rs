//! Runs seen for the first time: what they pay, and the escrow that is placed for them.

use market::amount::{Amount, MilliGpus, Price};
use market::metering::{Candidate, PriceInterval, Taker, displaced_price, start_price_paid};
use market::order::{age_bonus, effective_bid_floor, rank};

use super::pass::{BookingError, Pass};
use super::terms;
use crate::facts::Run;
use crate::model::{HeldGpus, Order, RoundOrder, Segment};
use crate::store::StoreError;

impl Pass<'_> {
    /// Places the escrow of a run seen for the first time, and settles it at once if it is over.
    pub(crate) fn start_new(&mut self, run: &Run) -> Result<(), BookingError> {
        let is_known = self.book.segment_by_run.contains_key(&run.key());
        if is_known
            || run.start_s < self.began_s
            || run.gpus.is_empty()
            || self.tx.has_segment(run.identity.job_id, run.start_s)?
        {
            return Ok(());
        }
        let order = self.order_of(&run.identity)?;
        let order = Order {
            account: run.identity.account.clone(),
            tier: self.terms.tier_in(run.identity.qos.as_deref(), &order),
            eligible_s: order.eligible_s.or(Some(run.identity.eligible_s).filter(|s| *s > 0)),
            ..order
        };
        self.remember(order.clone())?;
        // The limit of the moment it started, though a change of it may have been seen first.
        let limit = self.tx.limit_at(order.row, run.start_s)?.unwrap_or(order.limit);
        let order = Order { limit, ..order };
        let segment = self.tx.insert_segment(self.new_segment(run, &order)?)?;
        let row = segment.row;
        self.book.segment_by_run.insert(run.key(), row);
        self.book.segments.insert(row, segment);
        self.extend_escrow(row, 0)?;
        run.ending().map_or(Ok(()), |ending| self.settle_known(ending))
    }

    fn new_segment(&self, run: &Run, order: &Order) -> Result<Segment, StoreError> {
        let effective = effective_bid_floor(order.limit, order.tier);
        let ranks =
            run.gpus.keys().map(|pool| rank(effective, age_bonus(self.terms.rho0(pool), order.age_s)));
        let held = run.gpus.iter().map(|(pool, gpus)| {
            let q = MilliGpus::from_gpus(*gpus);
            let price = if order.tier.floats() {
                self.spot_price_at(order.limit, pool, run.start_s)?
            } else {
                self.start_price(run, order, pool, q)
            };
            let first = PriceInterval { from_metered_s: 0, price };
            Ok((pool.clone(), HeldGpus { q, prices: vec![first] }))
        });
        let held = held.collect::<Result<_, StoreError>>()?;
        let identity = &run.identity;
        Ok(Segment {
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
            held,
            escrow: Amount::ZERO,
            escrow_until_s: 0,
            settled: None,
            receipt_outstanding: None,
        })
    }

    /// π at the start, by what the start displaced of the last committed round. (design "Price paid")
    fn start_price(&self, run: &Run, order: &Order, pool: &str, q: MilliGpus) -> Price {
        let taker = Taker { account: &run.identity.account, started_s: run.start_s, q };
        let price = |standing: &RoundOrder| {
            let candidate = Candidate {
                account: &standing.account,
                effective: standing.effective,
                eligible_s: standing.eligible_s,
                q: standing.q,
                fits: self.could_use(standing, run),
            };
            displaced_price(&[candidate], &taker)
        };
        let others = self.book.round_orders.iter();
        let others = others.filter(|standing| standing.pool == pool && standing.order != order.row);
        // They stand best first, so the first that was displaced is the dearest.
        let displaced = others.map(price).find(|price| *price > Price::ZERO).unwrap_or_default();
        start_price_paid(order.limit, order.tier, self.terms.reserve(pool), displaced)
    }

    /// Whether the order still waits, and could have run on the nodes that the run took.
    fn could_use(&self, standing: &RoundOrder, run: &Run) -> bool {
        let Some(waiting) = self.waiting_job(standing.order) else {
            return false;
        };
        let partition = &waiting.identity.partition;
        run.nodes.len() >= waiting.nodes_least.max(1) as usize
            && run.nodes.iter().all(|node| self.cluster.reaches(partition, node))
    }
}
