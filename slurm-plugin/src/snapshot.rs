//! What the plugin knows of the market: an immutable picture, read by callbacks without a lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use market::amount::Price;
use market::order::FactorScale;
use market::pool::PoolParams;
use market_api::config::{ArrayEarmark, Config, NoBid, TierQos, WhenUnavailable};
use market_api::v1;

use crate::funds::FreeByAccount;

/// The site's choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub when_unavailable: WhenUnavailable,
    pub no_bid: NoBid,
    pub array_earmark: ArrayEarmark,
    /// Silence of the daemon from which on it counts as gone.
    pub stale_after: Duration,
    /// The limit of jobs without a bid, where the site chose one.
    pub default_bid: Option<Price>,
    pub qos: TierQos,
    pub factor: FactorScale,
    /// Slurm's OverTimeLimit in seconds, for partitions without their own; `None`: unlimited.
    pub over_time_limit_s: Option<i64>,
    /// The market is being taken out of service.
    pub draining: bool,
}

impl Settings {
    /// What market.toml says. OverTimeLimit is not in it; it only matters to checks that need the daemon's figures.
    pub fn from_config(config: &Config) -> Self {
        Self {
            when_unavailable: config.when_unavailable,
            no_bid: config.no_bid,
            array_earmark: config.array_earmark,
            stale_after: config.stale_after(),
            default_bid: config.default_bid,
            qos: config.tiers.clone(),
            factor: FactorScale { per_doubling: config.factor.per_doubling, step: config.factor.step },
            over_time_limit_s: Some(0),
            draining: false,
        }
    }

    /// What the daemon says; where it says nothing, what market.toml says.
    pub fn from_daemon(said: &v1::Settings, file: &Self) -> Self {
        Self {
            when_unavailable: match said.when_unavailable() {
                v1::WhenUnavailable::Unspecified => file.when_unavailable,
                v1::WhenUnavailable::Free => WhenUnavailable::Free,
                v1::WhenUnavailable::Reject => WhenUnavailable::Reject,
                v1::WhenUnavailable::Allow => WhenUnavailable::Allow,
            },
            no_bid: match said.no_bid() {
                v1::NoBid::Unspecified => file.no_bid,
                v1::NoBid::Unchanged => NoBid::Unchanged,
                v1::NoBid::Free => NoBid::Free,
                v1::NoBid::Reject => NoBid::Reject,
                v1::NoBid::DefaultBid => NoBid::DefaultBid,
            },
            default_bid: Price::from_micros(said.default_bid_usu)
                .filter(|price| *price > Price::ZERO)
                .or(file.default_bid),
            array_earmark: match said.array_earmark() {
                v1::ArrayEarmark::Unspecified => file.array_earmark,
                v1::ArrayEarmark::AtOnce => ArrayEarmark::AtOnce,
                v1::ArrayEarmark::All => ArrayEarmark::All,
            },
            stale_after: match said.stale_after_ms {
                0 => file.stale_after,
                ms => Duration::from_millis(ms.into()),
            },
            qos: said.tier_qos.as_ref().map_or_else(|| file.qos.clone(), |said| qos(said, &file.qos)),
            factor: match (said.factor_per_doubling, said.factor_step) {
                (0, _) | (_, 0) => file.factor,
                (per_doubling, step) => FactorScale { per_doubling, step },
            },
            over_time_limit_s: said.over_time_limit_s.map(i64::from),
            draining: said.draining,
        }
    }
}

fn qos(said: &v1::TierQos, file: &TierQos) -> TierQos {
    TierQos {
        urgent: or_else(&said.urgent, &file.urgent),
        standard: or_else(&said.standard, &file.standard),
        spot: or_else(&said.spot, &file.spot),
        free: or_else(&said.free, &file.free),
        parked: or_else(&said.parked, &file.parked),
    }
}

fn or_else(said: &str, otherwise: &str) -> String {
    if said.is_empty() { otherwise.to_owned() } else { said.to_lowercase() }
}

/// All GPUs of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    pub reserve: Price,
    pub rho0: Price,
    /// Most GPUs of this pool on one node; 0 if nobody said yet.
    pub node_gpus_max: u32,
}

/// A partition of Slurm. Minutes and seconds as there; `None`: unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partition {
    pub is_default: bool,
    /// Names of the pools with a node in it.
    pub pools: Vec<String>,
    pub default_time_min: Option<u32>,
    pub max_time_min: Option<u32>,
    /// `None`: the cluster's.
    pub over_time_limit_s: Option<u32>,
    pub exclusive: bool,
    /// Nodes that have GPUs.
    pub gpu_nodes: u32,
}

/// Names an association. Associations that hold in every partition have an empty one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AssociationKey {
    pub account: String,
    pub uid: u32,
    pub partition: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub default_account: String,
}

/// Slurm gives a job id again after MaxJobId; the submit time tells the jobs apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobKey {
    pub job_id: u32,
    pub submit_s: i64,
}

/// A picture of the market at one commit of the daemon. Tables that did not change are shared with the one before.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub settings: Arc<Settings>,
    pub pools: Arc<BTreeMap<String, Pool>>,
    pub partitions: Arc<BTreeMap<String, Partition>>,
    /// The figures are in [`crate::funds::Funds`] as well; here they say which accounts there are.
    pub accounts: Arc<FreeByAccount>,
    /// The default QOS of each association; empty: none.
    pub associations: Arc<HashMap<AssociationKey, String>>,
    pub users: Arc<HashMap<u32, User>>,
    /// Without NICE_OFFSET.
    pub factors: Arc<HashMap<JobKey, u32>>,
}

impl Snapshot {
    /// What is known before the daemon ever spoke: the file.
    pub fn of_file(config: &Config) -> Self {
        let pools = config.pools.iter().map(|(name, pool)| {
            let params =
                PoolParams { name: name.clone(), weight: pool.weight, reserve_price: pool.reserve_price };
            (name.clone(), Pool { reserve: params.reserve(), rho0: params.rho0(), node_gpus_max: 0 })
        });
        Self { pools: Arc::new(pools.collect()), ..Self::empty(Settings::from_config(config)) }
    }

    /// No rows but the settings.
    pub fn empty(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
            pools: Arc::default(),
            partitions: Arc::default(),
            accounts: Arc::default(),
            associations: Arc::default(),
            users: Arc::default(),
            factors: Arc::default(),
        }
    }

    /// The first of the market's QOS in what `--qos` says: one name, or several since Slurm 24.11.
    pub fn market_qos_in<'q>(&self, qos_list: &'q str) -> Option<&'q str> {
        qos_list.split(',').find(|qos| self.settings.qos.is_market(qos))
    }
}
