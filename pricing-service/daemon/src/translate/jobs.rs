//! Jobs: what waits, what runs, and how it ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use market::request::{Ask, gpus_asked, gpus_of_tres};
use market::stamp::Stamp;
use slurm_client::accounting::{self, RunState};
use slurm_client::controller::{Job, JobFlag, Sharing};
use slurm_client::{BaseState, hosts};

use super::{MINUTE_S, UNTYPED_POOL, minutes, pool_of_node, saturated};
use crate::facts::{ClusterFacts, Ending, JobIdentity, Run, RunClock, RunEnd, Unpriced, WaitingJob};

/// What the jobs of slurmctld are to the market.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) waiting: Vec<WaitingJob>,
    pub(crate) unpriced: Vec<WaitingJob<Unpriced>>,
    pub(crate) runs: Vec<Run>,
    pub(crate) known_uuids: BTreeSet<String>,
}

pub(crate) fn jobs(records: &[Job], cluster: &ClusterFacts) -> Jobs {
    let pool_of_node = pool_of_node(cluster);
    let mut largest = LargestNodes { cluster, known: HashMap::new(), known_nodes: HashMap::new() };
    let mut jobs = Jobs::default();
    for record in records {
        let waits = record.state.base == BaseState::Pending && !record.state.has(JobFlag::Completing);
        let Some(stamp) = stamp(record.admin_comment.as_deref()) else {
            let job = waits.then(|| unpriced(record, cluster, &mut largest));
            jobs.unpriced.extend(job.filter(|job| !job.asked.is_empty()));
            continue;
        };
        let identity = identity(record, stamp, cluster);
        jobs.known_uuids.insert(identity.stamp.uuid.clone());
        if waits || is_powering_up(record) {
            jobs.waiting.push(waiting(record, identity, &mut largest));
        } else if let Some(run) = run(record, identity, &pool_of_node) {
            jobs.runs.push(run);
        }
    }
    jobs
}

/// Its nodes are being switched on. Slurm sets its start anew when they are up, and bills from then on
/// (src/slurmctld/job_mgr.c: `job_config_fini`).
fn is_powering_up(record: &Job) -> bool {
    record.state.base == BaseState::Running && record.state.has(JobFlag::PowerUpNode)
}

fn stamp(admin_comment: Option<&str>) -> Option<Stamp> {
    Stamp::find(admin_comment?).map(|(stamp, _)| stamp)
}

fn unpriced(record: &Job, cluster: &ClusterFacts, largest: &mut LargestNodes<'_>) -> WaitingJob<Unpriced> {
    waiting(record, identity(record, without_bid(record), cluster), largest)
}

/// What stands in the place of a stamp.
pub(crate) fn without_bid(record: &Job) -> Unpriced {
    let obstacle = if record.het_job_id != 0 {
        Some("a heterogeneous job takes a bid only at submission")
    } else if record.is_from_crontab() {
        Some("scrontab jobs cannot carry a bid yet")
    } else {
        None
    };
    Unpriced { obstacle }
}

fn identity<S>(record: &Job, stamp: S, cluster: &ClusterFacts) -> JobIdentity<S> {
    JobIdentity {
        job_id: record.job_id,
        array_job_id: record.array_job_id.unwrap_or(record.job_id),
        array_task_id: record.array_task_id,
        het_leader: (record.het_job_id > 0).then_some(record.het_job_id),
        stamp,
        uid: record.user_id,
        user: user_name(record.user_name.as_deref(), record.user_id, cluster),
        account: record.account.clone().unwrap_or_default(),
        partition: record.partition.clone().unwrap_or_default(),
        qos: record.qos.clone(),
        submitted_s: record.submit_time_s.unwrap_or(0),
        eligible_s: record.eligible_time_s.unwrap_or(0),
        time_limit_s: minutes(record.time_limit).map(|minutes| i64::from(minutes) * MINUTE_S),
    }
}

/// slurmctld leaves the name out of job records; the associations have it.
fn user_name(told: Option<&str>, uid: u32, cluster: &ClusterFacts) -> String {
    let by_uid = || cluster.users.get(&uid).map(|user| user.name.clone());
    told.map(str::to_owned).or_else(by_uid).unwrap_or_else(|| uid.to_string())
}

