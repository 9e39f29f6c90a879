//! What slurmctld knows of one job.

use slurm_sys as sys;

use crate::state::{BaseState, TimeLimit};

/// One record of slurmctld: a job, one task of an array, or the pending rest of an array.
///
/// Times are in seconds since the epoch; `None` is Slurm's 0 or "not set". The default has nothing set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// Of this record. The pending rest of an array, later its last task, has the array's own id.
    pub job_id: u32,
    /// `None` outside arrays.
    pub array_job_id: Option<u32>,
    /// `None` outside arrays and for the pending rest of an array.
    pub array_task_id: Option<u32>,
    /// The tasks of the pending rest of an array, as squeue shows them with their limit: `0-9%2`. Long
    /// lists end in `...`.
    pub array_task_str: Option<String>,
    /// The same tasks, complete and in order; empty for every other record.
    pub array_tasks: Vec<u32>,
    /// How many tasks of the array may run at once (`%2`); 0 is no limit.
    pub array_max_tasks: u32,
    /// Id of the leader; 0 outside heterogeneous jobs.
    pub het_job_id: u32,
    pub het_job_offset: Option<u32>,
    pub name: Option<String>,
    pub user_id: u32,
    pub group_id: u32,
    /// Not always sent by slurmctld.
    pub user_name: Option<String>,
    pub association_id: u32,
    pub account: Option<String>,
    /// Several, with commas, while pending.
    pub partition: Option<String>,
    pub qos: Option<String>,
    pub reservation: Option<String>,
    pub comment: Option<String>,
    pub admin_comment: Option<String>,
    pub system_comment: Option<String>,
    pub state: JobState,
    /// Number of `enum job_state_reason`.
    pub state_reason: u32,
    /// Slurm's name for it, as squeue shows it: `Priority`, `Resources`, `JobHeldUser`.
    pub state_reason_text: String,
    pub state_description: Option<String>,
    pub dependency: Option<String>,
    /// 0 is held.
    pub priority: u32,
    /// What the site adds to the priority, without Slurm's `NICE_OFFSET`; 0 if not set.
    pub site_factor: i32,
    pub time_limit: TimeLimit,
    /// `Unset` without `--time-min`.
    pub time_min: TimeLimit,
    /// Rewritten at each requeue.
    pub submit_time_s: Option<i64>,
    pub eligible_time_s: Option<i64>,
    /// When the job began to gather priority by age.
    pub accrue_time_s: Option<i64>,
    /// Of a pending job: when the scheduler expects it to start.
    pub start_time_s: Option<i64>,
    /// Of a running job: when its limit ends it.
    pub end_time_s: Option<i64>,
    pub deadline_s: Option<i64>,
    /// When the job was last suspended or resumed.
    pub suspend_time_s: Option<i64>,
    /// Seconds that the job had run when it was last suspended.
    pub run_before_suspension_s: i64,
    pub resize_time_s: Option<i64>,
    pub preempt_time_s: Option<i64>,
    pub preemptable_time_s: Option<i64>,
    /// Requeues and restarts so far.
    pub restart_count: u32,
    /// Host list of a job with an allocation; see [`hosts::expand`](crate::hosts::expand).
    pub nodes: Option<String>,
    pub required_nodes: Option<String>,
    pub excluded_nodes: Option<String>,
    pub batch_host: Option<String>,
    /// Allocated nodes, or the least number asked for while pending.
    pub num_nodes: u32,
    /// 0 is not set.
    pub max_nodes: u32,
    /// Allocated CPUs, or the least number asked for while pending.
    pub num_cpus: u32,
    pub num_tasks: Option<u32>,
    pub cpus_per_task: u16,
    pub memory: Memory,
    /// Cores set aside for the system (`--core-spec`).
    pub core_spec: Option<u16>,
    /// With names: `cpu=1,mem=1000M,node=1,billing=1,gres/gpu=8`.
    pub tres_req: Option<String>,
    /// The same of the allocation; `None` while pending.
    pub tres_alloc: Option<String>,
    pub tres_per_job: Option<String>,
    pub tres_per_node: Option<String>,
    pub tres_per_socket: Option<String>,
    pub tres_per_task: Option<String>,
    pub cpus_per_tres: Option<String>,
    pub mem_per_tres: Option<String>,
    /// Allocated GRES in all: `gpu:a100:8`.
    pub gres_total: Option<String>,
    /// One item per allocated node, in the order of `nodes`: `gpu:a100:2(IDX:0-1)`, or empty. Sent for
    /// running jobs.
    pub gres_detail: Vec<String>,
    pub features: Option<String>,
    pub licenses: Option<String>,
    pub sharing: Sharing,
    /// May be requeued.
    pub requeue: bool,
    /// Has a script, so it is neither salloc nor srun.
    pub batch: bool,
    /// Flags such as `CRON_JOB` of slurm.h.
    pub bitflags: u64,
}

