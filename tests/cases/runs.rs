//! What runs cost by Slurm's own records, and that the ledger and the receipts say the same.

use std::time::Duration;

use system_tests::{Cluster, eventually};

/// slurmctld's and slurmdbd's own pace included.
const SETTLED: Duration = Duration::from_secs(60);

/// A run of a job as slurmdbd has it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) job_id: u32,
    pub(crate) state: String,
    /// Without suspensions.
    pub(crate) seconds: i64,
    pub(crate) gpus: i64,
    comment: String,
    admin_comment: String,
}

impl Run {
    /// From `FIELDS`; `None` for what has not ended or held no GPU.
    fn read(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split('|').collect();
        let [job_id, state, submit, start, end, elapsed, tres, comment, admin_comment] = fields.as_slice()
        else {
            return None;
        };
        let gpus = tres.split(',').find_map(|entry| entry.strip_prefix("gres/gpu=")?.parse().ok())?;
        let number = |text: &str| text.parse::<i64>().expect("a number");
        // After a change of size the job's first start stands, and the time of the change as its submission.
        let before_change = (number(submit) - number(start)).max(0);
        let run = Self {
            job_id: job_id.parse().expect("a job id"),
            state: state.split(' ').next().unwrap_or_default().to_owned(),
            seconds: number(elapsed) - before_change,
            gpus,
            comment: (*comment).to_owned(),
            admin_comment: (*admin_comment).to_owned(),
        };
        // A change of size in the second of the start leaves a piece without length.
        let is_empty_piece = run.state == "RESIZING" && run.seconds == 0;
        (*end != "Unknown" && !is_empty_piece).then_some(run)
    }

    /// A part of the receipt, e.g. `0.3125` for `price`.
    pub(crate) fn receipt(&self, key: &str) -> Option<&str> {
        self.admin_comment.split(' ').find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
    }

    /// ⌊GPUs × seconds × price⌋ in micro-SU, by Slurm's record and the price alone.
    pub(crate) fn charge_micros(&self) -> i64 {
        self.gpus * self.seconds * self.receipt("price").map_or(0, micros) / 3600
    }
}

const FIELDS: &str = "JobIDRaw,State,Submit,Start,End,ElapsedRaw,AllocTRES,Comment,AdminComment";

pub(crate) fn micros(text: &str) -> i64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<6}").parse().unwrap_or_else(|_| panic!("{text:?} is no amount"))
}

fn runs(cluster: &Cluster) -> Vec<Run> {
    let words =
        ["env", "SLURM_TIME_FORMAT=%s", "sacct", "-X", "-n", "-P", "-D", "-a", "-S", "now-1hour", "-o"];
    let text = cluster.ok("root", &[&words[..], &[FIELDS]].concat());
    text.lines().filter_map(Run::read).collect()
}

/// Every run that has ended, once there are so many and each has its receipt.
pub(crate) fn await_receipts(cluster: &Cluster, at_least: usize) -> Vec<Run> {
    eventually("every run has its receipt", SETTLED, || {
        let runs = runs(cluster);
        let all_paid = runs.iter().all(|run| run.receipt("paid").is_some());
        (all_paid && runs.len() >= at_least).then_some(runs)
    })
}

/// These are all runs there were, of account vision, which got so many SU: each is charged once and exactly, by a
/// receipt that names the bid of its own comment, and all other money is where it was.
pub(crate) fn assert_exact(cluster: &Cluster, runs: &[Run], deposited: i64) {
    for run in runs {
        assert_eq!(run.admin_comment.matches("paid=").count(), 1, "{run:?}");
        assert_eq!(run.receipt("paid").map(micros), Some(run.charge_micros()), "{run:?}");
        assert_eq!(run.receipt("gpu_s"), Some((run.gpus * run.seconds).to_string().as_str()), "{run:?}");
        assert_eq!(run.receipt("bid"), run.comment.strip_prefix("bid:"), "{run:?}");
    }
    cluster.assert_at_rest();
    let sum: i64 = runs.iter().map(Run::charge_micros).sum();
    let balance = cluster.balance("vision");
    assert_eq!(micros(&balance["charged"]), sum, "{runs:?}");
    assert_eq!(micros(&balance["available"]), deposited * 1_000_000 - sum);
    // Two entries for each run that cost anything.
    let (entries, _) = cluster.ledger();
    let charges = entries.iter().filter(|entry| entry.starts_with("charge ")).count();
    let paid = runs.iter().filter(|run| run.charge_micros() > 0).count();
    assert_eq!(charges, 2 * paid, "{entries:?}");
}