fn waiting<S>(record: &Job, identity: JobIdentity<S>, largest: &mut LargestNodes<'_>) -> WaitingJob<S> {
    let tasks = u64::try_from(record.array_tasks.len()).unwrap_or(u64::MAX).max(1);
    let display_id = match &record.array_task_str {
        Some(tasks) => format!("{}_[{tasks}]", identity.array_job_id),
        None => identity.display_id(),
    };
    let asked = asked(record, &identity.partition, largest);
    let gpus_least = asked.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
    WaitingJob {
        tasks,
        at_once: (record.array_max_tasks > 0).then_some(record.array_max_tasks),
        display_id,
        nodes_least: nodes_least(record, &identity.partition, &asked, largest),
        gpus_most: gpus_most(record, &identity.partition, largest).max(gpus_least),
        asked,
        held: record.is_held() || is_powering_up(record),
        reason: record.state_reason_text.clone(),
        identity,
    }
}

/// GPUs of the request as slurmctld counts it. A job that takes whole nodes takes all their GPUs.
fn asked(record: &Job, partition: &str, largest: &mut LargestNodes<'_>) -> BTreeMap<Option<String>, u64> {
    let counted = gpus_of_tres(record.tres_req.as_deref().unwrap_or_default()).unwrap_or_default();
    let mut asked: BTreeMap<Option<String>, u64> =
        counted.iter().map(|(model, count)| (model.map(str::to_owned), count)).collect();
    let takes_whole_nodes = record.sharing == Sharing::Exclusive;
    if takes_whole_nodes {
        let nodes = u64::from(record.num_nodes.max(1));
        let models: BTreeSet<Option<String>> = asked.keys().cloned().collect();
        let models = if models.is_empty() { BTreeSet::from([None]) } else { models };
        for model in models {
            let whole = nodes * u64::from(largest.gpus(partition, model.as_deref()));
            asked.entry(model).and_modify(|count| *count = (*count).max(whole)).or_insert(whole);
        }
    }
    asked.retain(|_, count| *count > 0);
    asked
}

/// As the plugin counted at submission: the request at its largest shape, on the nodes that there are. slurmctld's own
/// count in the record is that of the smallest.
fn gpus_most(record: &Job, partition: &str, largest: &mut LargestNodes<'_>) -> u64 {
    // 24.11 states the least number for the most as well where only tasks were said, until it has planned the job
    // (src/slurmctld/job_mgr.c: `_pack_default_job_details`); what starts is paid for as it started.
    let stated_nodes = record.max_nodes > 0;
    let ask = Ask {
        tres_per_job: record.tres_per_job.as_deref(),
        tres_per_node: record.tres_per_node.as_deref(),
        tres_per_socket: record.tres_per_socket.as_deref(),
        tres_per_task: record.tres_per_task.as_deref(),
        min_nodes: stated_nodes.then_some(record.num_nodes),
        max_nodes: stated_nodes.then_some(record.max_nodes),
        // One for each node is what slurmctld fills in where nothing was said.
        num_tasks: record.num_tasks.filter(|tasks| *tasks > record.num_nodes),
        exclusive: record.sharing == Sharing::Exclusive,
        node_gpus_max: largest.gpus(partition, None),
        nodes_usable_max: Some(largest.nodes(partition)),
        ..Ask::default()
    };
    gpus_asked(&ask).map_or(0, |gpus| gpus.total())
}

/// Slurm tells the least number of nodes that was asked for; GPUs asked for by the job as a whole (`--gpus=12`) can
/// need more.
fn nodes_least(
    record: &Job,
    partition: &str,
    asked: &BTreeMap<Option<String>, u64>,
    largest: &mut LargestNodes<'_>,
) -> u32 {
    let told = record.num_nodes.max(1);
    let has_gpus = |tres: &Option<String>| tres.as_deref().is_some_and(|tres| tres.contains("gpu"));
    if !has_gpus(&record.tres_per_job) || has_gpus(&record.tres_per_node) {
        return told;
    }
    let needed = asked.iter().map(|(model, count)| {
        let on_node = u64::from(largest.gpus(partition, model.as_deref()));
        saturated(count.div_ceil(on_node.max(1)))
    });
    needed.fold(told, u32::max)
}

