//! Rounds: prices of every pool, and the funded orders of the last one.

use market::amount::{MilliGpus, Price};
use market::index::Index;
use rusqlite::{Connection, params};

use super::orders::price_of;
use super::{StoreError, Tx};
use crate::model::{Book, PoolState, RoundOrder};

/// What one round found in one pool.
#[derive(Debug, Clone)]
pub(crate) struct PoolRound<'a> {
    pub(crate) round: i64,
    pub(crate) pool: &'a str,
    pub(crate) at_s: i64,
    pub(crate) supply: MilliGpus,
    pub(crate) reserve: Price,
    pub(crate) state: &'a PoolState,
}

pub(super) fn load(connection: &Connection, book: &mut Book) -> Result<(), StoreError> {
    // The last row of each pool, which need not be of the last round: a model can leave the cluster.
    let sql = "SELECT pool, round_id, at_s, start_usu, index_log2_q32, why, max(round_id) FROM pool_round GROUP BY pool";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let round: i64 = row.get(1)?;
        if round >= book.round {
            // Not the latest time of all: the clock may have been set back since.
            (book.round, book.round_at_s) = (round, row.get(2)?);
        }
        let state = PoolState {
            index: Index::from_log2_q32(row.get(4)?),
            start_price: price_of("pool_round", round, row.get(3)?)?,
            why: row.get(5)?,
        };
        book.pools.insert(row.get(0)?, state);
    }
    let sql = "SELECT order_id, pool, account, effective_usu, eligible_s, q_milli FROM round_order
               ORDER BY effective_usu DESC, order_id, pool";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let order = row.get(0)?;
        book.round_orders.push(RoundOrder {
            order,
            pool: row.get(1)?,
            account: row.get(2)?,
            effective: price_of("round_order", order, row.get(3)?)?,
            eligible_s: row.get(4)?,
            q: MilliGpus::from_milli(row.get(5)?).unwrap_or_default(),
        });
    }
    Ok(())
}

impl Tx<'_> {
    pub(crate) fn insert_pool_round(&self, round: &PoolRound<'_>) -> Result<(), StoreError> {
        let sql = "INSERT INTO pool_round (round_id, pool, at_s, supply_milli, start_usu, reserve_usu, index_log2_q32,
                   charge_usu, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        self.0.prepare_cached(sql)?.execute(params![
            round.round,
            round.pool,
            round.at_s,
            round.supply.milli(),
            round.state.start_price.micros(),
            round.reserve.micros(),
            round.state.index.log2_q32(),
            round.state.index.price().micros(),
            round.state.why
        ])?;
        Ok(())
    }

    pub(crate) fn replace_round_orders(&self, orders: &[RoundOrder]) -> Result<(), StoreError> {
        self.0.prepare_cached("DELETE FROM round_order")?.execute([])?;
        let sql = "INSERT INTO round_order (order_id, pool, account, effective_usu, eligible_s, q_milli)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let mut statement = self.0.prepare_cached(sql)?;
        for order in orders {
            statement.execute((
                order.order,
                &order.pool,
                &order.account,
                order.effective.micros(),
                order.eligible_s,
                order.q.milli(),
            ))?;
        }
        Ok(())
    }

    /// The published index of a pool from the last point before `from_s` on, in order of time.
    pub(crate) fn index_points(
        &self,
        pool: &str,
        from_s: i64,
        to_s: i64,
    ) -> Result<Vec<(i64, Price)>, StoreError> {
        let sql = "SELECT at_s, charge_usu FROM pool_round WHERE pool = ?1 AND at_s < ?3
                   AND at_s >= coalesce((SELECT max(at_s) FROM pool_round WHERE pool = ?1 AND at_s <= ?2), ?2)
                   ORDER BY at_s, round_id";
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query((pool, from_s, to_s))?;
        let mut points = Vec::new();
        while let Some(row) = rows.next()? {
            let at_s = row.get(0)?;
            points.push((at_s, price_of("pool_round", at_s, row.get(1)?)?));
        }
        Ok(points)
    }
}
