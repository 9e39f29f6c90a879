//! The ledger on disk: SQLite in WAL mode with one writer. A pass over Slurm's facts is one transaction.

mod evictions;
pub(crate) mod ledger;
pub(crate) mod orders;
mod rounds;
mod schema;
pub(crate) mod segments;

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior};

use crate::model::Book;

pub(crate) use ledger::TransferContext;
pub(crate) use rounds::PoolRound;

/// File in the state directory.
pub(crate) const FILE_NAME: &str = "ledger.sqlite";

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("ledger database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("ledger database: cannot bring the tables to this version: {0}")]
    Migration(#[from] rusqlite_migration::Error),
    #[error(
        "the ledger belongs to cluster {stored}, Slurm's cluster is {found}; set state_dir to that cluster's ledger"
    )]
    OtherCluster { stored: String, found: String },
    #[error("the ledger is broken: its accounts sum to {0} micro-SU, not to zero; restore a backup")]
    SumNotZero(i64),
    #[error("the ledger is broken: row {row} of {table} has {column} = {value}")]
    BadValue { table: &'static str, row: i64, column: &'static str, value: String },
}

impl StoreError {
    /// It lies in what was to be written, not in the database.
    pub(crate) fn is_about_a_row(&self) -> bool {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation),
            Self::BadValue { .. } => true,
            Self::Migration(_) | Self::OtherCluster { .. } | Self::SumNotZero(_) => false,
        }
    }

    /// Waiting cures nothing, and the daemon must not go on.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::OtherCluster { .. })
    }
}

/// The one writer.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
}

impl Store {
    /// Opens or creates the ledger, and brings its tables to this version.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let mut connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A committed transfer must survive a power cut.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        schema::migrations().to_latest(&mut connection)?;
        let store = Self { connection };
        store.check_sum()?;
        Ok(store)
    }

    fn check_sum(&self) -> Result<(), StoreError> {
        match ledger::sum_micros(&self.connection)? {
            0 => Ok(()),
            sum => Err(StoreError::SumNotZero(sum)),
        }
    }

    /// Everything that is open, as the last commit left it. `recent_s`: segments started since then are kept too.
    pub(crate) fn load(&self, recent_s: i64) -> Result<Book, StoreError> {
        let mut book = Book::default();
        orders::load(&self.connection, &mut book)?;
        segments::load(&self.connection, recent_s, &mut book)?;
        rounds::load(&self.connection, &mut book)?;
        evictions::load(&self.connection, &mut book)?;
        book.balances = ledger::balances(&self.connection)?;
        Ok(book)
    }

    /// Binds the ledger to a cluster at the first start, and checks it later. Returns when the ledger began.
    pub(crate) fn bind(&mut self, cluster: &str, now_s: i64) -> Result<i64, StoreError> {
        let tx = self.begin()?;
        let stored = tx.meta("cluster")?;
        match stored {
            Some(stored) if stored != cluster => {
                return Err(StoreError::OtherCluster { stored, found: cluster.into() });
            }
            Some(_) => {}
            None => {
                tx.set_meta("cluster", cluster)?;
                tx.set_meta("began_s", &now_s.to_string())?;
            }
        }
        let began_s = tx.meta("began_s")?.and_then(|text| text.parse().ok()).unwrap_or(now_s);
        tx.commit()?;
        Ok(began_s)
    }

    pub(crate) fn begin(&mut self) -> Result<Tx<'_>, StoreError> {
        Ok(Tx(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?))
    }

    /// As a full disk would.
    #[cfg(test)]
    pub(crate) fn refuse_writes(&self, refuse: bool) {
        self.connection.pragma_update(None, "query_only", refuse).expect("sets the pragma");
    }

    /// As a damaged file would: runs can be neither read nor written, all else can.
    #[cfg(test)]
    pub(crate) fn lose_segments(&self, lose: bool) {
        let names = if lose { ["segment", "segment_away"] } else { ["segment_away", "segment"] };
        let sql = format!("ALTER TABLE {} RENAME TO {}", names[0], names[1]);
        self.connection.execute_batch(&sql).expect("renames");
    }

    /// For queries that change nothing.
    pub(crate) fn reader(&self) -> &Connection {
        &self.connection
    }
}

/// An open transaction; dropped without [`Tx::commit`] it never was.
#[derive(Debug)]
pub(crate) struct Tx<'a>(Transaction<'a>);

impl Tx<'_> {
    pub(crate) fn commit(self) -> Result<(), StoreError> {
        Ok(self.0.commit()?)
    }

    pub(crate) fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        meta(&self.0, key)
    }

    pub(crate) fn set_meta(&self, key: &str, value: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
        self.0.prepare_cached(sql)?.execute((key, value))?;
        Ok(())
    }
}

pub(crate) fn meta(connection: &Connection, key: &str) -> Result<Option<String>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

#[cfg(test)]
mod tests;
