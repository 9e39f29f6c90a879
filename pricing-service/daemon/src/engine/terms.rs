//! The site's terms as they apply to the cluster that was found: pools with their parameters, and what a partition
//! lets a job use.

use std::collections::BTreeMap;

use market::amount::Price;
use market::metering::escrow_horizon_s;
use market::order::FactorScale;
use market::pool::PoolParams;
use market_api::config::Config;

use crate::facts::ClusterFacts;

/// Weight of a GPU model that market.toml does not name, in µSU: one SU per GPU-hour.
const DEFAULT_WEIGHT_USU: i64 = 1_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) pools: BTreeMap<String, PoolParams>,
    pub(crate) scale: FactorScale,
}

impl Terms {
    pub(crate) fn new(config: &Config, cluster: &ClusterFacts) -> Self {
        let pools = cluster.pools.keys().map(|name| (name.clone(), params(config, name))).collect();
        let scale = FactorScale { per_doubling: config.factor.per_doubling, step: config.factor.step };
        Self { pools, scale }
    }

    pub(crate) fn reserve(&self, pool: &str) -> Price {
        self.pools.get(pool).map_or(Price::ZERO, PoolParams::reserve)
    }

    pub(crate) fn rho0(&self, pool: &str) -> Price {
        self.pools.get(pool).map_or_else(|| params(&Config::default(), pool).rho0(), PoolParams::rho0)
    }
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

/// The partitions of a comma list that the cluster has.
fn partitions<'a>(
    cluster: &'a ClusterFacts,
    list: &'a str,
) -> impl Iterator<Item = &'a crate::facts::PartitionFacts> {
    list.split(',').filter_map(|name| cluster.partitions.get(name))
}

/// Pools with a node in one of the partitions.
pub(crate) fn pools_of(cluster: &ClusterFacts, partition_list: &str) -> Vec<String> {
    let has_node = |pool: &crate::facts::PoolFacts| {
        partitions(cluster, partition_list)
            .any(|partition| pool.nodes.keys().any(|node| partition.nodes.contains(node)))
    };
    cluster.pools.iter().filter(|(_, pool)| has_node(pool)).map(|(name, _)| name.clone()).collect()
}

/// Whether any of the partitions holds the node.
pub(crate) fn reaches_node(cluster: &ClusterFacts, partition_list: &str, node: &str) -> bool {
    partitions(cluster, partition_list).any(|partition| partition.nodes.contains(node))
}

/// Time limit with OverTimeLimit, in seconds; `None`: unlimited. Of several partitions the longest counts.
pub(crate) fn run_limit_s(
    cluster: &ClusterFacts,
    partition_list: &str,
    time_limit_s: Option<i64>,
) -> Option<i64> {
    let over = partitions(cluster, partition_list)
        .map(|partition| partition.over_time_limit_s.unwrap_or(cluster.over_time_limit_s))
        .reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b)))
        .unwrap_or(cluster.over_time_limit_s);
    time_limit_s.zip(over).map(|(limit, over)| limit.saturating_add(over))
}

/// h of design "Funds" for a run limit that already contains OverTimeLimit.
pub(crate) fn horizon_s(run_limit_s: Option<i64>) -> i64 {
    escrow_horizon_s(run_limit_s, Some(0))
}
