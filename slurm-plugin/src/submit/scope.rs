//! Where a job may start: its partitions and the pools in them.

use std::collections::BTreeMap;

use market::amount::Price;
use market::order::{Tier, least_limit_ceil};
use market::request::Gpus;

use super::refusal::Refusal;
use crate::snapshot::{Partition, Pool, Snapshot};

/// The partitions of a submission. Names that the snapshot does not have are Slurm's to judge; if it has none of
/// them, the job could be anywhere: all pools count.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub partitions: Vec<(&'a str, &'a Partition)>,
    pub pools: BTreeMap<&'a str, &'a Pool>,
    pub is_exclusive: bool,
}

impl<'a> Scope<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, listed: Option<&str>) -> Self {
        let partitions: Vec<_> = snapshot
            .partitions
            .iter()
            .filter(|(name, partition)| match listed {
                Some(listed) if !listed.is_empty() => listed.split(',').any(|one| one.trim() == *name),
                _ => partition.is_default,
            })
            .map(|(name, partition)| (name.as_str(), partition))
            .collect();
        let is_inside = |pool: &str| {
            partitions.is_empty()
                || partitions.iter().any(|(_, partition)| partition.pools.iter().any(|name| name == pool))
        };
        let pools = snapshot
            .pools
            .iter()
            .filter(|(name, _)| is_inside(name))
            .map(|(name, pool)| (name.as_str(), pool));
        Self {
            pools: pools.collect(),
            is_exclusive: partitions.iter().any(|(_, partition)| partition.exclusive),
            partitions,
        }
    }

    pub(super) fn node_gpus_max(&self) -> u32 {
        self.pools.values().map(|pool| pool.node_gpus_max).max().unwrap_or(0)
    }

    /// No more nodes than these can give GPUs; `None`: nobody knows. Overlapping partitions count a node twice.
    pub(super) fn nodes_usable_max(&self) -> Option<u32> {
        let nodes = |sum: u32, (_, partition): &(&str, &Partition)| sum.saturating_add(partition.gpu_nodes);
        Some(self.partitions.iter().fold(0, nodes)).filter(|nodes| *nodes > 0)
    }

    /// Whether any of the GPUs may come from a pool.
    pub(super) fn has_any(&self, gpus: &Gpus) -> bool {
        gpus.iter().any(|(model, _)| match model {
            Some(model) => self.pools.contains_key(model),
            None => !self.pools.is_empty(),
        })
    }

    /// The pools that the job's GPUs may come from: those named, or all if any GPU has no model.
    pub(super) fn pools_of(&self, gpus: &Gpus) -> Result<PoolsAsked<'a>, Refusal> {
        if let Some((model, _)) =
            gpus.iter().find(|(model, _)| model.is_some_and(|model| !self.pools.contains_key(model)))
        {
            return Err(Refusal::unknown_model(
                model.unwrap_or_default(),
                self.pools.keys().copied(),
                &self.names(),
            ));
        }
        if self.pools.is_empty() {
            return Err(Refusal::no_pools(&self.names()));
        }
        let is_untyped = gpus.of(None) > 0 || gpus.is_empty();
        let asked = |name: &str| is_untyped || gpus.of(Some(name)) > 0;
        let pools =
            self.pools.iter().filter(|(name, _)| asked(name)).map(|(name, pool)| (*name, *pool)).collect();
        Ok(PoolsAsked { pools, is_untyped })
    }

    fn names(&self) -> String {
        self.partitions.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",")
    }
}

/// The pools a job may start in; at least one.
#[derive(Debug)]
pub(super) struct PoolsAsked<'a> {
    pools: Vec<(&'a str, &'a Pool)>,
    is_untyped: bool,
}

impl<'a> PoolsAsked<'a> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a Pool> {
        self.pools.iter().map(|(_, pool)| *pool)
    }

    /// The limit must buy in every pool: nobody knows before the start which one it will be.
    pub(super) fn check_limit(&self, limit: Price, tier: Tier) -> Result<(), Refusal> {
        let least = |pool: &Pool| least_limit_ceil(pool.reserve, tier);
        let prices = || self.pools.iter().map(|(name, pool)| (least(pool), *name));
        let Some((dearest, pool)) = prices().max() else { return Ok(()) };
        if limit >= dearest {
            return Ok(());
        }
        let payable = prices().filter(|(price, _)| *price <= limit).max().filter(|_| self.is_untyped);
        Err(Refusal::limit_too_low(limit, tier, dearest, pool, payable.map(|(_, name)| name)))
    }
}
