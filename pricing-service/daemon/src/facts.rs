//! What one read of Slurm tells, in the market's own words.
//!
//! The engine sees nothing else of Slurm: it compares these facts with the ledger and brings both into line, so a
//! lost event or an outage costs nothing but time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use market::stamp::Stamp;
use market_api::doctor::SlurmConf;

/// Everything read from slurmctld in one go.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// CLOCK_MONOTONIC in nanoseconds before the jobs were read.
    pub(crate) read_began_ns: u64,
    /// The same after it.
    pub(crate) read_ended_ns: u64,
    /// UTC seconds of the read.
    pub(crate) as_of_s: i64,
    pub(crate) cluster: ClusterFacts,
    pub(crate) waiting: Vec<WaitingJob>,
    /// Pending jobs with GPUs that carry no stamp: Slurm alone schedules them, and nobody pays for them.
    pub(crate) unpriced: Vec<WaitingJob<Unpriced>>,
    /// Runs of market jobs that slurmctld still knows: running, or ended within MinJobAge.
    pub(crate) runs: Vec<Run>,
    /// Every job id with a market stamp in slurmctld, whatever its state.
    pub(crate) known_uuids: BTreeSet<String>,
    /// slurmctld holds back nothing from slurmdbd.
    pub(crate) accounting_queue_is_empty: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClusterFacts {
    pub(crate) name: String,
    /// When slurmctld started.
    pub(crate) controller_began_s: Option<i64>,
    /// `None`: unlimited.
    pub(crate) over_time_limit_s: Option<i64>,
    /// Slurm's MinJobAge; `None`: ended jobs are never forgotten.
    pub(crate) forgets_jobs_after_s: Option<i64>,
    /// Slurm's PrivateData=jobs: users see their own jobs only.
    pub(crate) jobs_are_private: bool,
    /// By GPU model.
    pub(crate) pools: BTreeMap<String, PoolFacts>,
    pub(crate) partitions: BTreeMap<String, PartitionFacts>,
    pub(crate) users: BTreeMap<u32, UserFacts>,
    pub(crate) associations: Vec<AssociationFacts>,
    pub(crate) slurm: SlurmFacts,
}

/// What `sbid admin doctor` looks at, and nobody else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SlurmFacts {
    /// Of slurmctld: `22.05.8`.
    pub(crate) version: String,
    /// But for PrioritySiteFactorPlugin, of which slurmctld 22.05 says nothing.
    pub(crate) conf: SlurmConf,
    /// slurmctld's own slurm.conf.
    pub(crate) conf_file: PathBuf,
    /// Where munged listens.
    pub(crate) munge_socket: PathBuf,
    /// Names of all QOS.
    pub(crate) qos: BTreeSet<String>,
}

impl ClusterFacts {
    /// The partitions of a comma list that the cluster has.
    pub(crate) fn partitions_of<'a>(&'a self, list: &'a str) -> impl Iterator<Item = &'a PartitionFacts> {
        list.split(',').filter_map(|name| self.partitions.get(name))
    }

    /// How many nodes of these partitions have GPUs, whatever their state.
    pub(crate) fn gpu_nodes(&self, partitions: &[&str]) -> u32 {
        let nodes: BTreeSet<&String> = self.pools.values().flat_map(|pool| pool.nodes.keys()).collect();
        let inside = |node: &&&String| {
            let holds =
                |name: &&str| self.partitions.get(*name).is_some_and(|held| held.nodes.contains(**node));
            partitions.iter().any(holds)
        };
        u32::try_from(nodes.iter().filter(inside).count()).unwrap_or(u32::MAX)
    }

    /// The association that Slurm charges for a job: that of its partition if there is one.
    pub(crate) fn association_of<S>(&self, job: &JobIdentity<S>) -> Option<&AssociationFacts> {
        let of_user = |association: &&AssociationFacts| {
            association.uid == Some(job.uid) && association.account == job.account
        };
        let find = |partition: Option<&str>| {
            let mut of_user = self.associations.iter().filter(of_user);
            of_user.find(|association| association.partition.as_deref() == partition)
        };
        find(job.partition.split(',').next()).or_else(|| find(None))
    }

