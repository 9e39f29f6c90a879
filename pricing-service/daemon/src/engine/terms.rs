//! The site's terms as they apply to the cluster that was found: pools with their parameters, and what a partition
//! lets a job use.

use std::collections::{BTreeMap, BTreeSet};

use market::amount::Price;
use market::metering::escrow_horizon_s;
use market::order::{FactorScale, Tier};
use market::pool::PoolParams;
use market_api::config::{Config, TierQos};

use crate::facts::{ClusterFacts, PartitionFacts, PoolFacts};
use crate::model::Order;

/// Weight of a GPU model that market.toml does not name, in µSU: one SU per GPU-hour.
const DEFAULT_WEIGHT_USU: i64 = 1_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) pools: BTreeMap<String, PoolParams>,
    pub(crate) scale: FactorScale,
    pub(crate) qos: TierQos,
    /// Pools with a node in the partition.
    pools_of_partition: BTreeMap<String, BTreeSet<String>>,
}

impl Terms {
    pub(crate) fn new(config: &Config, cluster: &ClusterFacts) -> Self {
        let pools = cluster.pools.keys().map(|name| (name.clone(), params(config, name))).collect();
        let scale = FactorScale { per_doubling: config.factor.per_doubling, step: config.factor.step };
        let of_partition = |(name, partition): (&String, &PartitionFacts)| {
            (name.clone(), pools_of_nodes(cluster, partition))
        };
        let pools_of_partition = cluster.partitions.iter().map(of_partition).collect();
        Self { pools, scale, qos: config.tiers.clone(), pools_of_partition }
    }

    /// The tier of an order whose job Slurm now has in this QOS: that of the QOS, if it is a tier's and the limit buys it.
    pub(crate) fn tier_in(&self, qos: Option<&str>, order: &Order) -> Tier {
        let of_qos = qos.and_then(|qos| self.qos.tier_of(qos));
        of_qos.filter(|tier| !tier.is_paid() || order.limit > Price::ZERO).unwrap_or(order.tier)
    }

    pub(crate) fn reserve(&self, pool: &str) -> Price {
        self.pools.get(pool).map_or(Price::ZERO, PoolParams::reserve)
    }

    pub(crate) fn rho0(&self, pool: &str) -> Price {
        self.pools.get(pool).map_or_else(|| params(&Config::default(), pool).rho0(), PoolParams::rho0)
    }

    /// Pools with a node in one of the partitions of a comma list.
    pub(crate) fn pools_of(&self, partition_list: &str) -> Vec<String> {
        let of_each = partition_list.split(',').filter_map(|name| self.pools_of_partition.get(name));
        let pools: BTreeSet<&String> = of_each.flatten().collect();
        pools.into_iter().cloned().collect()
    }

    /// Of several possible pools that of the lowest margin, which is that of the highest reserve. (design "Models":
    /// unpinned orders rank by the lowest margin)
    pub(crate) fn home_of<'a>(&self, pools: &'a [String]) -> Option<&'a str> {
        let by_reserve = |name: &&'a String| (self.reserve(name), std::cmp::Reverse(name.as_str()));
        pools.iter().max_by_key(by_reserve).map(String::as_str)
    }
}

fn pools_of_nodes(cluster: &ClusterFacts, partition: &PartitionFacts) -> BTreeSet<String> {
    let has_node = |pool: &PoolFacts| pool.nodes.keys().any(|node| partition.nodes.contains(node));
    cluster.pools.iter().filter(|(_, pool)| has_node(pool)).map(|(name, _)| name.clone()).collect()
}

pub(crate) fn params(config: &Config, name: &str) -> PoolParams {
    let configured = config.pools.get(name);
    PoolParams {
        name: name.into(),
        weight: configured
            .map(|pool| pool.weight)
            .unwrap_or_else(|| Price::from_micros(DEFAULT_WEIGHT_USU).unwrap_or_default()),
        reserve_price: configured.and_then(|pool| pool.reserve_price),
    }
}

/// Time limit with OverTimeLimit, in seconds; `None`: unlimited. Of several partitions the longest counts.
pub(crate) fn run_limit_s(
    cluster: &ClusterFacts,
    partition_list: &str,
    time_limit_s: Option<i64>,
) -> Option<i64> {
    let over = cluster
        .partitions_of(partition_list)
        .map(|partition| partition.over_time_limit_s.unwrap_or(cluster.over_time_limit_s))
        .reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b)))
        .unwrap_or(cluster.over_time_limit_s);
    time_limit_s.zip(over).map(|(limit, over)| limit.saturating_add(over))
}

/// h of design "Funds" for a run limit that already contains OverTimeLimit.
pub(crate) fn horizon_s(run_limit_s: Option<i64>) -> i64 {
    escrow_horizon_s(run_limit_s, Some(0))
}
