//! All jobs that slurmctld has now.

use slurm_sys as sys;

use super::job::{Job, JobState, Memory, Sharing};
use super::{load, reason, records, unless_unchanged};
use crate::bits::bits;
use crate::error::ClientError;
use crate::ffi;
use crate::state::TimeLimit;
use crate::text::{number, seconds, text, texts};

/// All jobs of one moment.
#[derive(Debug, Clone)]
pub struct JobsReply {
    /// To be handed to the next [`jobs`]; seconds since the epoch, by slurmctld's clock.
    pub last_update_s: i64,
    pub jobs: Vec<Job>,
}

/// All jobs, those of hidden partitions included. With the `last_update_s` of an earlier reply:
/// `None` if nothing has changed since.
///
/// # Errors
/// [`ClientError::Slurm`] if slurmctld does not answer; [`ClientError::NotInitialised`].
pub fn jobs(last_update_s: Option<i64>) -> Result<Option<JobsReply>, ClientError> {
    let flags = (sys::SHOW_ALL | sys::SHOW_DETAIL) as u16;
    // SAFETY: slurm_load_jobs leaves a message for slurm_free_job_info_msg.
    let loaded = unsafe {
        load("slurm_load_jobs", ffi::slurm_free_job_info_msg, |message| {
            ffi::slurm_load_jobs(last_update_s.unwrap_or(0), message, flags)
        })
    };
    let Some(message) = unless_unchanged(loaded)? else {
        return Ok(None);
    };
    // SAFETY: slurmctld's message holds `record_count` valid records.
    let jobs = unsafe { records(message.job_array, message.record_count) }
        .iter()
        // SAFETY: as above, with all their strings.
        .map(|job| unsafe { from_record(job) })
        .collect();
    Ok(Some(JobsReply { last_update_s: message.last_update, jobs }))
}

/// # Safety
/// All pointers of `job` are NULL or valid.
unsafe fn from_record(job: &sys::slurm_job_info_t) -> Job {
    let state_reason = reason_number(job);
    // SAFETY: the caller vouches for the strings.
    unsafe {
        Job {
            job_id: job.job_id,
            array_job_id: (job.array_job_id != 0).then_some(job.array_job_id),
            array_task_id: number(job.array_task_id),
            array_task_str: text(job.array_task_str),
            array_tasks: bits(job.array_bitmap),
            array_max_tasks: job.array_max_tasks,
            het_job_id: job.het_job_id,
            het_job_offset: number(job.het_job_offset).filter(|_| job.het_job_id != 0),
            name: text(job.name),
            user_id: job.user_id,
            group_id: job.group_id,
            user_name: text(job.user_name),
            association_id: job.assoc_id,
            account: text(job.account),
            partition: text(job.partition),
            qos: text(job.qos),
            reservation: text(job.resv_name),
            comment: text(job.comment),
            admin_comment: text(job.admin_comment),
            system_comment: text(job.system_comment),
            state: JobState::from_number(job.job_state),
            state_reason,
            state_reason_text: reason::name(state_reason),
            state_description: text(job.state_desc),
            dependency: text(job.dependency),
            priority: job.priority,
            site_factor: site_factor(job.site_factor),
            time_limit: TimeLimit::from_minutes(job.time_limit),
            time_min: if job.time_min == 0 {
                TimeLimit::Unset
            } else {
                TimeLimit::from_minutes(job.time_min)
            },
            submit_time_s: seconds(job.submit_time),
            eligible_time_s: seconds(job.eligible_time),
            accrue_time_s: seconds(job.accrue_time),
            start_time_s: seconds(job.start_time),
            end_time_s: seconds(job.end_time),
            deadline_s: seconds(job.deadline),
            suspend_time_s: seconds(job.suspend_time),
            run_before_suspension_s: job.pre_sus_time,
            resize_time_s: seconds(job.resize_time),
            preempt_time_s: seconds(job.preempt_time),
            preemptable_time_s: seconds(job.preemptable_time),
            restart_count: u32::from(job.restart_cnt),
            nodes: text(job.nodes),
            required_nodes: text(job.req_nodes),
            excluded_nodes: text(job.exc_nodes),
            batch_host: text(job.batch_host),
            num_nodes: job.num_nodes,
            max_nodes: number(job.max_nodes).unwrap_or(0),
            num_cpus: job.num_cpus,
            num_tasks: number(job.num_tasks),
            cpus_per_task: if job.cpus_per_task == sys::NO_VAL16 { 1 } else { job.cpus_per_task.max(1) },
            memory: Memory::new(job.pn_min_memory),
            core_spec: (job.core_spec != sys::NO_VAL16).then_some(job.core_spec),
            tres_req: text(job.tres_req_str),
            tres_alloc: text(job.tres_alloc_str),
            tres_per_job: text(job.tres_per_job),
            tres_per_node: text(job.tres_per_node),
            tres_per_socket: text(job.tres_per_socket),
            tres_per_task: text(job.tres_per_task),
            cpus_per_tres: text(job.cpus_per_tres),
            mem_per_tres: text(job.mem_per_tres),
            gres_total: text(job.gres_total),
            gres_detail: texts(job.gres_detail_str, job.gres_detail_cnt),
            features: text(job.features),
            licenses: text(job.licenses),
            sharing: Sharing::new(job.shared),
            requeue: job.requeue == 1,
            batch: job.batch_flag != 0,
            bitflags: job.bitflags,
        }
    }
}