impl Job {
    /// Submitted by scrontab: such jobs refuse updates.
    pub fn is_from_crontab(&self) -> bool {
        self.bitflags & u64::from(sys::CRON_JOB) != 0
    }

    /// Pending, and not to be started until someone releases it. (A suspended job has priority 0 too.)
    pub fn is_held(&self) -> bool {
        self.state.base == BaseState::Pending && self.priority == 0
    }
}

/// A job's state with its flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobState {
    pub base: BaseState,
    flags: u32,
}

impl JobState {
    /// From slurmctld's number: a base state and flags.
    pub fn from_number(job_state: u32) -> Self {
        Self {
            base: BaseState::from_number(job_state & sys::JOB_STATE_BASE),
            flags: job_state & sys::JOB_STATE_FLAGS,
        }
    }

    pub fn has(self, flag: JobFlag) -> bool {
        self.flags & flag as u32 != 0
    }
}

/// Flags that go with a [`BaseState`] (slurm.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum JobFlag {
    LaunchFailed = sys::JOB_LAUNCH_FAILED,
    /// Being requeued: the run that ends is still completing.
    Requeue = sys::JOB_REQUEUE,
    RequeueHold = sys::JOB_REQUEUE_HOLD,
    SpecialExit = sys::JOB_SPECIAL_EXIT,
    Resizing = sys::JOB_RESIZING,
    /// Allocated nodes are booting.
    Configuring = sys::JOB_CONFIGURING,
    /// Waiting for the epilog; nodes may still be held.
    Completing = sys::JOB_COMPLETING,
    Stopped = sys::JOB_STOPPED,
    PowerUpNode = sys::JOB_POWER_UP_NODE,
    Revoked = sys::JOB_REVOKED,
    Signaling = sys::JOB_SIGNALING,
    StageOut = sys::JOB_STAGE_OUT,
}

/// Memory asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// MiB per node; 0 is all the memory of the node.
    PerNodeMib(u64),
    PerCpuMib(u64),
}

impl Default for Memory {
    fn default() -> Self {
        Self::PerNodeMib(0)
    }
}

impl Memory {
    pub(super) fn new(pn_min_memory: u64) -> Self {
        if pn_min_memory & sys::MEM_PER_CPU != 0 && pn_min_memory != sys::NO_VAL64 {
            Self::PerCpuMib(pn_min_memory & !sys::MEM_PER_CPU)
        } else {
            Self::PerNodeMib(pn_min_memory)
        }
    }

    /// A `DefMemPer*` or `MaxMemPer*` of slurm.conf; `None` if it is not set.
    pub(super) fn from_setting(setting: u64) -> Option<Self> {
        (setting != 0 && setting != sys::NO_VAL64 && setting != sys::INFINITE64).then(|| Self::new(setting))
    }
}

/// Who may share the job's nodes (`JOB_SHARED_*` of slurm.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody: `--exclusive`, or an exclusive partition. The job gets every GRES of its nodes.
    Exclusive,
    Shared,
    SameUser,
    SameMcsLabel,
    /// The partition decides.
    #[default]
    Default,
}

impl Sharing {
    pub(super) fn new(shared: u16) -> Self {
        match u32::from(shared) {
            sys::JOB_SHARED_NONE => Self::Exclusive,
            sys::JOB_SHARED_OK => Self::Shared,
            sys::JOB_SHARED_USER => Self::SameUser,
            sys::JOB_SHARED_MCS => Self::SameMcsLabel,
            _ => Self::Default,
        }
    }
}
