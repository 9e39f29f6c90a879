//! The daemon is killed at any moment, again and again.

use std::time::{Duration, Instant};

use system_tests::{Cluster, eventually};

const KILLING: Duration = Duration::from_secs(12);
/// slurmctld's and slurmdbd's own pace included.
const SETTLED: Duration = Duration::from_secs(60);

/// Moments that differ from round to round and are the same in each test run (Lehmer's generator, MINSTD).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0 * 48_271 % 2_147_483_647;
        self.0 % bound
    }
}

/// A run of a job as slurmdbd has it.
#[derive(Debug)]
struct Run {
    seconds: i64,
    gpus: i64,
    admin_comment: String,
}

impl Run {
    /// From `End|ElapsedRaw|AllocTRES|AdminComment`; `None` for what has not ended or never ran.
    fn read(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split('|').collect();
        let [end, seconds, tres, admin_comment] = fields.as_slice() else { return None };
        let gpus = tres.split(',').find_map(|entry| entry.strip_prefix("gres/gpu=")?.parse().ok())?;
        (*end != "Unknown").then(|| Self {
            seconds: seconds.parse().expect("seconds"),
            gpus,
            admin_comment: (*admin_comment).to_owned(),
        })
    }

    /// A part of the receipt, e.g. `0.3125` for `price`.
    fn receipt(&self, key: &str) -> Option<&str> {
        self.admin_comment.split(' ').find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
    }

    /// ⌊GPUs × seconds × price⌋ in micro-SU, by Slurm's record and the price alone.
    fn charge_micros(&self) -> i64 {
        self.gpus * self.seconds * self.receipt("price").map_or(0, micros) / 3600
    }
}

fn micros(text: &str) -> i64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<6}").parse().unwrap_or_else(|_| panic!("{text:?} is no amount"))
}

fn runs(cluster: &Cluster) -> Vec<Run> {
    let fields = "End,ElapsedRaw,AllocTRES,AdminComment";
    let text = cluster.ok("root", &["sacct", "-X", "-n", "-P", "-D", "-a", "-S", "now-1hour", "-o", fields]);
    text.lines().filter_map(Run::read).collect()
}

#[test]
fn a_daemon_killed_again_and_again_charges_each_run_once() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "1000");
    let array = ["--array=1-6%3", "--gres=gpu:a100:2", "-t2", "--comment=bid:1", "-o", "/dev/null"];
    cluster.sbatch("vis1", &array, "sleep 1");

    let mut dice = Dice(20_261_130);
    let began = Instant::now();
    let mut jobs = 0;
    let mut kills = 0;
    while began.elapsed() < KILLING {
        let gres = format!("--gres=gpu:{}:{}", ["a100", "h100"][jobs % 2], dice.below(4) + 1);
        let script = format!("sleep {}", dice.below(3));
        let id = cluster.sbatch("vis2", &[&gres, "-t2", "--comment=bid:0.9", "-o", "/dev/null"], &script);
        jobs += 1;
        if jobs % 5 == 0 {
            // One that has ended by now cannot be requeued.
            let _ = cluster.run("vis2", &["scontrol", "requeue", &id.to_string()]);
        }
        std::thread::sleep(Duration::from_millis(dice.below(700)));
        cluster.daemon("kill", "quotamarketd");
        cluster.daemon("start", "quotamarketd");
        kills += 1;
    }
    assert!(kills >= 8, "only {kills} kills");

    eventually("all jobs have ended", SETTLED, || {
        cluster.ok("root", &["squeue", "-h"]).is_empty().then_some(())
    });
    let runs = eventually("every run has its receipt", SETTLED, || {
        let runs = runs(&cluster);
        runs.iter().all(|run| run.receipt("paid").is_some()).then_some(runs)
    });
    assert!(runs.len() >= jobs + 6, "{} runs of {jobs} jobs and an array", runs.len());
    for run in &runs {
        assert_eq!(run.admin_comment.matches("paid=").count(), 1, "{run:?}");
        assert_eq!(run.receipt("paid").map(micros), Some(run.charge_micros()), "{run:?}");
        assert_eq!(run.receipt("gpu_s"), Some((run.gpus * run.seconds).to_string().as_str()), "{run:?}");
    }

    cluster.assert_at_rest();
    let sum: i64 = runs.iter().map(Run::charge_micros).sum();
    let balance = cluster.balance("vision");
    assert_eq!(micros(&balance["charged"]), sum);
    assert_eq!(micros(&balance["available"]), 1_000_000_000 - sum);
    // Two entries for each run that cost anything.
    let (entries, _) = cluster.ledger();
    let charges = entries.iter().filter(|entry| entry.starts_with("charge ")).count();
    let paid = runs.iter().filter(|run| run.charge_micros() > 0).count();
    assert_eq!(charges, 2 * paid, "{entries:?}");
}
