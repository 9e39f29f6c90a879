//! How long Slurm's job write lock is held while all pending jobs get new factors: the daemon is started anew with
//! another `per_doubling`, and the plugin tells what it counted when slurmctld ends.

use std::fs;
use std::time::Duration;

use system_tests::{Cluster, eventually};

use crate::submitter;

const WITHIN: Duration = Duration::from_secs(300);
/// At most so long a piece, in microseconds.
const PROMISE_US: f64 = 50_000.0;
const CALLBACK: &str = "bid: repricing under the job write lock ";

pub(crate) fn measure(cluster: &Cluster, jobs: u32, times: u32) {
    let program = std::env::current_exe().expect("the benchmark's own path");
    let program = program.to_str().expect("a plain path");
    cluster.ok("root", &[program, submitter::WORD, &jobs.to_string(), submitter::WAITING]);
    let path = cluster.dir().join("etc/market.toml");
    let market = fs::read_to_string(&path).expect("the cluster has one");
    let mut before = priorities(cluster);
    for time in 1..=times {
        fs::write(&path, format!("{market}\n[factor]\nper_doubling = {}\n", 16_384 + 4_096 * time))
            .expect("writes");
        cluster.daemon("stop", "quotamarketd");
        cluster.daemon("start", "quotamarketd");
        before = eventually("every job has another priority", WITHIN, || {
            let now = priorities(cluster);
            let moved = now.len() == jobs as usize && now.iter().zip(&before).all(|(now, then)| now != then);
            moved.then_some(now)
        });
    }
    cluster.daemon("stop", "slurmctld");
    let log = fs::read(cluster.dir().join("log/slurmctld.log")).expect("slurmctld's log");
    let log = String::from_utf8_lossy(&log).into_owned();
    println!(
        "{times} times {jobs} pending jobs with new factors, the job write lock held for a piece of 256:"
    );
    let lines: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once(CALLBACK)?.1)).collect();
    for line in &lines {
        println!("    {line}");
    }
    let longest = lines.iter().filter_map(|line| max_us(line)).fold(0.0, f64::max);
    let verdict = if longest > 0.0 && longest < PROMISE_US { "kept" } else { "MISSED" };
    println!("longest {longest} us, promised < {PROMISE_US} us: {verdict}");
}

/// Of every pending job, by id.
fn priorities(cluster: &Cluster) -> Vec<String> {
    let listed = cluster.ok("root", &["squeue", "-h", "-t", "pending", "-S", "i", "-o", "%i %Q"]);
    listed.lines().map(str::to_owned).collect()
}

/// The last figure of `40 calls, p50 900 us, p99 1100 us, max 1200 us`.
fn max_us(line: &str) -> Option<f64> {
    line.split_once("max ")?.1.split_whitespace().next()?.parse().ok()
}
