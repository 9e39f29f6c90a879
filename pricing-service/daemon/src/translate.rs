//! Slurm's records in the market's words. Everything here is a plain function of what slurm-client read.

mod jobs;
mod slurm;

use std::collections::{BTreeMap, BTreeSet};

use market::request::{GresError, gpus_of_node};
use slurm_client::TimeLimit;
use slurm_client::controller::{AdminLevel, AssociationsReply, Config, Node, Partition};

use crate::facts::{AssociationFacts, ClusterFacts, NodeGpus, PartitionFacts, UserFacts};

pub(crate) use jobs::{accounted_run, ending, jobs, without_bid};

/// Pool of GPUs whose model Slurm does not know (`Name=gpu` without `Type`).
const UNTYPED_POOL: &str = "gpu";
const MINUTE_S: i64 = 60;

/// The cluster but for its jobs. `unreadable` are the nodes whose GPUs cannot be counted; each is told of once.
pub(crate) fn cluster(
    config: &Config,
    nodes: &[Node],
    partitions: &[Partition],
    people: &AssociationsReply,
    unreadable: &mut BTreeSet<String>,
) -> ClusterFacts {
    let mut facts = ClusterFacts {
        name: config.cluster_name.clone(),
        controller_began_s: config.boot_time_s,
        over_time_limit_s: over_time_s(config.over_time_limit).unwrap_or(Some(0)),
        forgets_jobs_after_s: Some(i64::from(config.min_job_age_s)).filter(|age_s| *age_s > 0),
        jobs_are_private: config.jobs_are_private(),
        slurm: slurm::facts(config, people),
        ..ClusterFacts::default()
    };
    for node in nodes {
        match add_node(&mut facts, node) {
            Ok(()) => {
                unreadable.remove(&node.name);
            }
            Err(error) if unreadable.insert(node.name.clone()) => {
                tracing::warn!("node {}: {error}; its GPUs are not all counted", node.name);
            }
            Err(_) => {}
        }
    }
    for partition in partitions {
        let row = PartitionFacts {
            is_default: partition.is_default,
            exclusive: partition.is_exclusive,
            nodes: partition.nodes.iter().cloned().collect(),
            default_time_min: minutes(partition.default_time),
            max_time_min: minutes(partition.max_time),
            over_time_limit_s: over_time_s(partition.over_time_limit),
        };
        facts.partitions.insert(partition.name.clone(), row);
    }
    facts.associations = people.associations.iter().map(association).collect();
    for user in &people.users {
        let Some(uid) = user.uid else { continue };
        let row = UserFacts {
            name: user.name.clone(),
            default_account: default_account(user, people),
            is_operator: matches!(user.admin_level, AdminLevel::Operator | AdminLevel::Administrator),
            coordinates: user.coordinates.iter().map(|coordinates| coordinates.account.clone()).collect(),
        };
        facts.users.insert(uid, row);
    }
    facts
}

/// slurmctld keeps the default account with the association; the user's own record may lack it.
fn default_account(user: &slurm_client::controller::User, people: &AssociationsReply) -> String {
    let of_user = |association: &&slurm_client::controller::Association| {
        association.user.as_deref() == Some(user.name.as_str()) && association.is_default
    };
    let by_association =
        || people.associations.iter().find(of_user).map(|association| association.account.clone());
    user.default_account.clone().or_else(by_association).unwrap_or_default()
}

fn association(association: &slurm_client::controller::Association) -> AssociationFacts {
    AssociationFacts {
        account: association.account.clone(),
        uid: association.uid,
        partition: association.partition.clone(),
        default_qos: association.default_qos.clone().unwrap_or_default(),
        qos: association.qos.clone(),
    }
}

/// Where the use cannot be read, no GPU counts as idle.
fn add_node(facts: &mut ClusterFacts, node: &Node) -> Result<(), GresError> {
    let count = |text: &Option<String>| gpus_of_node(text.as_deref().unwrap_or_default());
    let in_use = count(&node.gres_used);
    for (model, installed) in count(&node.gres)?.iter() {
        let gpus = NodeGpus {
            installed: saturated(installed),
            in_use: saturated(in_use.as_ref().map_or(installed, |in_use| in_use.of(model))),
            in_supply: node.in_supply(),
        };
        let pool = facts.pools.entry(model.unwrap_or(UNTYPED_POOL).to_owned()).or_default();
        pool.nodes.insert(node.name.clone(), gpus);
    }
    in_use.map(|_| ())
}

fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn minutes(limit: TimeLimit) -> Option<u32> {
    match limit {
        TimeLimit::Minutes(minutes) => Some(minutes),
        TimeLimit::Unset | TimeLimit::Unlimited => None,
    }
}

/// `None`: not set here. `Some(None)`: unlimited.
fn over_time_s(limit: TimeLimit) -> Option<Option<i64>> {
    match limit {
        TimeLimit::Unset => None,
        TimeLimit::Minutes(minutes) => Some(Some(i64::from(minutes) * MINUTE_S)),
        TimeLimit::Unlimited => Some(None),
    }
}

/// The pool of each node that has GPUs of one model only.
pub(crate) fn pool_of_node(cluster: &ClusterFacts) -> BTreeMap<String, String> {
    let mut of_node: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    for (name, pool) in &cluster.pools {
        for node in pool.nodes.keys() {
            of_node.entry(node).or_default().push(name);
        }
    }
    let single = |(node, pools): (&String, Vec<&String>)| match pools.as_slice() {
        [pool] => Some((node.clone(), (*pool).clone())),
        _ => None,
    };
    of_node.into_iter().filter_map(single).collect()
}
