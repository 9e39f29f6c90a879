//! Orders.

use std::str::FromStr;

use market::amount::Price;
use market::order::Tier;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{StoreError, Tx};
use crate::model::{Book, Order, OrderRow};

const COLUMNS: &str = "id, uuid, job_id, submitted_s, uid, user, account, partition, tier, limit_usu, eligible_s, age_s, closed_s";

pub(super) fn load(connection: &Connection, book: &mut Book) -> Result<(), StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM market_order WHERE closed_s IS NULL");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let order = order(row)?;
        book.order_by_uuid.insert(order.uuid.clone(), order.row);
        book.orders.insert(order.row, order);
    }
    Ok(())
}

fn order(row: &Row<'_>) -> Result<Order, StoreError> {
    let id = row.get(0)?;
    let tier: String = row.get(8)?;
    Ok(Order {
        row: id,
        uuid: row.get(1)?,
        job_id: row.get(2)?,
        submitted_s: row.get(3)?,
        uid: row.get(4)?,
        user: row.get(5)?,
        account: row.get(6)?,
        partition: row.get(7)?,
        tier: tier_of("market_order", id, &tier)?,
        limit: price_of("market_order", id, row.get(9)?)?,
        eligible_s: row.get(10)?,
        age_s: row.get(11)?,
        closed_s: row.get(12)?,
    })
}

pub(super) fn tier_of(table: &'static str, row: i64, text: &str) -> Result<Tier, StoreError> {
    Tier::from_str(text).map_err(|_| StoreError::BadValue { table, row, column: "tier", value: text.into() })
}

pub(super) fn price_of(table: &'static str, row: i64, micros: i64) -> Result<Price, StoreError> {
    Price::from_micros(micros).ok_or_else(|| StoreError::BadValue {
        table,
        row,
        column: "price",
        value: micros.to_string(),
    })
}

/// An order by its uuid, closed or not.
pub(crate) fn by_uuid(connection: &Connection, uuid: &str) -> Result<Option<Order>, StoreError> {
    one(connection, "uuid = ?1", uuid)
}

/// The newest order of a job id, closed or not.
pub(crate) fn by_job(connection: &Connection, job_id: u32) -> Result<Option<Order>, StoreError> {
    one(connection, "job_id = ?1 ORDER BY id DESC LIMIT 1", job_id)
}

/// An order by its row, closed or not.
pub(crate) fn by_row(connection: &Connection, row: OrderRow) -> Result<Option<Order>, StoreError> {
    one(connection, "id = ?1", row)
}

fn one(
    connection: &Connection,
    condition: &str,
    key: impl rusqlite::ToSql,
) -> Result<Option<Order>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM market_order WHERE {condition}");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row([key], |row| Ok(order(row))).optional()?.transpose()
}

impl Tx<'_> {
    pub(crate) fn order_by_uuid(&self, uuid: &str) -> Result<Option<Order>, StoreError> {
        by_uuid(&self.0, uuid)
    }

    /// Writes a new order and returns it with its row.
    pub(crate) fn insert_order(&self, order: Order) -> Result<Order, StoreError> {
        let sql = "INSERT INTO market_order (uuid, job_id, submitted_s, uid, user, account, partition, tier,
                   limit_usu, eligible_s, age_s, closed_s) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        self.0.prepare_cached(sql)?.execute(params![
            order.uuid,
            order.job_id,
            order.submitted_s,
            order.uid,
            order.user,
            order.account,
            order.partition,
            order.tier.name(),
            order.limit.micros(),
            order.eligible_s,
            order.age_s,
            order.closed_s
        ])?;
        Ok(Order { row: self.0.last_insert_rowid(), ..order })
    }

    /// Notes that a waiting order had this limit until now.
    pub(crate) fn insert_bid_change(
        &self,
        order: OrderRow,
        at_s: i64,
        old_limit: Price,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO bid_change (order_id, at_s, old_limit_usu) VALUES (?1, ?2, ?3)";
        self.0.prepare_cached(sql)?.execute((order, at_s, old_limit.micros()))?;
        Ok(())
    }

    /// When the limit was last changed.
    pub(crate) fn bid_changed_s(&self, order: OrderRow) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT max(at_s) FROM bid_change WHERE order_id = ?1";
        Ok(self.0.prepare_cached(sql)?.query_row([order], |row| row.get(0))?)
    }

    /// The limit that an order had at a time; `None`: the one it has now.
    pub(crate) fn limit_at(&self, order: OrderRow, at_s: i64) -> Result<Option<Price>, StoreError> {
        let sql =
            "SELECT old_limit_usu FROM bid_change WHERE order_id = ?1 AND at_s > ?2 ORDER BY id LIMIT 1";
        let mut statement = self.0.prepare_cached(sql)?;
        let micros: Option<i64> = statement.query_row((order, at_s), |row| row.get(0)).optional()?;
        micros.map(|micros| price_of("bid_change", order, micros)).transpose()
    }

    /// Writes what can change of an order.
    pub(crate) fn update_order(&self, order: &Order) -> Result<(), StoreError> {
        let sql = "UPDATE market_order SET account = ?2, partition = ?3, limit_usu = ?4, eligible_s = ?5, age_s = ?6,
                   closed_s = ?7, tier = ?8 WHERE id = ?1";
        self.0.prepare_cached(sql)?.execute(params![
            order.row,
            order.account,
            order.partition,
            order.limit.micros(),
            order.eligible_s,
            order.age_s,
            order.closed_s,
            order.tier.name()
        ])?;
        Ok(())
    }
}
