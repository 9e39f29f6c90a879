//! Transfers, balances and the commands that were answered.

use market::amount::Amount;
use market::ledger::{Balances, LedgerAccount, Transfer, TransferKind};
use rusqlite::{Connection, OptionalExtension, params};

use super::{StoreError, Tx};
use crate::model::SegmentRow;

/// What a transfer was for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferContext<'a> {
    pub(crate) at_s: i64,
    pub(crate) segment: Option<SegmentRow>,
    pub(crate) actor_uid: Option<u32>,
    pub(crate) memo: &'a str,
}

/// One entry, as `sbid ledger` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LedgerRow {
    pub(crate) transfer: i64,
    pub(crate) at_s: i64,
    pub(crate) kind: String,
    pub(crate) account: LedgerAccount,
    pub(crate) amount: Amount,
    pub(crate) job_id: u32,
    pub(crate) memo: String,
}

impl Tx<'_> {
    /// Writes a transfer and returns its number. The database moves the balances by itself and refuses an overdraft.
    pub(crate) fn insert_transfer(
        &self,
        transfer: &Transfer,
        context: TransferContext<'_>,
    ) -> Result<i64, StoreError> {
        let sql =
            "INSERT INTO transfer (at_s, kind, segment_id, actor_uid, memo) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.0.prepare_cached(sql)?.execute(params![
            context.at_s,
            transfer.kind().as_str(),
            context.segment,
            context.actor_uid,
            context.memo
        ])?;
        let number = self.0.last_insert_rowid();
        for entry in transfer.entries() {
            let account = self.ledger_account_row(&entry.account)?;
            let sql = "INSERT INTO entry (transfer_id, ledger_account_id, amount_usu) VALUES (?1, ?2, ?3)";
            self.0.prepare_cached(sql)?.execute((number, account, entry.amount.micros()))?;
        }
        Ok(number)
    }

    fn ledger_account_row(&self, account: &LedgerAccount) -> Result<i64, StoreError> {
        let sql = "INSERT INTO ledger_account (kind, name) VALUES (?1, ?2)
                   ON CONFLICT (kind, name) DO UPDATE SET name = name RETURNING id";
        let mut statement = self.0.prepare_cached(sql)?;
        Ok(statement.query_row((account.kind(), account.name()), |row| row.get(0))?)
    }

    /// The answer to a command that was given before under this key: who asked, what, and the reply.
    pub(crate) fn answered(&self, key: &str) -> Result<Option<(u32, String, Vec<u8>)>, StoreError> {
        let sql = "SELECT uid, request, reply FROM command WHERE idempotency_key = ?1";
        let mut statement = self.0.prepare_cached(sql)?;
        Ok(statement.query_row([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?)
    }

    pub(crate) fn insert_answer(
        &self,
        key: &str,
        uid: u32,
        at_s: i64,
        request: &str,
        reply: &[u8],
    ) -> Result<(), StoreError> {
        let sql =
            "INSERT INTO command (idempotency_key, uid, at_s, request, reply) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.0.prepare_cached(sql)?.execute(params![key, uid, at_s, request, reply])?;
        Ok(())
    }
}

pub(super) fn balances(connection: &Connection) -> Result<Balances, StoreError> {
    let mut balances = Balances::default();
    let mut statement = connection.prepare("SELECT kind, name, balance_usu FROM ledger_account")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
        balances.restore(account_of(&kind, name), Amount::from_micros(row.get(2)?));
    }
    Ok(balances)
}

/// `kind` is one of those that the table's CHECK admits.
fn account_of(kind: &str, name: String) -> LedgerAccount {
    match kind {
        "account" => LedgerAccount::Account(name),
        "escrow" => LedgerAccount::Escrow(name),
        "mint" => LedgerAccount::Mint,
        "burn" => LedgerAccount::Burn,
        _ => LedgerAccount::HouseLoss,
    }
}

/// The newest `limit` entries in order of time; with `accounts`, only those of these Slurm accounts.
pub(crate) fn entries(
    connection: &Connection,
    accounts: Option<&[String]>,
    limit: u32,
) -> Result<Vec<LedgerRow>, StoreError> {
    let names = accounts.map(|names| serde_json::json!(names).to_string());
    let sql = "SELECT t.id, t.at_s, t.kind, a.kind, a.name, e.amount_usu, coalesce(s.job_id, 0), t.memo
               FROM entry e JOIN transfer t ON t.id = e.transfer_id
               JOIN ledger_account a ON a.id = e.ledger_account_id
               LEFT JOIN segment s ON s.id = t.segment_id
               WHERE ?1 IS NULL OR a.name IN (SELECT value FROM json_each(?1))
               ORDER BY e.id DESC LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map((names, limit), |row| {
        let kind: String = row.get(3)?;
        Ok(LedgerRow {
            transfer: row.get(0)?,
            at_s: row.get(1)?,
            kind: row.get(2)?,
            account: account_of(&kind, row.get(4)?),
            amount: Amount::from_micros(row.get(5)?),
            job_id: row.get(6)?,
            memo: row.get(7)?,
        })
    })?;
    let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
    rows.reverse();
    Ok(rows)
}

/// Σ over every ledger account, in micro-SU: zero.
pub(crate) fn sum_micros(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.query_row("SELECT coalesce(sum(amount_usu), 0) FROM entry", [], |row| row.get(0))?)
}

/// What an account was charged since the ledger began.
pub(crate) fn charged(connection: &Connection, account: &str) -> Result<Amount, StoreError> {
    let sql = "SELECT coalesce(-sum(e.amount_usu), 0) FROM ledger_account a
               JOIN entry e ON e.ledger_account_id = a.id JOIN transfer t ON t.id = e.transfer_id
               WHERE a.name = ?1 AND a.kind IN ('account', 'escrow') AND t.kind = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(Amount::from_micros(statement.query_row((account, TransferKind::Charge.as_str()), |row| row.get(0))?))
}
