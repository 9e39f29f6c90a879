//! Run segments, what they hold and the prices they are charged at.

use market::amount::{Amount, MilliGpus};
use market::metering::PriceInterval;
use rusqlite::{Connection, Row, params};

use super::orders::{price_of, tier_of};
use super::{StoreError, Tx};
use crate::model::{Book, HeldGpus, Segment, SegmentRow, Settled};

const COLUMNS: &str = "id, order_id, job_id, display_id, start_s, time_limit_s, tier, limit_usu, account,
    effective_usu, rank_usu, escrow_usu, escrow_until_s, end_s, metered_s, charge_usu, loss_usu,
    CASE WHEN receipt_read_back_s IS NULL THEN receipt END";

pub(super) fn load(connection: &Connection, recent_s: i64, book: &mut Book) -> Result<(), StoreError> {
    let condition = "end_s IS NULL OR start_s >= ?1 OR (receipt IS NOT NULL AND receipt_read_back_s IS NULL)";
    for segment in select(connection, condition, recent_s)? {
        book.segment_by_run.insert((segment.job_id, segment.start_s), segment.row);
        book.segments.insert(segment.row, segment);
    }
    Ok(())
}

fn select(connection: &Connection, condition: &str, key: i64) -> Result<Vec<Segment>, StoreError> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM segment WHERE {condition}"))?;
    let mut rows = statement.query([key])?;
    let mut segments = Vec::new();
    while let Some(row) = rows.next()? {
        let mut segment = segment(row)?;
        load_held(connection, &mut segment)?;
        segments.push(segment);
    }
    Ok(segments)
}

/// Segments of one job id, or of every task of the array with that id, in order of their starts.
pub(crate) fn of_job(connection: &Connection, job_id: u32) -> Result<Vec<Segment>, StoreError> {
    let condition =
        "job_id = ?1 OR order_id IN (SELECT id FROM market_order WHERE job_id = ?1) ORDER BY start_s, id";
    select(connection, condition, job_id.into())
}

/// Settled segments that ended since then.
pub(crate) fn settled_since(connection: &Connection, since_s: i64) -> Result<Vec<Segment>, StoreError> {
    select(connection, "end_s >= ?1 ORDER BY end_s, id", since_s)
}

fn segment(row: &Row<'_>) -> Result<Segment, StoreError> {
    let id = row.get(0)?;
    let tier: String = row.get(6)?;
    let end_s: Option<i64> = row.get(13)?;
    let settled = match end_s {
        Some(end_s) => Some(Settled {
            end_s,
            metered_s: row.get(14)?,
            charge: Amount::from_micros(row.get(15)?),
            loss: Amount::from_micros(row.get(16)?),
        }),
        None => None,
    };
    Ok(Segment {
        row: id,
        order: row.get(1)?,
        job_id: row.get(2)?,
        display_id: row.get(3)?,
        start_s: row.get(4)?,
        time_limit_s: row.get(5)?,
        tier: tier_of("segment", id, &tier)?,
        limit: price_of("segment", id, row.get(7)?)?,
        account: row.get(8)?,
        effective: price_of("segment", id, row.get(9)?)?,
        rank: price_of("segment", id, row.get(10)?)?,
        held: Default::default(),
        escrow: Amount::from_micros(row.get(11)?),
        escrow_until_s: row.get(12)?,
        settled,
        receipt_outstanding: row.get(17)?,
    })
}

fn load_held(connection: &Connection, segment: &mut Segment) -> Result<(), StoreError> {
    let sql = "SELECT g.pool, g.q_milli, p.from_metered_s, p.price_usu FROM segment_pool g
               LEFT JOIN segment_price p ON p.segment_id = g.segment_id AND p.pool = g.pool
               WHERE g.segment_id = ?1 ORDER BY g.pool, p.from_metered_s";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([segment.row])?;
    while let Some(row) = rows.next()? {
        let milli: i64 = row.get(1)?;
        let q = MilliGpus::from_milli(milli).ok_or(StoreError::BadValue {
            table: "segment_pool",
            row: segment.row,
            column: "q_milli",
            value: milli.to_string(),
        })?;
        let held = segment.held.entry(row.get(0)?).or_insert(HeldGpus { q, prices: Vec::new() });
        if let Some(from_metered_s) = row.get(2)? {
            let price = price_of("segment_price", segment.row, row.get(3)?)?;
            held.prices.push(PriceInterval { from_metered_s, price });
        }
    }
    Ok(())
}

