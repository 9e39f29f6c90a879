//! The daemon is killed at any moment, again and again.

use std::time::{Duration, Instant};

use system_tests::{Cluster, eventually};

use crate::runs::{assert_exact, await_receipts};

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
    let runs = await_receipts(&cluster, jobs + 6);
    assert_exact(&cluster, &runs, 1000);
}
