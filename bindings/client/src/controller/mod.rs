//! What slurmctld knows, read and changed through its RPCs.
//!
//! Each function opens a connection of its own, blocks until the answer or about `MessageTimeout`,
//! and may be called from any thread after [`init`](crate::init()).

mod associations;
mod config;
mod intervene;
mod job;
mod jobs;
mod nodes;
mod partitions;
mod reason;
mod statistics;
mod update;

use std::ffi::c_int;
use std::ops::Deref;

use slurm_sys as sys;

pub use associations::{AdminLevel, Association, AssociationsReply, Coordinates, Qos, User, associations};
pub use config::{Config, Enforce, PriorityWeights, config};
pub use intervene::{SignalTo, cancel_job, notify_job, requeue_job, signal_job};
pub use job::{Job, JobFlag, JobState, Memory, Sharing};
pub use jobs::{JobsReply, jobs};
pub use nodes::{Node, NodeFlag, NodeState, NodesReply, nodes};
pub use partitions::{Partition, PartitionState, PartitionsReply, partitions};
pub use statistics::{Statistics, ping, statistics};
pub use update::{JobUpdate, update_job};

use crate::error::ClientError;
use crate::init::require_init;

/// A message that libslurm allocated, freed with its own function.
#[derive(Debug)]
struct Message<M> {
    message: *mut M,
    free: unsafe extern "C" fn(*mut M),
}

impl<M> Deref for Message<M> {
    type Target = M;

    fn deref(&self) -> &M {
        // SAFETY: `load` made it from a valid message, which lives until the drop.
        unsafe { &*self.message }
    }
}

impl<M> Drop for Message<M> {
    fn drop(&mut self) {
        // SAFETY: owned, freed once, by the function that belongs to it.
        unsafe { (self.free)(self.message) };
    }
}

/// Runs one `slurm_load_*` and takes over its message.
///
/// # Safety
/// On success `request` leaves a valid message that `free` frees, or NULL.
unsafe fn load<M>(
    call: &'static str,
    free: unsafe extern "C" fn(*mut M),
    request: impl FnOnce(*mut *mut M) -> c_int,
) -> Result<Message<M>, ClientError> {
    require_init()?;
    let mut message = std::ptr::null_mut();
    if request(&mut message) != sys::SLURM_SUCCESS {
        return Err(ClientError::last(call, sys::SLURM_UNEXPECTED_MSG_ERROR));
    }
    if message.is_null() {
        return Err(ClientError::with_code(call, crate::error::code_of(sys::SLURM_UNEXPECTED_MSG_ERROR)));
    }
    Ok(Message { message, free })
}

/// "No change in data" is an answer, not an error.
fn unless_unchanged<M>(loaded: Result<Message<M>, ClientError>) -> Result<Option<Message<M>>, ClientError> {
    match loaded {
        Ok(message) => Ok(Some(message)),
        Err(error) if error.has_code(sys::SLURM_NO_CHANGE_IN_DATA) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The records of a message.
///
/// # Safety
/// `records` is NULL or points to `count` of them, valid for `'a`.
unsafe fn records<'a, R>(records: *const R, count: u32) -> &'a [R] {
    if records.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(records, count as usize) }
}
