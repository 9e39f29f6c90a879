use std::sync::Arc;

use market_api::config::Config;

use super::*;

fn job(job_id: u32, array_job_id: Option<u32>, submit_s: i64) -> JobRecord<'static> {
    JobRecord {
        job_id,
        array_job_id,
        user_id: 1001,
        pending: true,
        submit_s,
        time_limit: 60,
        min_nodes: 1,
        max_nodes: 0,
        min_cpus: 1,
        num_tasks: 1,
        whole_nodes: false,
        array_tasks: 0,
        array_throttle: None,
        account: None,
        partition: None,
        qos: None,
        comment: None,
        admin_comment: None,
        tres_per_job: None,
        tres_per_node: None,
        tres_per_socket: None,
        tres_per_task: None,
    }
}

#[test]
fn only_a_pending_job_that_is_the_one_meant_has_a_factor() {
    let factors =
        [(12, 65), (20, 129), (21, 193)].map(|(job_id, factor)| (JobKey { job_id, submit_s: 7 }, factor));
    let snapshot = Snapshot { factors: Arc::new(factors.into()), ..Snapshot::of_file(&Config::default()) };
    let table = [
        (job(12, None, 7), Some(65)),
        // Requeued, or another job under an id that came around again.
        (job(12, None, 8), None),
        (job(13, None, 7), None),
        (JobRecord { pending: false, ..job(12, None, 7) }, None),
        // The array's own record, a task the daemon has seen, and one it has not.
        (job(20, Some(20), 7), Some(129)),
        (job(21, Some(20), 7), Some(193)),
        (job(22, Some(20), 7), Some(129)),
        // A task that was requeued by itself.
        (job(22, Some(20), 9), None),
    ];
    for (job, factor) in table {
        assert_eq!(published(&snapshot, &job), factor, "{} {}", job.job_id, job.submit_s);
    }
}
