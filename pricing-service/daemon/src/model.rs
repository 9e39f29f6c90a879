//! What the daemon remembers: orders, run segments, pools and money. The store holds the same, row by row.

use std::collections::BTreeMap;

use market::amount::{Amount, MilliGpus, Price};
use market::index::Index;
use market::ledger::Balances;
use market::metering::{Line, MeterError, PriceInterval, numerator};
use market::order::{OrderId, Tier};

pub(crate) type OrderRow = i64;
pub(crate) type SegmentRow = i64;
pub(crate) type EvictionRow = i64;

/// A job in the market, an array as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) row: OrderRow,
    pub(crate) uuid: String,
    /// First-seen id (of the array, for one) and submit time.
    pub(crate) job_id: u32,
    pub(crate) submitted_s: i64,
    pub(crate) uid: u32,
    pub(crate) user: String,
    pub(crate) account: String,
    pub(crate) partition: String,
    pub(crate) tier: Tier,
    pub(crate) limit: Price,
    /// First time it was eligible; `None`: not yet.
    pub(crate) eligible_s: Option<i64>,
    /// Seconds pending, eligible, not held and funded.
    pub(crate) age_s: i64,
    /// Nothing of it is pending or unsettled any more.
    pub(crate) closed_s: Option<i64>,
}

impl Order {
    pub(crate) fn id(&self) -> OrderId {
        OrderId { submitted_s: self.submitted_s, job_id: self.job_id, task_id: None }
    }
}

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) row: SegmentRow,
    pub(crate) order: OrderRow,
    pub(crate) job_id: u32,
    /// As Slurm writes it: `12` or `12_3`.
    pub(crate) display_id: String,
    pub(crate) start_s: i64,
    /// With OverTimeLimit; `None`: unlimited.
    pub(crate) time_limit_s: Option<i64>,
    pub(crate) tier: Tier,
    /// Frozen at the start, as are `effective` and `rank`.
    pub(crate) limit: Price,
    pub(crate) account: String,
    pub(crate) effective: Price,
    pub(crate) rank: Price,
    pub(crate) held: BTreeMap<String, HeldGpus>,
    /// Open escrow; zero once settled.
    pub(crate) escrow: Amount,
    /// Metered seconds that the escrow placed so far covers, counted from the start.
    pub(crate) escrow_until_s: i64,
    pub(crate) settled: Option<Settled>,
    pub(crate) receipt_outstanding: Option<String>,
}

/// GPUs held in one pool, with the prices they are charged at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldGpus {
    pub(crate) q: MilliGpus,
    pub(crate) prices: Vec<PriceInterval>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) end_s: i64,
    pub(crate) metered_s: i64,
    pub(crate) charge: Amount,
    pub(crate) loss: Amount,
}

impl Segment {
    /// N after so many metered seconds (design, "Metering").
    pub(crate) fn numerator(&self, metered_s: i64) -> Result<i128, MeterError> {
        let lines: Vec<Line<'_>> =
            self.held.values().map(|held| Line { q: held.q, intervals: &held.prices }).collect();
        numerator(&lines, metered_s)
    }

    pub(crate) fn q_milli(&self) -> i64 {
        self.held.values().map(|held| held.q.milli()).sum()
    }
}

/// What the last round left of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolState {
    pub(crate) index: Index,
    pub(crate) start_price: Price,
    pub(crate) why: String,
}

/// A funded order of the last committed round, in one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RoundOrder {
    pub(crate) order: OrderRow,
    pub(crate) pool: String,
    pub(crate) account: String,
    pub(crate) effective: Price,
    pub(crate) eligible_s: i64,
    pub(crate) q: MilliGpus,
}

/// A running spot job that gives way to a waiting order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Eviction {
    pub(crate) row: EvictionRow,
    pub(crate) segment: SegmentRow,
    pub(crate) beneficiary: OrderRow,
    pub(crate) asked_s: i64,
    /// `None`: not warned yet.
    pub(crate) grace_until_s: Option<i64>,
    /// How its GPUs were taken, once they were.
    pub(crate) outcome: Option<String>,
}

/// All of it. A pass works on a copy and replaces the original when its transaction is committed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book {
    /// Open orders.
    pub(crate) orders: BTreeMap<OrderRow, Order>,
    pub(crate) order_by_uuid: BTreeMap<String, OrderRow>,
    /// Running, or started in the last hours, or with a receipt outstanding.
    pub(crate) segments: BTreeMap<SegmentRow, Segment>,
    pub(crate) segment_by_run: BTreeMap<(u32, i64), SegmentRow>,
    pub(crate) balances: Balances,
    pub(crate) pools: BTreeMap<String, PoolState>,
    pub(crate) round: i64,
    /// When the last round was; `None` before the first.
    pub(crate) round_at_s: Option<i64>,
    pub(crate) round_orders: Vec<RoundOrder>,
    /// Those that are not closed.
    pub(crate) evictions: BTreeMap<EvictionRow, Eviction>,
}
