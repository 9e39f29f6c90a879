use market::amount::Price;
use slurm_client::TimeLimit;
use slurm_client::controller::JobState;

use super::*;
use crate::facts::{NodeGpus, PartitionFacts};

const STAMP: &str = "bid:0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e 3.5 tier=standard";
/// slurm.h: `JOB_RUNNING`, `JOB_COMPLETE`.
const RUNNING: u32 = 1;
const COMPLETED: u32 = 3;

fn cluster() -> ClusterFacts {
    let mut cluster = ClusterFacts::default();
    let nodes = ["gpu1", "gpu2", "gpu3"];
    let gpus = NodeGpus { installed: 8, in_use: 0, in_supply: true };
    let pool = cluster.pools.entry("a100".into()).or_default();
    pool.nodes = nodes.map(|node| (node.to_owned(), gpus)).into();
    let partition = PartitionFacts { nodes: nodes.map(str::to_owned).into(), ..PartitionFacts::default() };
    cluster.partitions.insert("gpu".into(), partition);
    cluster
}

fn waits() -> Job {
    Job {
        job_id: 7,
        admin_comment: Some(STAMP.into()),
        partition: Some("gpu".into()),
        account: Some("vision".into()),
        submit_time_s: Some(1000),
        eligible_time_s: Some(1000),
        time_limit: TimeLimit::Minutes(60),
        priority: 5,
        num_nodes: 1,
        tres_req: Some("cpu=1,node=1,gres/gpu=8".into()),
        ..Job::default()
    }
}

fn runs(state: u32) -> Job {
    Job {
        state: JobState::from_number(state),
        start_time_s: Some(2000),
        end_time_s: Some(2600),
        nodes: Some("gpu1".into()),
        tres_alloc: Some("cpu=1,node=1,gres/gpu=8".into()),
        ..waits()
    }
}

fn one(record: Job) -> Jobs {
    jobs(&[record], &cluster())
}

#[test]
fn a_pending_job_waits_and_a_started_one_runs_to_its_end() {
    let waiting = one(waits()).waiting;
    assert_eq!(waiting[0].identity.stamp.limit, Price::parse("3.5").expect("price"));
    assert_eq!((waiting[0].asked[&None], waiting[0].held), (8, false));
    let running = one(runs(RUNNING)).runs;
    assert_eq!((running[0].start_s, running[0].end, running[0].gpus["a100"]), (2000, None, 8));
    let ended = one(runs(COMPLETED)).runs;
    assert_eq!(ended[0].end, Some(RunEnd { end_s: 2600, suspended_s: Some(0) }));
    let suspended = one(Job { suspend_time_s: Some(2100), ..runs(COMPLETED) }).runs;
    assert_eq!(suspended[0].end, Some(RunEnd { end_s: 2600, suspended_s: None }));
}

#[test]
fn a_job_whose_nodes_are_switched_on_has_not_started() {
    let found = one(runs(RUNNING | JobFlag::Configuring as u32 | JobFlag::PowerUpNode as u32));
    assert_eq!(found.runs, []);
    assert!(found.waiting[0].held, "it keeps its earmark and is no demand");
    // Cancelled meanwhile it has ended like any other.
    let found = one(runs(COMPLETED | JobFlag::PowerUpNode as u32));
    assert_eq!((found.waiting.len(), found.runs.len()), (0, 1));
}

#[test]
fn a_resized_job_is_another_run_from_then_on() {
    let found = one(Job { resize_time_s: Some(2300), ..runs(RUNNING) });
    assert_eq!(found.runs[0].start_s, 2300);
}

#[test]
fn gpus_of_the_job_as_a_whole_may_need_more_nodes_than_slurm_tells() {
    let nodes_least = |tres_req: &str, per_job: Option<&str>, per_node: Option<&str>| {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let record = Job {
            tres_req: Some(tres_req.into()),
            tres_per_job: text(per_job),
            tres_per_node: text(per_node),
            ..waits()
        };
        one(record).waiting[0].nodes_least
    };
    assert_eq!(nodes_least("gres/gpu=12", Some("gres:gpu:12"), None), 2);
    assert_eq!(nodes_least("gres/gpu=8", Some("gres:gpu:8"), None), 1);
    assert_eq!(nodes_least("gres/gpu:a100=17", Some("gres:gpu:a100:17"), None), 3);
    assert_eq!(nodes_least("gres/gpu=12", None, Some("gres:gpu:12")), 1, "no node has twelve");
    assert_eq!(nodes_least("gres/gpu:h100=9", Some("gres:gpu:h100:9"), None), 9, "no node has any");
}

