//! Partitions as slurmctld has them now.

use slurm_sys as sys;

use super::{Memory, load, records, unless_unchanged};
use crate::error::ClientError;
use crate::state::TimeLimit;
use crate::text::text;
use crate::{ffi, hosts};

/// All partitions of one moment.
#[derive(Debug, Clone)]
pub struct PartitionsReply {
    /// To be handed to the next [`partitions`]; seconds since the epoch, by slurmctld's clock.
    pub last_update_s: i64,
    pub partitions: Vec<Partition>,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    /// The names of its nodes, expanded.
    pub nodes: Vec<String>,
    pub state: PartitionState,
    pub is_default: bool,
    pub is_hidden: bool,
    /// Of jobs that ask for none; `Unset`: `max_time`.
    pub default_time: TimeLimit,
    pub max_time: TimeLimit,
    /// How long jobs may run past their limit; `Unset`: as [`Config::over_time_limit`](super::Config).
    pub over_time_limit: TimeLimit,
    pub grace_time_s: u32,
    /// Of jobs that ask for none; `None`: as [`Config::default_memory`](super::Config). A job without
    /// any gets all the memory of its nodes.
    pub default_memory: Option<Memory>,
    pub max_memory: Option<Memory>,
    /// `OverSubscribe=EXCLUSIVE`: jobs get whole nodes.
    pub is_exclusive: bool,
    /// The partition's own QOS.
    pub qos: Option<String>,
    /// Comma lists; `None` allows all, or denies none.
    pub allow_qos: Option<String>,
    pub deny_qos: Option<String>,
    pub allow_accounts: Option<String>,
    pub deny_accounts: Option<String>,
    pub allow_groups: Option<String>,
    pub priority_tier: u16,
    pub priority_job_factor: u16,
    /// `PREEMPT_MODE_*` of slurm.h; `None`: as the cluster's.
    pub preempt_mode: Option<u16>,
    pub max_nodes: Option<u32>,
    /// `TRESBillingWeights`.
    pub billing_weights: Option<String>,
    /// Configured TRES in all: `cpu=48,mem=192000M,node=3,billing=48,gres/gpu=20`.
    pub tres: Option<String>,
}

/// What a partition accepts (`PARTITION_*` of slurm.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionState {
    /// Takes and starts jobs.
    Up,
    /// Takes jobs, starts none.
    Down,
    /// Takes none, starts those that wait.
    Drain,
    Inactive,
}

/// All partitions, hidden ones included. With the `last_update_s` of an earlier reply: `None` if
/// nothing has changed since.
///
/// # Errors
/// [`ClientError::Slurm`] if slurmctld does not answer or sends a host list that cannot be read;
/// [`ClientError::NotInitialised`].
pub fn partitions(last_update_s: Option<i64>) -> Result<Option<PartitionsReply>, ClientError> {
    let flags = (sys::SHOW_ALL | sys::SHOW_DETAIL) as u16;
    // SAFETY: slurm_load_partitions leaves a message for slurm_free_partition_info_msg.
    let loaded = unsafe {
        load("slurm_load_partitions", ffi::slurm_free_partition_info_msg, |message| {
            ffi::slurm_load_partitions(last_update_s.unwrap_or(0), message, flags)
        })
    };
    let Some(message) = unless_unchanged(loaded)? else {
        return Ok(None);
    };
    // SAFETY: slurmctld's message holds `record_count` valid records.
    let partitions = unsafe { records(message.partition_array, message.record_count) }
        .iter()
        // SAFETY: as above, with all their strings.
        .map(|partition| unsafe { from_record(partition) })
        .collect::<Result<_, _>>()?;
    Ok(Some(PartitionsReply { last_update_s: message.last_update, partitions }))
}

