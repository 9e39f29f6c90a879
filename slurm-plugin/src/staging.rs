//! Builds snapshots out of the daemon's messages: rows are staged until a commit makes them valid, all at once.

use std::collections::HashSet;
use std::sync::Arc;

use market::amount::{Amount, Price};
use market_api::v1::{self, item, key};
use uuid::Uuid;

use crate::snapshot::{AssociationKey, JobKey, Partition, Pool, Settings, Snapshot, User};

/// What one commit made valid.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) snapshot: Snapshot,
    /// Submissions whose jobs the figures contain, or that are over.
    pub(crate) known: Arc<HashSet<Uuid>>,
    /// CLOCK_MONOTONIC at which the daemon began the read of slurmctld that the figures rest on.
    pub(crate) read_began_ns: u64,
    /// Factors that are new or have changed, for the whole snapshot after a reset.
    pub(crate) changed: Vec<(JobKey, u32)>,
}

/// A row that means nothing: the daemon is not one of ours, or not of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the market service sent a row that cannot be read ({0})")]
pub(crate) struct BadRow(&'static str);

/// The rows held so far.
#[derive(Debug)]
pub(crate) struct Staging {
    file: Settings,
    rows: Snapshot,
    known: Arc<HashSet<Uuid>>,
    /// Changed since the last commit.
    changed: Vec<JobKey>,
    /// A commit means nothing before the first whole snapshot of a stream.
    began: bool,
}

impl Staging {
    /// For one stream; `file` holds where the daemon says nothing.
    pub(crate) fn new(file: Settings) -> Self {
        let rows = Snapshot::empty(file.clone());
        Self { file, rows, known: Arc::default(), changed: Vec::new(), began: false }
    }

    /// Takes in one message and says what it committed. Bad rows are left out and the first of them is told.
    pub(crate) fn apply(&mut self, update: v1::Update) -> (Option<Commit>, Result<(), BadRow>) {
        if update.reset {
            let file = self.file.clone();
            *self = Self { began: true, ..Self::new(file) };
        }
        let mut told = Ok(());
        for row in update.remove {
            told = told.and(self.remove(row.key));
        }
        for row in update.upsert {
            told = told.and(self.upsert(row.item));
        }
        let commit = (update.commit && self.began).then(|| self.commit(update.read_began_monotonic_ns));
        (commit, told)
    }

    fn commit(&mut self, read_began_ns: u64) -> Commit {
        let changed = std::mem::take(&mut self.changed);
        let with_factor = |key: JobKey| self.rows.factors.get(&key).map(|factor| (key, *factor));
        Commit {
            changed: changed.into_iter().filter_map(with_factor).collect(),
            snapshot: self.rows.clone(),
            known: Arc::clone(&self.known),
            read_began_ns,
        }
    }

    fn upsert(&mut self, item: Option<item::Item>) -> Result<(), BadRow> {
        use item::Item;
        match item.ok_or(BadRow("item"))? {
            Item::Settings(said) => self.rows.settings = Arc::new(Settings::from_daemon(&said, &self.file)),
            Item::Pool(row) => {
                let pool = pool(&row).ok_or(BadRow("pool"))?;
                Arc::make_mut(&mut self.rows.pools).insert(row.name, pool);
            }
            Item::Partition(row) => {
                let (name, partition) = partition(row);
                Arc::make_mut(&mut self.rows.partitions).insert(name, partition);
            }
            Item::Account(row) => {
                Arc::make_mut(&mut self.rows.accounts).insert(row.name, Amount::from_micros(row.free_usu));
            }
            Item::Association(row) => {
                let key = association_key(row.key.ok_or(BadRow("association"))?);
                Arc::make_mut(&mut self.rows.associations).insert(key, row.default_qos);
            }
            Item::User(row) => {
                let user = User { name: row.name, default_account: row.default_account };
                Arc::make_mut(&mut self.rows.users).insert(row.uid, user);
            }
            Item::KnownJob(row) => {
                let uuid = Uuid::parse_str(&row.uuid).map_err(|_| BadRow("known job"))?;
                Arc::make_mut(&mut self.known).insert(uuid);
            }
            Item::Factor(row) => {
                let key = job_key(row.job.ok_or(BadRow("factor"))?);
                let former = Arc::make_mut(&mut self.rows.factors).insert(key, row.factor);
                if former != Some(row.factor) {
                    self.changed.push(key);
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self, key: Option<key::Key>) -> Result<(), BadRow> {
        use key::Key;
        match key.ok_or(BadRow("key"))? {
            Key::Pool(name) => drop(Arc::make_mut(&mut self.rows.pools).remove(&name)),
            Key::Partition(name) => drop(Arc::make_mut(&mut self.rows.partitions).remove(&name)),
            Key::Account(name) => drop(Arc::make_mut(&mut self.rows.accounts).remove(&name)),
            Key::Association(key) => {
                drop(Arc::make_mut(&mut self.rows.associations).remove(&association_key(key)))
            }
            Key::UserUid(uid) => drop(Arc::make_mut(&mut self.rows.users).remove(&uid)),
            Key::KnownUuid(uuid) => {
                let uuid = Uuid::parse_str(&uuid).map_err(|_| BadRow("known job"))?;
                Arc::make_mut(&mut self.known).remove(&uuid);
            }
            Key::Factor(key) => drop(Arc::make_mut(&mut self.rows.factors).remove(&job_key(key))),
        }
        Ok(())
    }
}

fn pool(row: &v1::PoolTerms) -> Option<Pool> {
    Some(Pool {
        reserve: Price::from_micros(row.reserve_usu)?,
        rho0: Price::from_micros(row.rho0_usu)?,
        node_gpus_max: row.node_gpus_max,
    })
}

fn partition(row: v1::PartitionTerms) -> (String, Partition) {
    let partition = Partition {
        is_default: row.is_default,
        pools: row.pools,
        default_time_min: row.default_time_min,
        max_time_min: row.max_time_min,
        over_time_limit_s: row.over_time_limit_s,
        exclusive: row.exclusive,
        gpu_nodes: row.gpu_nodes,
    };
    (row.name, partition)
}

fn association_key(key: v1::AssociationKey) -> AssociationKey {
    AssociationKey { account: key.account, uid: key.uid, partition: key.partition }
}

fn job_key(key: v1::JobKey) -> JobKey {
    JobKey { job_id: key.job_id, submit_s: key.submit_s }
}

#[cfg(test)]
mod tests;
