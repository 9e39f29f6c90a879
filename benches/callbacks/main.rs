//! What the callbacks of the shipped plugins take, against a large site's snapshot, beside an empty job_submit/lua.
//!
//! criterion tells the means. The latencies are told first: the cases take turns in small blocks, so that whatever
//! else the machine does meets all of them alike.

mod cases;
mod host;
mod market;
mod service;
/// The same border to Slurm as in the plugins' tests, which use more of it.
#[allow(dead_code)]
#[path = "../../slurm-plugin/tests/dlopen/slurm.rs"]
mod slurm;

use std::time::Duration;

use benches::quantile;
use criterion::Criterion;

use cases::Case;
use host::Host;

const BLOCKS: usize = 100;
const PROMISE: Duration = Duration::from_micros(50);

fn main() {
    let folder = tempfile::Builder::new().prefix("qm-bench-").tempdir().expect("a folder");
    let host = Host::start(folder.path());
    let mut cases = cases::cases(&host);
    tell_latencies(&mut cases, Way::Warm);
    tell_latencies(&mut cases, Way::Cold);
    let mut criterion = Criterion::default().configure_from_args();
    for case in &mut cases {
        criterion.bench_function(case.name, |bencher| {
            bencher.iter_custom(|calls| (0..calls).map(|_| case.run()).sum());
        });
    }
    criterion.final_summary();
}

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One after the other.
    Warm,
    /// As slurmctld does.
    Cold,
}

fn tell_latencies(cases: &mut [Case], way: Way) {
    let (calls, heading) = match way {
        Way::Warm => (1_000, "one after the other"),
        Way::Cold => (100, "each in a thread of its own and with cold caches, as in slurmctld"),
    };
    let mut blocks: Vec<Vec<Vec<u64>>> = vec![Vec::new(); cases.len()];
    for block in 0..=BLOCKS {
        for (case, blocks) in cases.iter_mut().zip(&mut blocks) {
            let mut call = || match way {
                Way::Warm => case.run(),
                Way::Cold => case.run_cold(),
            };
            let times = sorted((0..calls).map(|_| nanoseconds(call())).collect());
            // The first warms up.
            if block > 0 {
                blocks.push(times);
            }
        }
    }
    println!("Latency of a call in us, {heading}; {BLOCKS} blocks of {calls} calls, the cases take turns.");
    println!("p99 twice: of all calls, and the median of the blocks' own.");
    println!("{:<38} {:>8} {:>8} {:>8} {:>8} {:>9}", "", "p50", "p99", "p99 med", "p99.9", "max");
    for (case, blocks) in cases.iter().zip(&blocks) {
        let all = sorted(blocks.concat());
        let of_blocks = sorted(blocks.iter().map(|block| quantile(block, 0.99)).collect());
        let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|part| micros(quantile(&all, part)));
        let of_blocks = micros(quantile(&of_blocks, 0.5));
        println!("{:<38} {p50:>8} {p99:>8} {of_blocks:>8} {p999:>8} {max:>9}", case.name);
    }
    let p99 = |name: &str| {
        let index = cases.iter().position(|case| case.name == name).expect("one of the cases");
        quantile(&sorted(blocks[index].concat()), 0.99)
    };
    let (ours, lua) = (p99(cases::BID), p99(cases::EMPTY_LUA));
    let verdict = |kept| if kept { "kept" } else { "MISSED" };
    println!("p99 of a bid < {} us: {}", PROMISE.as_micros(), verdict(ours < nanoseconds(PROMISE)));
    println!("p99 of a bid at most an empty lua's: {}\n", verdict(ours <= lua));
}

fn sorted(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    values
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn micros(ns: u64) -> String {
    format!("{}.{:02}", ns / 1_000, ns % 1_000 / 10)
}