#[test]
fn a_job_without_stamp_is_none_of_ours() {
    for admin_comment in [None, Some("".into()), Some("JS1:H4sI".into()), Some("bid:3.5".into())] {
        let found = one(Job { admin_comment, ..runs(RUNNING) });
        assert_eq!((found.waiting.len(), found.runs.len(), found.known_uuids.len()), (0, 0, 0));
    }
}

#[test]
fn funds_must_cover_the_largest_shape_on_the_nodes_there_are() {
    let most = |record: Job| one(record).waiting[0].gpus_most;
    let per_node = |num_nodes, max_nodes, num_tasks| Job {
        tres_req: Some(format!("gres/gpu={}", 4 * num_nodes)),
        tres_per_node: Some("gres:gpu:4".into()),
        num_nodes,
        max_nodes,
        num_tasks,
        ..waits()
    };
    let nodes = u64::from(cluster().gpu_nodes(&["gpu"]));
    assert!(nodes >= 2);
    assert_eq!(most(per_node(1, 0, Some(1))), 4);
    assert_eq!(most(per_node(1, 2, Some(1))), 8, "-N1-2");
    assert_eq!(most(per_node(1, 400, None)), 4 * nodes, "-N1-400");
    assert_eq!(most(per_node(1, 0, Some(64))), 4 * nodes, "-n64");
    assert_eq!(
        most(Job { tres_req: Some("gres/gpu=12".into()), ..waits() }),
        12,
        "what slurmctld counts at least"
    );
}

fn accounted(state: RunState, submit_s: i64, start_s: i64, end_s: i64) -> accounting::Run {
    accounting::Run {
        job_id: 7,
        state,
        submit_s,
        start_s: Some(start_s),
        end_s: Some(end_s),
        suspended_s: 60,
        nodes: Some("gpu1".into()),
        tres_alloc: Some("cpu=1,node=1,gres/gpu=8".into()),
        admin_comment: Some(STAMP.into()),
        ..accounting::Run::default()
    }
}

const ENDED: RunState = RunState::Base(BaseState::Completed);

#[test]
fn an_accounting_record_tells_the_end_with_or_without_its_stamp() {
    let pools = pool_of_node(&cluster());
    let record = accounted(ENDED, 1000, 2000, 2600);
    let end = Ending { job_id: 7, start_s: 2000, end_s: 2600, suspended_s: 60 };
    let run = accounted_run(&record, &pools).expect("a market job");
    assert_eq!((run.ending(), ending(&record)), (Some(end), Some(end)));
    let overwritten = accounting::Run { admin_comment: Some("JS1:H4sI".into()), ..record };
    assert_eq!((accounted_run(&overwritten, &pools), ending(&overwritten)), (None, Some(end)));
    let running = accounting::Run { end_s: None, ..overwritten };
    assert_eq!(ending(&running), None);
}

#[test]
fn a_change_of_size_in_the_second_of_the_start_leaves_one_run() {
    let pools = pool_of_node(&cluster());
    let empty = accounted(RunState::Resized, 1000, 2000, 2000);
    assert_eq!((accounted_run(&empty, &pools), ending(&empty)), (None, None));
    let rest = accounted(ENDED, 2000, 2000, 2600);
    assert_eq!(ending(&rest).map(|ending| (ending.start_s, ending.end_s)), Some((2000, 2600)));
    let piece = accounted(RunState::Resized, 1000, 2000, 2300);
    assert_eq!(ending(&piece).map(|ending| (ending.start_s, ending.end_s)), Some((2000, 2300)));
    // A job that ended in the second of its start has a record like any other.
    assert!(ending(&accounted(ENDED, 1000, 2000, 2000)).is_some());
}
