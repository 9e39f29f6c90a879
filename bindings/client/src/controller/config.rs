//! The configuration that slurmctld runs with.

use slurm_sys as sys;

use super::{Memory, load};
use crate::error::ClientError;
use crate::ffi;
use crate::state::TimeLimit;
use crate::text::{seconds, text, texts};

/// Of `conf_flags`; the name of this bit is `CTL_CONF_SJC` in 22.05's slurm.h and `CONF_FLAG_SJC` in 24.11's.
const STORES_JOB_COMMENT: u32 = 1 << 1;

/// The parts of slurm.conf that matter to the market, as slurmctld has them in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub cluster_name: String,
    /// Of slurmctld: `22.05.8`.
    pub version: String,
    /// slurmctld's own path of slurm.conf.
    pub conf_file: Option<String>,
    /// Names of the controllers, the primary first.
    pub controllers: Vec<String>,
    /// `StateSaveLocation`, which all controllers share.
    pub state_save_location: Option<String>,
    pub boot_time_s: Option<i64>,
    pub slurm_user_id: u32,
    pub slurm_user_name: String,
    /// How long jobs may run past their limit, where the partition says nothing.
    pub over_time_limit: TimeLimit,
    /// Memory of jobs that ask for none; `None`: all that their nodes have.
    pub default_memory: Option<Memory>,
    pub enforce: Enforce,
    pub accounting_storage_type: Option<String>,
    /// `AccountingStorageTRES`, with Slurm's own ones.
    pub accounting_storage_tres: Option<String>,
    /// `AccountingStoreFlags=job_comment`.
    pub stores_job_comment: bool,
    /// `AuthInfo`, e.g. `socket=/run/munge/munge.socket.2`.
    pub auth_info: Option<String>,
    /// Comma list.
    pub job_submit_plugins: Option<String>,
    pub priority_type: Option<String>,
    pub priority_params: Option<String>,
    /// `PRIORITY_FLAGS_*` of slurm.h.
    pub priority_flags: u32,
    /// Between two updates of the factors.
    pub priority_calc_period_s: u32,
    pub priority_weights: PriorityWeights,
    /// `PriorityWeightTRES`, e.g. `gres/gpu=1000`.
    pub priority_weight_tres: Option<String>,
    pub site_factor_plugin: Option<String>,
    pub site_factor_params: Option<String>,
    pub sched_params: Option<String>,
    pub slurmctld_params: Option<String>,
    pub preempt_type: Option<String>,
    /// `PREEMPT_MODE_*` of slurm.h.
    pub preempt_mode: u16,
    /// `PRIVATE_DATA_*` of slurm.h.
    pub private_data: u32,
    /// Whether jobs may be requeued unless they say otherwise.
    pub job_requeue: bool,
    /// Between SIGTERM and SIGKILL.
    pub kill_wait_s: u16,
    /// How long slurmctld keeps a job that has ended.
    pub min_job_age_s: u32,
    pub message_timeout_s: u16,
    pub max_array_size: u32,
    pub plugin_dir: Option<String>,
}

impl Config {
    /// `PrivateData=jobs`: users see no jobs of others.
    pub fn jobs_are_private(&self) -> bool {
        self.private_data & sys::PRIVATE_DATA_JOBS != 0
    }
}

/// `AccountingStorageEnforce`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enforce {
    pub associations: bool,
    pub limits: bool,
    pub qos: bool,
    pub safe: bool,
}

impl Enforce {
    /// The bits of src/common/read_config.h (`ACCOUNTING_ENFORCE_*`), which no public header has.
    fn new(bits: u16) -> Self {
        let has = |bit: u32| bits & (1 << bit) != 0;
        Self { associations: has(0), limits: has(1), qos: has(3), safe: has(4) }
    }
}

/// `PriorityWeight*`: what the bid's site factor competes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityWeights {
    pub age: u32,
    pub association: u32,
    pub fair_share: u32,
    pub job_size: u32,
    pub partition: u32,
    pub qos: u32,
}

/// Asks slurmctld for its configuration.
///
/// # Errors
/// [`ClientError::Slurm`] if slurmctld does not answer; [`ClientError::NotInitialised`].
pub fn config() -> Result<Config, ClientError> {
    // SAFETY: slurm_load_ctl_conf leaves a message for slurm_free_ctl_conf.
    let conf = unsafe {
        load("slurm_load_ctl_conf", ffi::slurm_free_ctl_conf, |message| ffi::slurm_load_ctl_conf(0, message))
    }?;
    // SAFETY: slurmctld's message holds valid strings.
    Ok(unsafe { from_record(&conf) })
}

/// # Safety
/// All pointers of `conf` are NULL or valid.
unsafe fn from_record(conf: &sys::slurm_conf_t) -> Config {
    // SAFETY: the caller vouches for the strings.
    unsafe {
        Config {
            cluster_name: text(conf.cluster_name).unwrap_or_default(),
            version: text(conf.version).unwrap_or_default(),
            conf_file: text(conf.slurm_conf),
            controllers: texts(conf.control_machine, conf.control_cnt),
            state_save_location: text(conf.state_save_location),
            boot_time_s: seconds(conf.boot_time),
            slurm_user_id: conf.slurm_user_id,
            slurm_user_name: text(conf.slurm_user_name).unwrap_or_default(),
            over_time_limit: TimeLimit::from_minutes16(conf.over_time_limit),
            default_memory: Memory::from_setting(conf.def_mem_per_cpu),
            enforce: Enforce::new(conf.accounting_storage_enforce),
            accounting_storage_type: text(conf.accounting_storage_type),
            accounting_storage_tres: text(conf.accounting_storage_tres),
            stores_job_comment: conf.conf_flags & STORES_JOB_COMMENT != 0,
            auth_info: text(conf.authinfo),
            job_submit_plugins: text(conf.job_submit_plugins),
            priority_type: text(conf.priority_type),
            priority_params: text(conf.priority_params),
            priority_flags: u32::from(conf.priority_flags),
            priority_calc_period_s: conf.priority_calc_period,
            priority_weights: PriorityWeights {
                age: conf.priority_weight_age,
                association: conf.priority_weight_assoc,
                fair_share: conf.priority_weight_fs,
                job_size: conf.priority_weight_js,
                partition: conf.priority_weight_part,
                qos: conf.priority_weight_qos,
            },
            priority_weight_tres: text(conf.priority_weight_tres),
            site_factor_plugin: text(conf.site_factor_plugin),
            site_factor_params: text(conf.site_factor_params),
            sched_params: text(conf.sched_params),
            slurmctld_params: text(conf.slurmctld_params),
            preempt_type: text(conf.preempt_type),
            preempt_mode: conf.preempt_mode,
            private_data: u32::from(conf.private_data),
            job_requeue: conf.job_requeue != 0,
            kill_wait_s: conf.kill_wait,
            min_job_age_s: conf.min_job_age,
            message_timeout_s: conf.msg_timeout,
            max_array_size: conf.max_array_sz,
            plugin_dir: text(conf.plugindir),
        }
    }
}