/// Most GPUs on one node, by partitions and model, and how many nodes there are; jobs ask alike, so each answer is kept.
struct LargestNodes<'a> {
    cluster: &'a ClusterFacts,
    known: HashMap<(String, Option<String>), u32>,
    known_nodes: HashMap<String, u32>,
}

impl LargestNodes<'_> {
    fn gpus(&mut self, partition_list: &str, model: Option<&str>) -> u32 {
        let cluster = self.cluster;
        let key = (partition_list.to_owned(), model.map(str::to_owned));
        *self.known.entry(key).or_insert_with(|| {
            let pools = cluster.pools.iter();
            let pools = pools.filter(|(name, _)| model.is_none_or(|model| model == name.as_str()));
            let nodes = pools.flat_map(|(_, pool)| &pool.nodes);
            let in_partition = nodes.filter(|(node, _)| cluster.reaches(partition_list, node));
            in_partition.map(|(_, gpus)| gpus.installed).max().unwrap_or(0)
        })
    }

    /// Nodes with GPUs in the partitions.
    fn nodes(&mut self, partition_list: &str) -> u32 {
        let cluster = self.cluster;
        let count = || {
            let names: Vec<&str> = partition_list.split(',').collect();
            cluster.gpu_nodes(&names)
        };
        *self.known_nodes.entry(partition_list.to_owned()).or_insert_with(count)
    }
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
    let clock = clock(record, start_s);
    Some(Run { identity, start_s, end, clock, can_be_requeued: record.batch && record.requeue, gpus, nodes })
}

/// As squeue reckons a job's time (src/common/job_info: `pre_sus_time` is counted at each suspension).
fn clock(record: &Job, start_s: i64) -> RunClock {
    match record.suspend_time_s {
        None => RunClock { counted_s: 0, running_since_s: Some(start_s) },
        Some(changed_s) => RunClock {
            counted_s: record.run_before_suspension_s,
            running_since_s: (record.state.base == BaseState::Running).then_some(changed_s),
        },
    }
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

/// An ended run as slurmdbd keeps it; `None` if it is no market job's, or has not run or not ended.
pub(crate) fn accounted_run(
    record: &accounting::Run,
    pool_of_node: &BTreeMap<String, String>,
) -> Option<Run> {
    let (start_s, end_s) = (record.segment_start_s()?, record.end_s?);
    if is_empty_piece(record) {
        return None;
    }
    let (stamp, _) = Stamp::find(record.admin_comment.as_deref()?)?;
    let nodes = node_names(record.nodes.as_deref());
    let gpus = held_gpus(record.tres_alloc.as_deref()?, &nodes, pool_of_node);
    let identity = JobIdentity {
        job_id: record.job_id,
        array_job_id: record.array_job_id.unwrap_or(record.job_id),
        array_task_id: record.array_task_id,
        het_leader: None,
        stamp,
        uid: record.uid,
        user: record.user.clone().unwrap_or_else(|| record.uid.to_string()),
        account: record.account.clone().unwrap_or_default(),
        partition: record.partition.clone().unwrap_or_default(),
        qos: None,
        submitted_s: record.submit_s,
        eligible_s: record.eligible_s.unwrap_or(0),
        time_limit_s: minutes(record.time_limit).map(|minutes| i64::from(minutes) * MINUTE_S),
    };
    let end = Some(RunEnd { end_s, suspended_s: Some(record.suspended_s) });
    let counted_s = end_s.saturating_sub(start_s).saturating_sub(record.suspended_s).max(0);
    let clock = RunClock { counted_s, running_since_s: None };
    Some(Run { identity, start_s, end, clock, can_be_requeued: false, gpus, nodes })
}

/// The end of a run, whatever became of its stamp; `None` if it has not run or not ended.
pub(crate) fn ending(record: &accounting::Run) -> Option<Ending> {
    if is_empty_piece(record) {
        return None;
    }
    Some(Ending {
        job_id: record.job_id,
        start_s: record.segment_start_s()?,
        end_s: record.end_s?,
        suspended_s: record.suspended_s,
    })
}

/// A change of size in the second of the start (or of the change before) leaves a piece without length. What counts
/// is the next one, which has the same start.
fn is_empty_piece(record: &accounting::Run) -> bool {
    record.state == RunState::Resized && record.end_s <= record.segment_start_s()
}

#[cfg(test)]
mod tests;