/// # Safety
/// All pointers of `partition` are NULL or valid.
unsafe fn from_record(partition: &sys::partition_info_t) -> Result<Partition, ClientError> {
    // The field is wider on newer releases.
    #[allow(clippy::useless_conversion)]
    let flags = u32::from(partition.flags);
    let has = |flag: u32| flags & flag != 0;
    // SAFETY: the caller vouches for the strings.
    unsafe {
        Ok(Partition {
            name: text(partition.name).unwrap_or_default(),
            nodes: hosts::expand(&text(partition.nodes).unwrap_or_default())?,
            state: PartitionState::new(partition.state_up),
            is_default: has(sys::PART_FLAG_DEFAULT),
            is_hidden: has(sys::PART_FLAG_HIDDEN),
            default_time: TimeLimit::from_minutes(partition.default_time),
            max_time: TimeLimit::from_minutes(partition.max_time),
            over_time_limit: TimeLimit::from_minutes16(partition.over_time_limit),
            grace_time_s: partition.grace_time,
            default_memory: Memory::from_setting(partition.def_mem_per_cpu),
            max_memory: Memory::from_setting(partition.max_mem_per_cpu),
            is_exclusive: partition.max_share == 0,
            qos: text(partition.qos_char),
            allow_qos: text(partition.allow_qos),
            deny_qos: text(partition.deny_qos),
            allow_accounts: text(partition.allow_accounts),
            deny_accounts: text(partition.deny_accounts),
            allow_groups: text(partition.allow_groups),
            priority_tier: partition.priority_tier,
            priority_job_factor: partition.priority_job_factor,
            preempt_mode: (partition.preempt_mode != sys::NO_VAL16).then_some(partition.preempt_mode),
            max_nodes: crate::text::number(partition.max_nodes),
            billing_weights: text(partition.billing_weights_str),
            tres: text(partition.tres_fmt_str),
        })
    }
}

impl PartitionState {
    fn new(state_up: u16) -> Self {
        match u32::from(state_up) {
            sys::PARTITION_UP => Self::Up,
            sys::PARTITION_DOWN => Self::Down,
            sys::PARTITION_DRAIN => Self::Drain,
            _ => Self::Inactive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_read_with_its_sentinels() {
        let record = sys::partition_info_t {
            name: c"gpu".as_ptr().cast_mut(),
            nodes: c"gpu[1-3]".as_ptr().cast_mut(),
            // As wide as this release has the field.
            flags: sys::PART_FLAG_DEFAULT as _,
            state_up: sys::PARTITION_UP as u16,
            default_time: sys::NO_VAL,
            max_time: 1440,
            over_time_limit: sys::NO_VAL16,
            def_mem_per_cpu: sys::MEM_PER_CPU | 1000,
            max_mem_per_cpu: 0,
            max_share: 1,
            max_nodes: sys::INFINITE,
            preempt_mode: sys::NO_VAL16,
            ..Default::default()
        };
        // SAFETY: C string literals and NULL.
        let partition = unsafe { from_record(&record) }.expect("a valid host list");
        assert_eq!(partition.nodes, ["gpu1", "gpu2", "gpu3"]);
        assert_eq!(partition.state, PartitionState::Up);
        assert!(partition.is_default && !partition.is_hidden && !partition.is_exclusive);
        assert_eq!(partition.default_time, TimeLimit::Unset);
        assert_eq!(partition.max_time, TimeLimit::Minutes(1440));
        assert_eq!(partition.over_time_limit, TimeLimit::Unset);
        assert_eq!(partition.default_memory, Some(Memory::PerCpuMib(1000)));
        assert_eq!((partition.max_memory, partition.max_nodes, partition.preempt_mode), (None, None, None));
    }

    #[test]
    fn states_follow_the_two_bits() {
        assert_eq!(PartitionState::new(sys::PARTITION_DOWN as u16), PartitionState::Down);
        assert_eq!(PartitionState::new(sys::PARTITION_DRAIN as u16), PartitionState::Drain);
        assert_eq!(PartitionState::new(sys::PARTITION_INACTIVE as u16), PartitionState::Inactive);
    }
}
