//! What differs between the versions of Slurm, for these tests.

use slurm_sys::SLURM_VERSION_NUMBER;

/// job_modify can tell the user why (since 23.02).
pub(crate) const CHANGES_HAVE_ERR_MSG: bool = SLURM_VERSION_NUMBER >= 0x17_02_00;
/// Priority plugins have priority_p_recover and priority_p_thread_start (both since 23.11).
pub(crate) const PRIORITY_IS_STARTED_IN_STEPS: bool = SLURM_VERSION_NUMBER >= 0x17_0b_00;
/// `job_details.whole_node` of jobs that take their nodes with all GPUs, and of others: bits since 24.11, where several
/// come together; values before (`WHOLE_NODE_*` in Slurm's headers).
pub(crate) const WHOLE_NODES: &[u32] = if HAS_BITS_OF_WHOLE_NODES { &[1, 1 | 2, 1 | 8] } else { &[1] };
pub(crate) const NOT_WHOLE_NODES: &[u32] = if HAS_BITS_OF_WHOLE_NODES { &[0, 2, 4, 8] } else { &[0, 2, 3] };
const HAS_BITS_OF_WHOLE_NODES: bool = SLURM_VERSION_NUMBER >= 0x18_0b_00;
