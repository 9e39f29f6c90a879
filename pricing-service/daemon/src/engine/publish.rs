//! The table that the plugins hold: terms, funds and factors.

use std::collections::{BTreeMap, BTreeSet};

use market::amount::Price;
use market::ledger::LedgerAccount;
use market_api::config::{ArrayEarmark, Config, NoBid, TierQos, WhenUnavailable};
use market_api::v1;
use market_api::v1::item::Item;

use super::terms::Terms;
use super::waiting::{Waiting, funds};
use crate::facts::{ClusterFacts, Facts};
use crate::model::Book;
use crate::publication::{Publication, RowKey};

pub(super) fn publication(
    config: &Config,
    facts: &Facts,
    terms: &Terms,
    book: &Book,
    waiting: &[Waiting],
    drains: bool,
) -> Publication {
    let cluster = &facts.cluster;
    let mut rows = BTreeMap::new();
    rows.insert(RowKey::Settings, Item::Settings(settings(config, cluster, drains)));
    for (name, pool) in &cluster.pools {
        let row = v1::PoolTerms {
            name: name.clone(),
            reserve_usu: terms.reserve(name).micros(),
            rho0_usu: terms.rho0(name).micros(),
            node_gpus_max: pool.node_gpus_max(),
        };
        rows.insert(RowKey::Pool(name.clone()), Item::Pool(row));
    }
    for (name, partition) in &cluster.partitions {
        let row = v1::PartitionTerms {
            name: name.clone(),
            is_default: partition.is_default,
            pools: terms.pools_of(name),
            default_time_min: partition.default_time_min,
            max_time_min: partition.max_time_min,
            over_time_limit_s: partition.over_time_limit_s.map(|limit_s| limit_s.map_or(u32::MAX, saturated)),
            exclusive: partition.exclusive,
            gpu_nodes: cluster.gpu_nodes(&[name.as_str()]),
        };
        rows.insert(RowKey::Partition(name.clone()), Item::Partition(row));
    }
    people(cluster, &mut rows);
    let funds = funds(book, waiting);
    for account in account_names(cluster, book) {
        let free_usu = funds.get(account.as_str()).copied().unwrap_or_default().free().micros();
        let row = v1::AccountTerms { name: account.clone(), free_usu };
        rows.insert(RowKey::Account(account), Item::Account(row));
    }
    for uuid in facts.known_uuids.iter().chain(book.orders.values().map(|order| &order.uuid)) {
        rows.insert(RowKey::KnownJob(uuid.clone()), Item::KnownJob(v1::KnownJob { uuid: uuid.clone() }));
    }
    for waiting in waiting {
        for (job_id, submit_s) in &waiting.records {
            let job = v1::JobKey { job_id: *job_id, submit_s: *submit_s };
            let row = v1::Factor { job: Some(job), factor: waiting.factor };
            rows.insert(RowKey::Factor { job_id: *job_id, submit_s: *submit_s }, Item::Factor(row));
        }
    }
    Publication { read_began_monotonic_ns: facts.read_began_ns, rows }
}

fn settings(config: &Config, cluster: &ClusterFacts, drains: bool) -> v1::Settings {
    let when_unavailable = match config.when_unavailable {
        WhenUnavailable::Free => v1::WhenUnavailable::Free,
        WhenUnavailable::Reject => v1::WhenUnavailable::Reject,
        WhenUnavailable::Allow => v1::WhenUnavailable::Allow,
    };
    let no_bid = match config.no_bid {
        NoBid::Unchanged => v1::NoBid::Unchanged,
        NoBid::Free => v1::NoBid::Free,
        NoBid::Reject => v1::NoBid::Reject,
        NoBid::DefaultBid => v1::NoBid::DefaultBid,
    };
    let array_earmark = match config.array_earmark {
        ArrayEarmark::AtOnce => v1::ArrayEarmark::AtOnce,
        ArrayEarmark::All => v1::ArrayEarmark::All,
    };
    v1::Settings {
        when_unavailable: when_unavailable.into(),
        no_bid: no_bid.into(),
        array_earmark: array_earmark.into(),
        stale_after_ms: config.stale_after_s.saturating_mul(1000),
        tier_qos: Some(tier_qos(&config.tiers)),
        default_bid_usu: config.default_bid.map_or(0, Price::micros),
        factor_per_doubling: config.factor.per_doubling,
        factor_step: config.factor.step,
        over_time_limit_s: cluster.over_time_limit_s.map(saturated),
        draining: drains,
    }
}

fn tier_qos(tiers: &TierQos) -> v1::TierQos {
    let TierQos { urgent, standard, spot, free, parked } = tiers.clone();
    v1::TierQos { urgent, standard, spot, free, parked }
}

fn saturated(seconds: i64) -> u32 {
    u32::try_from(seconds.max(0)).unwrap_or(u32::MAX)
}

fn people(cluster: &ClusterFacts, rows: &mut BTreeMap<RowKey, Item>) {
    for (uid, user) in &cluster.users {
        let row = v1::UserTerms {
            uid: *uid,
            name: user.name.clone(),
            default_account: user.default_account.clone(),
        };
        rows.insert(RowKey::User(*uid), Item::User(row));
    }
    for association in &cluster.associations {
        let Some(uid) = association.uid else { continue };
        let partition = association.partition.clone().unwrap_or_default();
        let key =
            v1::AssociationKey { account: association.account.clone(), uid, partition: partition.clone() };
        let row = v1::AssociationTerms {
            key: Some(key),
            default_qos: association.default_qos.clone(),
            qos: association.qos.clone(),
        };
        let key = RowKey::Association { account: association.account.clone(), uid, partition };
        rows.insert(key, Item::Association(row));
    }
}

/// Every account that Slurm or the ledger knows.
pub(super) fn account_names(cluster: &ClusterFacts, book: &Book) -> BTreeSet<String> {
    let in_slurm = cluster.associations.iter().map(|association| association.account.clone());
    let in_ledger = book.balances.iter().filter_map(|(account, _)| match account {
        LedgerAccount::Account(name) => Some(name.clone()),
        _ => None,
    });
    in_slurm.chain(in_ledger).collect()
}
