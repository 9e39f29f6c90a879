//! Nodes as slurmctld has them now.

use slurm_sys as sys;

use super::{load, records, unless_unchanged};
use crate::error::ClientError;
use crate::ffi;
use crate::text::{seconds, text};

/// All nodes of one moment.
#[derive(Debug, Clone)]
pub struct NodesReply {
    /// To be handed to the next [`nodes`]; seconds since the epoch, by slurmctld's clock.
    pub last_update_s: i64,
    pub nodes: Vec<Node>,
}

/// One node. Which partitions it is in, the partitions say ([`Partition::nodes`](super::Partition)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub hostname: Option<String>,
    pub address: Option<String>,
    pub state: NodeState,
    /// Why it is down or drained.
    pub reason: Option<String>,
    pub cpus: u16,
    /// CPUs less those set aside for the system.
    pub cpus_effective: u16,
    pub real_memory_mib: u64,
    /// Memory set aside for the system.
    pub system_memory_mib: u64,
    /// Configured GRES: `gpu:a100:8`, `gpu:a100:8(S:0-1)`.
    pub gres: Option<String>,
    /// In use now: `gpu:a100:3(IDX:0-2)`.
    pub gres_used: Option<String>,
    /// Configured TRES: `cpu=16,mem=64000M,billing=16,gres/gpu=8`.
    pub tres: Option<String>,
    pub features: Option<String>,
    pub features_active: Option<String>,
    pub boot_time_s: Option<i64>,
    pub slurmd_start_time_s: Option<i64>,
    /// Release of its slurmd.
    pub version: Option<String>,
}

/// A node's base state and flags (slurm.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeState {
    raw: u32,
}

/// Flags of a node's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum NodeFlag {
    /// In an active reservation.
    Reserved = sys::NODE_STATE_RES,
    Cloud = sys::NODE_STATE_CLOUD,
    /// Drained, or draining while jobs are on it.
    Drain = sys::NODE_STATE_DRAIN,
    Completing = sys::NODE_STATE_COMPLETING,
    NoRespond = sys::NODE_STATE_NO_RESPOND,
    PoweredDown = sys::NODE_STATE_POWERED_DOWN,
    Fail = sys::NODE_STATE_FAIL,
    PoweringUp = sys::NODE_STATE_POWERING_UP,
    /// In a maintenance reservation.
    Maintenance = sys::NODE_STATE_MAINT,
    RebootRequested = sys::NODE_STATE_REBOOT_REQUESTED,
    PoweringDown = sys::NODE_STATE_POWERING_DOWN,
    DynamicFuture = sys::NODE_STATE_DYNAMIC_FUTURE,
    RebootIssued = sys::NODE_STATE_REBOOT_ISSUED,
    /// Planned for a job by backfill.
    Planned = sys::NODE_STATE_PLANNED,
    /// slurmd registered with less than slurm.conf promises.
    InvalidRegistration = sys::NODE_STATE_INVALID_REG,
}

/// Flags that take a node off the market. Nodes that power saving has switched off stay on it: a job
/// brings them back.
const NOT_SUPPLY: u32 = NodeFlag::Reserved as u32
    | NodeFlag::Drain as u32
    | NodeFlag::NoRespond as u32
    | NodeFlag::Fail as u32
    | NodeFlag::Maintenance as u32
    | NodeFlag::DynamicFuture as u32
    | NodeFlag::RebootIssued as u32
    | NodeFlag::InvalidRegistration as u32;

impl NodeState {
    pub fn has(self, flag: NodeFlag) -> bool {
        self.raw & flag as u32 != 0
    }

    pub fn is_down(self) -> bool {
        self.raw & sys::NODE_STATE_BASE == sys::NODE_STATE_DOWN
    }

    /// A slot of slurm.conf without a node yet.
    pub fn is_future(self) -> bool {
        self.raw & sys::NODE_STATE_BASE == sys::NODE_STATE_FUTURE
    }

    /// Up, responding, and neither drained, draining, failing, reserved nor in maintenance: its GPUs
    /// count as supply.
    pub fn in_supply(self) -> bool {
        let works = matches!(
            self.raw & sys::NODE_STATE_BASE,
            sys::NODE_STATE_IDLE | sys::NODE_STATE_ALLOCATED | sys::NODE_STATE_MIXED
        );
        works && self.raw & NOT_SUPPLY == 0
    }
}

