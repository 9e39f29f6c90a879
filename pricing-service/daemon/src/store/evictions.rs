//! Running jobs that are to give way to waiting ones.

use rusqlite::{Connection, Row, params};

use super::{StoreError, Tx};
use crate::model::{Book, Eviction, EvictionRow};

pub(super) fn load(connection: &Connection, book: &mut Book) -> Result<(), StoreError> {
    let sql = "SELECT id, segment_id, beneficiary_id, asked_s, grace_until_s, outcome FROM eviction
               WHERE closed_s IS NULL";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let eviction = eviction(row)?;
        book.evictions.insert(eviction.row, eviction);
    }
    Ok(())
}

fn eviction(row: &Row<'_>) -> Result<Eviction, StoreError> {
    Ok(Eviction {
        row: row.get(0)?,
        segment: row.get(1)?,
        beneficiary: row.get(2)?,
        asked_s: row.get(3)?,
        grace_until_s: row.get(4)?,
        outcome: row.get(5)?,
    })
}

impl Tx<'_> {
    /// Writes a new eviction and returns it with its row.
    pub(crate) fn insert_eviction(&self, eviction: Eviction, actor_uid: u32) -> Result<Eviction, StoreError> {
        let sql =
            "INSERT INTO eviction (segment_id, beneficiary_id, actor_uid, asked_s) VALUES (?1, ?2, ?3, ?4)";
        let Eviction { segment, beneficiary, asked_s, .. } = eviction;
        self.0.prepare_cached(sql)?.execute((segment, beneficiary, actor_uid, asked_s))?;
        Ok(Eviction { row: self.0.last_insert_rowid(), ..eviction })
    }

    /// Writes how far it has come.
    pub(crate) fn update_eviction(&self, eviction: &Eviction) -> Result<(), StoreError> {
        let sql = "UPDATE eviction SET grace_until_s = ?2, outcome = ?3 WHERE id = ?1";
        self.0.prepare_cached(sql)?.execute(params![
            eviction.row,
            eviction.grace_until_s,
            eviction.outcome
        ])?;
        Ok(())
    }

    pub(crate) fn close_eviction(
        &self,
        row: EvictionRow,
        closed_s: i64,
        outcome: &str,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE eviction SET closed_s = ?2, outcome = ?3 WHERE id = ?1";
        self.0.prepare_cached(sql)?.execute((row, closed_s, outcome))?;
        Ok(())
    }
}