    /// Whether any of the partitions of a comma list holds the node.
    pub(crate) fn reaches(&self, partition_list: &str, node: &str) -> bool {
        self.partitions_of(partition_list).any(|partition| partition.nodes.contains(node))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PoolFacts {
    /// GPUs of each node, down ones too.
    pub(crate) nodes: BTreeMap<String, NodeGpus>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeGpus {
    pub(crate) installed: u32,
    pub(crate) in_use: u32,
    /// Not down, drained or reserved.
    pub(crate) in_supply: bool,
}

impl PoolFacts {
    pub(crate) fn installed(&self) -> u32 {
        self.nodes.values().map(|node| node.installed).fold(0, u32::saturating_add)
    }

    pub(crate) fn in_supply(&self) -> u32 {
        let in_supply = self.nodes.values().filter(|node| node.in_supply);
        in_supply.map(|node| node.installed).fold(0, u32::saturating_add)
    }

    pub(crate) fn idle(&self) -> u32 {
        let idle = |node: &NodeGpus| node.installed.saturating_sub(node.in_use);
        self.nodes.values().filter(|node| node.in_supply).map(idle).fold(0, u32::saturating_add)
    }

    pub(crate) fn node_gpus_max(&self) -> u32 {
        self.nodes.values().map(|node| node.installed).max().unwrap_or(0)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PartitionFacts {
    pub(crate) is_default: bool,
    pub(crate) exclusive: bool,
    pub(crate) nodes: BTreeSet<String>,
    /// Minutes; `None`: unlimited.
    pub(crate) default_time_min: Option<u32>,
    pub(crate) max_time_min: Option<u32>,
    /// `Some` when the partition has its own; the inner `None`: unlimited.
    pub(crate) over_time_limit_s: Option<Option<i64>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserFacts {
    pub(crate) name: String,
    pub(crate) default_account: String,
    /// slurmdbd's AdminLevel is Operator or more.
    pub(crate) is_operator: bool,
    pub(crate) coordinates: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AssociationFacts {
    pub(crate) account: String,
    /// `None` for the association of an account itself, and for users whose uid slurmctld does not know.
    pub(crate) uid: Option<u32>,
    pub(crate) partition: Option<String>,
    pub(crate) default_qos: String,
    pub(crate) qos: Vec<String>,
}

impl AssociationFacts {
    /// Slurm's own default where it names none.
    pub(crate) fn default_qos(&self) -> &str {
        Some(self.default_qos.as_str()).filter(|name| !name.is_empty()).unwrap_or(SLURMS_DEFAULT_QOS)
    }
}

/// Of an association that names none.
const SLURMS_DEFAULT_QOS: &str = "normal";

/// What every record of a market job carries; `S` stands for what makes it one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobIdentity<S = Stamp> {
    /// Slurm's own id of the record.
    pub(crate) job_id: u32,
    /// The array's id, or the job's own.
    pub(crate) array_job_id: u32,
    pub(crate) array_task_id: Option<u32>,
    /// Id of the first component of a heterogeneous job; all of them start together.
    pub(crate) het_leader: Option<u32>,
    pub(crate) stamp: S,
    pub(crate) uid: u32,
    pub(crate) user: String,
    pub(crate) account: String,
    pub(crate) partition: String,
    /// `None` where this source does not tell.
    pub(crate) qos: Option<String>,
    /// Slurm's present submit time; a requeue moves it.
    pub(crate) submitted_s: i64,
    /// 0: not yet.
    pub(crate) eligible_s: i64,
    /// `None`: unlimited.
    pub(crate) time_limit_s: Option<i64>,
}

impl<S> JobIdentity<S> {
    /// The same job with another stamp.
    fn stamped<T>(self, stamp: T) -> JobIdentity<T> {
        let Self { job_id, array_job_id, array_task_id, stamp: _, uid, user, account, .. } = self;
        let Self { het_leader, partition, qos, submitted_s, eligible_s, time_limit_s, .. } = self;
        JobIdentity {
            job_id,
            array_job_id,
            array_task_id,
            het_leader,
            stamp,
            uid,
            user,
            account,
            partition,
            qos,
            submitted_s,
            eligible_s,
            time_limit_s,
        }
    }

    /// As Slurm writes it: `12` or `12_3`.
    pub(crate) fn display_id(&self) -> String {
        match self.array_task_id {
            Some(task) => format!("{}_{task}", self.array_job_id),
            None => self.job_id.to_string(),
        }
    }
}

/// A pending market job, or the pending tasks of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingJob<S = Stamp> {
    pub(crate) identity: JobIdentity<S>,
    pub(crate) tasks: u64,
    pub(crate) at_once: Option<u32>,
    /// As Slurm writes it: `12`, `12_[3-9%2]`.
    pub(crate) display_id: String,
    /// GPUs asked for by each task; `None`: any model.
    pub(crate) asked: BTreeMap<Option<String>, u64>,
    pub(crate) nodes_least: u32,
    /// GPUs that each task may come to hold (`-N1-4`), which is what funds must cover; at least those in `asked`.
    pub(crate) gpus_most: u64,
    /// Held, or on nodes that are still being switched on.
    pub(crate) held: bool,
    /// Slurm's reason in its own word, e.g. `Resources`.
    pub(crate) reason: String,
}

impl<S> WaitingJob<S> {
    /// The same job with another stamp.
    pub(crate) fn stamped<T>(self, stamp: T) -> WaitingJob<T> {
        let Self { identity, tasks, at_once, display_id, asked, nodes_least, gpus_most, held, reason } = self;
        let identity = identity.stamped(stamp);
        WaitingJob { identity, tasks, at_once, display_id, asked, nodes_least, gpus_most, held, reason }
    }
}

/// What stands in the place of a stamp where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unpriced {
    /// Why such a job can carry no bid.
    pub(crate) obstacle: Option<&'static str>,
}

/// One run segment of a market job: from a start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) identity: JobIdentity,
    pub(crate) start_s: i64,
    pub(crate) end: Option<RunEnd>,
    pub(crate) clock: RunClock,
    /// A batch job that Slurm may requeue; others can only be cancelled.
    pub(crate) can_be_requeued: bool,
    /// GPUs held of each pool.
    pub(crate) gpus: BTreeMap<String, u32>,
    pub(crate) nodes: BTreeSet<String>,
}

/// How long a run has really run: suspended time does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunClock {
    pub(crate) counted_s: i64,
    /// It has been running since then, on top of what is counted; `None`: suspended.
    pub(crate) running_since_s: Option<i64>,
}

impl RunClock {
    pub(crate) fn reading_s(self, now_s: i64) -> i64 {
        let since = self.running_since_s.map_or(0, |since_s| now_s.saturating_sub(since_s).max(0));
        self.counted_s.saturating_add(since)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunEnd {
    pub(crate) end_s: i64,
    /// `None` where this source cannot tell; the accounting record can.
    pub(crate) suspended_s: Option<i64>,
}

/// The end of a run by its accounting record, whatever became of the stamp in it: who is known to the ledger needs no
/// stamp any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) job_id: u32,
    pub(crate) start_s: i64,
    pub(crate) end_s: i64,
    pub(crate) suspended_s: i64,
}