impl Node {
    /// See [`NodeState::in_supply`].
    pub fn in_supply(&self) -> bool {
        self.state.in_supply()
    }
}

/// All nodes. With the `last_update_s` of an earlier reply: `None` if nothing has changed since.
///
/// # Errors
/// [`ClientError::Slurm`] if slurmctld does not answer; [`ClientError::NotInitialised`].
pub fn nodes(last_update_s: Option<i64>) -> Result<Option<NodesReply>, ClientError> {
    let flags = (sys::SHOW_ALL | sys::SHOW_DETAIL | sys::SHOW_MIXED) as u16;
    // SAFETY: slurm_load_node leaves a message for slurm_free_node_info_msg.
    let loaded = unsafe {
        load("slurm_load_node", ffi::slurm_free_node_info_msg, |message| {
            ffi::slurm_load_node(last_update_s.unwrap_or(0), message, flags)
        })
    };
    let Some(message) = unless_unchanged(loaded)? else {
        return Ok(None);
    };
    // SAFETY: slurmctld's message holds `record_count` valid records.
    let nodes = unsafe { records(message.node_array, message.record_count) }
        .iter()
        // SAFETY: as above, with all their strings.
        .filter_map(|node| unsafe { from_record(node) })
        .collect();
    Ok(Some(NodesReply { last_update_s: message.last_update, nodes }))
}

/// `None` for a slot that slurmctld leaves empty, such as a deleted node's.
///
/// # Safety
/// All pointers of `node` are NULL or valid.
unsafe fn from_record(node: &sys::node_info_t) -> Option<Node> {
    // SAFETY: the caller vouches for the strings.
    unsafe {
        Some(Node {
            name: text(node.name)?,
            hostname: text(node.node_hostname),
            address: text(node.node_addr),
            state: NodeState { raw: node.node_state },
            reason: text(node.reason),
            cpus: node.cpus,
            cpus_effective: node.cpus_efctv,
            real_memory_mib: node.real_memory,
            system_memory_mib: node.mem_spec_limit,
            gres: text(node.gres),
            gres_used: text(node.gres_used),
            tres: text(node.tres_fmt_str),
            features: text(node.features),
            features_active: text(node.features_act),
            boot_time_s: seconds(node.boot_time),
            slurmd_start_time_s: seconds(node.slurmd_start_time),
            version: text(node.version),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(raw: u32) -> NodeState {
        NodeState { raw }
    }

    #[test]
    fn supply_is_what_a_job_could_get() {
        assert!(state(sys::NODE_STATE_IDLE).in_supply());
        assert!(state(sys::NODE_STATE_MIXED | sys::NODE_STATE_COMPLETING).in_supply());
        assert!(state(sys::NODE_STATE_ALLOCATED | sys::NODE_STATE_PLANNED).in_supply());
        assert!(
            state(sys::NODE_STATE_IDLE | sys::NODE_STATE_CLOUD | sys::NODE_STATE_POWERED_DOWN).in_supply()
        );
    }

    #[test]
    fn nodes_out_of_service_are_no_supply() {
        for base in
            [sys::NODE_STATE_UNKNOWN, sys::NODE_STATE_DOWN, sys::NODE_STATE_ERROR, sys::NODE_STATE_FUTURE]
        {
            assert!(!state(base).in_supply(), "base state {base}");
        }
        for flag in
            [NodeFlag::Drain, NodeFlag::Reserved, NodeFlag::Maintenance, NodeFlag::Fail, NodeFlag::NoRespond]
        {
            assert!(!state(sys::NODE_STATE_ALLOCATED | flag as u32).in_supply(), "{flag:?}");
        }
        assert!(state(sys::NODE_STATE_DOWN | sys::NODE_STATE_DRAIN).is_down());
    }

    #[test]
    fn empty_slots_are_left_out() {
        // SAFETY: all pointers are NULL.
        assert_eq!(unsafe { from_record(&sys::node_info_t::default()) }, None);
        let node = sys::node_info_t {
            name: c"gpu1".as_ptr().cast_mut(),
            gres: c"gpu:a100:8".as_ptr().cast_mut(),
            node_state: sys::NODE_STATE_IDLE,
            ..Default::default()
        };
        // SAFETY: C string literals and NULL.
        let node = unsafe { from_record(&node) }.expect("has a name");
        assert_eq!((node.name.as_str(), node.gres.as_deref()), ("gpu1", Some("gpu:a100:8")));
        assert!(node.in_supply());
    }
}