impl Tx<'_> {
    /// A run that is already in the ledger, recent or not.
    pub(crate) fn has_segment(&self, job_id: u32, start_s: i64) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM segment WHERE job_id = ?1 AND start_s = ?2";
        Ok(self.0.prepare_cached(sql)?.exists((job_id, start_s))?)
    }

    /// Writes a new segment with what it holds, and returns it with its row.
    pub(crate) fn insert_segment(&self, segment: Segment) -> Result<Segment, StoreError> {
        let sql = "INSERT INTO segment (order_id, job_id, display_id, start_s, time_limit_s, tier, limit_usu, account,
                   effective_usu, rank_usu, escrow_usu, escrow_until_s)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        self.0.prepare_cached(sql)?.execute(params![
            segment.order,
            segment.job_id,
            segment.display_id,
            segment.start_s,
            segment.time_limit_s,
            segment.tier.name(),
            segment.limit.micros(),
            segment.account,
            segment.effective.micros(),
            segment.rank.micros(),
            segment.escrow.micros(),
            segment.escrow_until_s
        ])?;
        let row = self.0.last_insert_rowid();
        for (pool, held) in &segment.held {
            let sql = "INSERT INTO segment_pool (segment_id, pool, q_milli) VALUES (?1, ?2, ?3)";
            self.0.prepare_cached(sql)?.execute((row, pool, held.q.milli()))?;
            for price in &held.prices {
                self.insert_price(row, pool, *price)?;
            }
        }
        Ok(Segment { row, ..segment })
    }

    pub(crate) fn insert_price(
        &self,
        segment: SegmentRow,
        pool: &str,
        price: PriceInterval,
    ) -> Result<(), StoreError> {
        let sql =
            "INSERT INTO segment_price (segment_id, pool, from_metered_s, price_usu) VALUES (?1, ?2, ?3, ?4)";
        self.0.prepare_cached(sql)?.execute((segment, pool, price.from_metered_s, price.price.micros()))?;
        Ok(())
    }

    pub(crate) fn update_escrow(&self, segment: &Segment) -> Result<(), StoreError> {
        let sql = "UPDATE segment SET escrow_usu = ?2, escrow_until_s = ?3, time_limit_s = ?4 WHERE id = ?1";
        self.0.prepare_cached(sql)?.execute((
            segment.row,
            segment.escrow.micros(),
            segment.escrow_until_s,
            segment.time_limit_s,
        ))?;
        Ok(())
    }

    /// Closes a segment: what it cost, and the receipt that is to be written.
    pub(crate) fn settle_segment(
        &self,
        segment: SegmentRow,
        settled: Settled,
        receipt: &str,
    ) -> Result<(), StoreError> {
        let sql =
            "UPDATE segment SET escrow_usu = 0, end_s = ?2, metered_s = ?3, charge_usu = ?4, loss_usu = ?5,
                   receipt = ?6 WHERE id = ?1 AND end_s IS NULL";
        self.0.prepare_cached(sql)?.execute((
            segment,
            settled.end_s,
            settled.metered_s,
            settled.charge.micros(),
            settled.loss.micros(),
            receipt,
        ))?;
        Ok(())
    }

    /// Receipts of runs that ended since then may have been written over.
    pub(crate) fn receipts_outstanding_again(&self, ended_from_s: i64) -> Result<(), StoreError> {
        let sql = "UPDATE segment SET receipt_read_back_s = NULL
                   WHERE end_s >= ?1 AND receipt_read_back_s IS NOT NULL";
        self.0.prepare_cached(sql)?.execute((ended_from_s,))?;
        Ok(())
    }

    /// There is no record to write a receipt to.
    pub(crate) fn drop_receipt(&self, segment: SegmentRow) -> Result<(), StoreError> {
        self.0.prepare_cached("UPDATE segment SET receipt = NULL WHERE id = ?1")?.execute((segment,))?;
        Ok(())
    }

    pub(crate) fn receipt_read_back(&self, segment: SegmentRow, at_s: i64) -> Result<(), StoreError> {
        let sql = "UPDATE segment SET receipt_read_back_s = ?2 WHERE id = ?1";
        self.0.prepare_cached(sql)?.execute((segment, at_s))?;
        Ok(())
    }
}