/// The field has 16 bits on some releases and 32 on others.
#[allow(clippy::useless_conversion)]
fn reason_number(job: &sys::slurm_job_info_t) -> u32 {
    u32::from(job.state_reason)
}

/// Takes `NICE_OFFSET` off; `NO_VAL` is a job without site factor.
fn site_factor(raw: u32) -> i32 {
    if raw == sys::NO_VAL {
        return 0;
    }
    raw.wrapping_sub(sys::NICE_OFFSET).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::JobFlag;
    use crate::state::BaseState;

    /// A record as slurmctld sends it for a pending job without options.
    fn pending() -> sys::slurm_job_info_t {
        sys::slurm_job_info_t {
            job_id: 4,
            array_task_id: sys::NO_VAL,
            het_job_offset: sys::NO_VAL,
            core_spec: sys::NO_VAL16,
            cpus_per_task: sys::NO_VAL16,
            shared: sys::NO_VAL16,
            site_factor: sys::NICE_OFFSET,
            pn_min_memory: sys::MEM_PER_CPU | 1000,
            time_limit: 10,
            priority: 1,
            requeue: 1,
            batch_flag: 1,
            ..Default::default()
        }
    }

    fn job(record: &sys::slurm_job_info_t) -> Job {
        // SAFETY: C string literals and NULL.
        unsafe { from_record(record) }
    }

    #[test]
    fn what_is_not_set_is_none() {
        let job = job(&pending());
        assert_eq!((job.array_job_id, job.array_task_id, job.het_job_offset), (None, None, None));
        assert_eq!((job.core_spec, job.cpus_per_task, job.site_factor), (None, 1, 0));
        assert_eq!((job.comment, job.nodes, job.tres_alloc, job.start_time_s), (None, None, None, None));
        assert_eq!((job.time_limit, job.time_min), (TimeLimit::Minutes(10), TimeLimit::Unset));
        assert_eq!((job.memory, job.sharing), (Memory::PerCpuMib(1000), Sharing::Default));
        assert!(job.requeue && job.batch);
    }

    #[test]
    fn pending_rest_of_an_array_has_tasks_but_no_task() {
        let record = sys::slurm_job_info_t {
            array_job_id: 4,
            array_task_str: c"0-9%2".as_ptr().cast_mut(),
            array_max_tasks: 2,
            ..pending()
        };
        let job = job(&record);
        assert_eq!((job.array_job_id, job.array_task_id), (Some(4), None));
        assert_eq!((job.array_task_str.as_deref(), job.array_max_tasks), (Some("0-9%2"), 2));
    }

    #[test]
    fn state_parts_into_base_and_flags() {
        let record =
            sys::slurm_job_info_t { job_state: sys::JOB_CANCELLED | sys::JOB_COMPLETING, ..pending() };
        let state = job(&record).state;
        assert_eq!(state.base, BaseState::Cancelled);
        assert!(state.has(JobFlag::Completing) && !state.has(JobFlag::Requeue));
    }

    #[test]
    fn only_a_pending_job_of_priority_zero_is_held() {
        let held = sys::slurm_job_info_t { priority: 0, ..pending() };
        assert!(job(&held).is_held());
        assert!(!job(&sys::slurm_job_info_t { job_state: sys::JOB_SUSPENDED, ..held }).is_held());
        assert!(!job(&pending()).is_held());
    }

    #[test]
    fn site_factor_loses_its_offset() {
        assert_eq!(site_factor(sys::NO_VAL), 0);
        assert_eq!(site_factor(sys::NICE_OFFSET + 65), 65);
        assert_eq!(site_factor(sys::NICE_OFFSET - 1), -1);
    }

    #[test]
    fn gres_of_each_node_keeps_its_place() {
        let mut details = [c"gpu:a100:2(IDX:0-1)".as_ptr().cast_mut(), std::ptr::null_mut()];
        let record = sys::slurm_job_info_t {
            gres_detail_cnt: 2,
            gres_detail_str: details.as_mut_ptr(),
            shared: sys::JOB_SHARED_NONE as u16,
            ..pending()
        };
        let job = job(&record);
        assert_eq!(job.gres_detail, ["gpu:a100:2(IDX:0-1)", ""]);
        assert_eq!(job.sharing, Sharing::Exclusive);
    }
}
