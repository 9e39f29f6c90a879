//! Slurm's records in the market's words. Everything here is a plain function of what slurm-client read.

use std::collections::{BTreeMap, BTreeSet};

use market::request::{Gpus, gpus_of_node, gpus_of_tres};
use market::stamp::Stamp;
use slurm_client::accounting;
use slurm_client::controller::{
    AdminLevel, AssociationsReply, Config, Job, JobFlag, Node, Partition, Sharing,
};
use slurm_client::{BaseState, TimeLimit, hosts};

use crate::facts::{
    AssociationFacts, ClusterFacts, JobIdentity, NodeGpus, PartitionFacts, Run, RunEnd, UserFacts, WaitingJob,
};

/// Pool of GPUs whose model Slurm does not know (`Name=gpu` without `Type`).
const UNTYPED_POOL: &str = "gpu";
const MINUTE_S: i64 = 60;

/// The cluster but for its jobs.
pub(crate) fn cluster(
    config: &Config,
    nodes: &[Node],
    partitions: &[Partition],
    people: &AssociationsReply,
) -> ClusterFacts {
    let mut facts = ClusterFacts {
        name: config.cluster_name.clone(),
        over_time_limit_s: over_time_s(config.over_time_limit).unwrap_or(Some(0)),
        forgets_jobs_after_s: Some(i64::from(config.min_job_age_s)).filter(|age_s| *age_s > 0),
        ..ClusterFacts::default()
    };
    for node in nodes {
        add_node(&mut facts, node);
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

fn add_node(facts: &mut ClusterFacts, node: &Node) {
    let count = |text: &Option<String>| {
        let counted = gpus_of_node(text.as_deref().unwrap_or_default());
        counted.unwrap_or_else(|error| {
            tracing::warn!("node {}: {error}", node.name);
            Gpus::default()
        })
    };
    let in_use = count(&node.gres_used);
    for (model, installed) in count(&node.gres).iter() {
        let gpus = NodeGpus {
            installed: saturated(installed),
            in_use: saturated(in_use.of(model)),
            in_supply: node.in_supply(),
        };
        let pool = facts.pools.entry(model.unwrap_or(UNTYPED_POOL).to_owned()).or_default();
        pool.nodes.insert(node.name.clone(), gpus);
    }
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

/// What the jobs of slurmctld are to the market.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) waiting: Vec<WaitingJob>,
    pub(crate) runs: Vec<Run>,
    pub(crate) known_uuids: BTreeSet<String>,
}

pub(crate) fn jobs(records: &[Job], cluster: &ClusterFacts) -> Jobs {
    let pool_of_node = pool_of_node(cluster);
    let mut jobs = Jobs::default();
    for record in records {
        let Some(identity) = identity(record, cluster) else { continue };
        jobs.known_uuids.insert(identity.stamp.uuid.clone());
        let waits = record.state.base == BaseState::Pending && !record.state.has(JobFlag::Completing);
        if waits {
            jobs.waiting.push(waiting(record, identity, cluster));
        } else if let Some(run) = run(record, identity, &pool_of_node) {
            jobs.runs.push(run);
        }
    }
    jobs
}

fn identity(record: &Job, cluster: &ClusterFacts) -> Option<JobIdentity> {
    let (stamp, _) = Stamp::find(record.admin_comment.as_deref()?)?;
    Some(JobIdentity {
        job_id: record.job_id,
        array_job_id: record.array_job_id.unwrap_or(record.job_id),
        array_task_id: record.array_task_id,
        stamp,
        uid: record.user_id,
        user: user_name(record.user_name.as_deref(), record.user_id, cluster),
        account: record.account.clone().unwrap_or_default(),
        partition: record.partition.clone().unwrap_or_default(),
        submitted_s: record.submit_time_s.unwrap_or(0),
        eligible_s: record.eligible_time_s.unwrap_or(0),
        time_limit_s: minutes(record.time_limit).map(|minutes| i64::from(minutes) * MINUTE_S),
    })
}

/// slurmctld leaves the name out of job records; the associations have it.
fn user_name(told: Option<&str>, uid: u32, cluster: &ClusterFacts) -> String {
    let by_uid = || cluster.users.get(&uid).map(|user| user.name.clone());
    told.map(str::to_owned).or_else(by_uid).unwrap_or_else(|| uid.to_string())
}

fn waiting(record: &Job, identity: JobIdentity, cluster: &ClusterFacts) -> WaitingJob {
    let tasks = u64::try_from(record.array_tasks.len()).unwrap_or(u64::MAX).max(1);
    let display_id = match &record.array_task_str {
        Some(tasks) => format!("{}_[{tasks}]", identity.array_job_id),
        None => identity.display_id(),
    };
    WaitingJob {
        tasks,
        at_once: (record.array_max_tasks > 0).then_some(record.array_max_tasks),
        display_id,
        asked: asked(record, &identity, cluster),
        nodes_least: record.num_nodes.max(1),
        held: record.is_held(),
        reason: record.state_reason_text.clone(),
        identity,
    }
}

/// GPUs of the request as slurmctld counts it. A job that takes whole nodes takes all their GPUs.
fn asked(record: &Job, identity: &JobIdentity, cluster: &ClusterFacts) -> BTreeMap<Option<String>, u64> {
    let counted = gpus_of_tres(record.tres_req.as_deref().unwrap_or_default()).unwrap_or_default();
    let mut asked: BTreeMap<Option<String>, u64> =
        counted.iter().map(|(model, count)| (model.map(str::to_owned), count)).collect();
    let takes_whole_nodes = record.sharing == Sharing::Exclusive;
    if takes_whole_nodes {
        let nodes = u64::from(record.num_nodes.max(1));
        let models: BTreeSet<Option<String>> = asked.keys().cloned().collect();
        let models = if models.is_empty() { BTreeSet::from([None]) } else { models };
        for model in models {
            let on_node = node_gpus_max(cluster, &identity.partition, model.as_deref());
            let whole = nodes * u64::from(on_node);
            asked.entry(model).and_modify(|count| *count = (*count).max(whole)).or_insert(whole);
        }
    }
    asked.retain(|_, count| *count > 0);
    asked
}

fn node_gpus_max(cluster: &ClusterFacts, partition_list: &str, model: Option<&str>) -> u32 {
    let in_partition = |node: &String| {
        partition_list
            .split(',')
            .filter_map(|name| cluster.partitions.get(name))
            .any(|partition| partition.nodes.contains(node))
    };
    cluster
        .pools
        .iter()
        .filter(|(name, _)| model.is_none_or(|model| model == name.as_str()))
        .flat_map(|(_, pool)| &pool.nodes)
        .filter(|(node, _)| in_partition(node))
        .map(|(_, gpus)| gpus.installed)
        .max()
        .unwrap_or(0)
}

fn run(record: &Job, identity: JobIdentity, pool_of_node: &BTreeMap<String, String>) -> Option<Run> {
    // A job that changed its size is another run from then on.
    let start_s = record.start_time_s?.max(record.resize_time_s.unwrap_or(0));
    let nodes = node_names(record.nodes.as_deref());
    let gpus = held_gpus(record.tres_alloc.as_deref()?, &nodes, pool_of_node);
    let is_over = record.state.base.is_finished();
    let end = is_over.then(|| RunEnd {
        end_s: record.end_time_s.unwrap_or(start_s),
        // slurmctld does not tell how long a job was suspended in all; slurmdbd does.
        suspended_s: record.suspend_time_s.is_none().then_some(0),
    });
    Some(Run { identity, start_s, end, gpus, nodes })
}

fn node_names(list: Option<&str>) -> BTreeSet<String> {
    let Some(list) = list else { return BTreeSet::new() };
    hosts::expand(list).unwrap_or_default().into_iter().collect()
}

/// GPUs by pool. Where the record does not name the model, the nodes tell it.
fn held_gpus(
    tres: &str,
    nodes: &BTreeSet<String>,
    pool_of_node: &BTreeMap<String, String>,
) -> BTreeMap<String, u32> {
    let mut held: BTreeMap<String, u32> = BTreeMap::new();
    for (model, count) in gpus_of_tres(tres).unwrap_or_default().iter() {
        let by_node = || nodes.iter().find_map(|node| pool_of_node.get(node)).map(String::as_str);
        let pool = model.or_else(by_node).unwrap_or(UNTYPED_POOL).to_owned();
        let of_pool = held.entry(pool).or_default();
        *of_pool = of_pool.saturating_add(saturated(count));
    }
    held
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

/// An ended run as slurmdbd keeps it; `None` if it is no market job's, or has not run or not ended.
pub(crate) fn accounted_run(
    record: &accounting::Run,
    pool_of_node: &BTreeMap<String, String>,
) -> Option<Run> {
    let (start_s, end_s) = (record.segment_start_s()?, record.end_s?);
    let (stamp, _) = Stamp::find(record.admin_comment.as_deref()?)?;
    let nodes = node_names(record.nodes.as_deref());
    let gpus = held_gpus(record.tres_alloc.as_deref()?, &nodes, pool_of_node);
    let identity = JobIdentity {
        job_id: record.job_id,
        array_job_id: record.array_job_id.unwrap_or(record.job_id),
        array_task_id: record.array_task_id,
        stamp,
        uid: record.uid,
        user: record.user.clone().unwrap_or_else(|| record.uid.to_string()),
        account: record.account.clone().unwrap_or_default(),
        partition: record.partition.clone().unwrap_or_default(),
        submitted_s: record.submit_s,
        eligible_s: record.eligible_s.unwrap_or(0),
        time_limit_s: minutes(record.time_limit).map(|minutes| i64::from(minutes) * MINUTE_S),
    };
    let end = Some(RunEnd { end_s, suspended_s: Some(record.suspended_s) });
    Some(Run { identity, start_s, end, gpus, nodes })
}
