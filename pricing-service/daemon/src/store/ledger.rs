//! Transfers, balances and the commands that were answered.

use market::amount::Amount;
use market::ledger::{Balances, LedgerAccount, Transfer};
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

/// The newest `limit` entries in order of time; with `accounts`, only those of these Slurm accounts. Reads no more of
/// the ledger than that, however long it is.
pub(crate) fn entries(
    connection: &Connection,
    accounts: Option<&[String]>,
    limit: u32,
) -> Result<Vec<LedgerRow>, StoreError> {
    let mut newest = match accounts {
        None => rows(connection, "?1 IS NULL", None, limit)?,
        Some(names) => {
            let mut newest = Vec::new();
            for account in ledger_accounts_of(connection, names)? {
                newest.extend(rows(connection, "e.ledger_account_id = ?1", Some(account), limit)?);
            }
            newest
        }
    };
    newest.sort_unstable_by_key(|(entry, _)| *entry);
    let too_many = newest.len().saturating_sub(limit as usize);
    Ok(newest.into_iter().skip(too_many).map(|(_, row)| row).collect())
}

fn ledger_accounts_of(connection: &Connection, names: &[String]) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT id FROM ledger_account WHERE kind = ?1 AND name = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut ids = Vec::new();
    for name in names {
        for account in [LedgerAccount::Account(name.clone()), LedgerAccount::Escrow(name.clone())] {
            let key = (account.kind(), account.name());
            let id: Option<i64> = statement.query_row(key, |row| row.get(0)).optional()?;
            ids.extend(id);
        }
    }
    Ok(ids)
}

/// Entries with their numbers, the newest first.
fn rows(
    connection: &Connection,
    condition: &str,
    account: Option<i64>,
    limit: u32,
) -> Result<Vec<(i64, LedgerRow)>, StoreError> {
    let sql = format!(
        "SELECT t.id, t.at_s, t.kind, a.kind, a.name, e.amount_usu, coalesce(s.job_id, 0), t.memo, e.id
         FROM entry e JOIN transfer t ON t.id = e.transfer_id
         JOIN ledger_account a ON a.id = e.ledger_account_id
         LEFT JOIN segment s ON s.id = t.segment_id
         WHERE {condition} ORDER BY e.id DESC LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map((account, limit), |row| {
        let kind: String = row.get(3)?;
        let entry = LedgerRow {
            transfer: row.get(0)?,
            at_s: row.get(1)?,
            kind: row.get(2)?,
            account: account_of(&kind, row.get(4)?),
            amount: Amount::from_micros(row.get(5)?),
            job_id: row.get(6)?,
            memo: row.get(7)?,
        };
        Ok((row.get(8)?, entry))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Σ over every ledger account, in micro-SU: zero.
pub(crate) fn sum_micros(connection: &Connection) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(sum(balance_usu), 0) FROM ledger_account";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// What an account was charged since the ledger began.
pub(crate) fn charged(connection: &Connection, account: &str) -> Result<Amount, StoreError> {
    let sql = "SELECT coalesce(sum(charged_usu), 0) FROM ledger_account
               WHERE kind IN ('account', 'escrow') AND name = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(Amount::from_micros(statement.query_row([account], |row| row.get(0))?))
}
