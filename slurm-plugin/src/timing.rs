//! How long callbacks take, told in Slurm's log: what the plugin costs slurmctld is for its admin to see.
//!
//! A callback costs two readings of the clock and one atomic addition more; nothing is allocated or locked.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::monotonic_ns;
use crate::host;

/// Buckets for each doubling of the time: a bucket is at most a quarter wider than its lower bound.
const PER_DOUBLING: usize = 4;
const PER_DOUBLING_BITS: u32 = PER_DOUBLING.ilog2();
/// From 4 ns to 17 s; what takes longer is counted as the longest.
const BUCKETS: usize = 32 * PER_DOUBLING;

/// The times of one callback since they were last told.
#[derive(Debug)]
pub(crate) struct Timing {
    callback: &'static str,
    buckets: [AtomicU64; BUCKETS],
    max_ns: AtomicU64,
}

impl Timing {
    /// `callback` is its name in the log.
    pub(crate) const fn new(callback: &'static str) -> Self {
        Self { callback, buckets: [const { AtomicU64::new(0) }; BUCKETS], max_ns: AtomicU64::new(0) }
    }

    /// Runs the body of a callback and counts its time.
    pub(crate) fn of<T>(&self, body: impl FnOnce() -> T) -> T {
        let began_ns = monotonic_ns();
        let result = body();
        self.count(monotonic_ns().saturating_sub(began_ns));
        result
    }

    pub(crate) fn count(&self, ns: u64) {
        self.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// Logs what was counted, if anything was, and begins anew.
    pub(crate) fn tell(&self) {
        if let Some(line) = self.take_line() {
            host::log_info(&line);
        }
    }

    /// A call that ends meanwhile is in this line or in the next.
    fn take_line(&self) -> Option<String> {
        let counts = self.buckets.each_ref().map(|bucket| bucket.swap(0, Ordering::Relaxed));
        let max_ns = self.max_ns.swap(0, Ordering::Relaxed);
        let calls: u64 = counts.iter().sum();
        let at = |percent| micros(at_most_ns(&counts, calls, percent).min(max_ns));
        (calls > 0).then(|| {
            let (callback, p50, p99, max) = (self.callback, at(50), at(99), micros(max_ns));
            format!("bid: {callback} {calls} calls, p50 {p50} us, p99 {p99} us, max {max} us")
        })
    }
}

/// By the position of the highest bit and the two below it.
fn bucket(ns: u64) -> usize {
    let ns = ns.max(PER_DOUBLING as u64);
    let shift = ns.ilog2() - PER_DOUBLING_BITS;
    let index = shift as usize * PER_DOUBLING + (ns >> shift) as usize - PER_DOUBLING;
    index.min(BUCKETS - 1)
}

/// What the times in a bucket are below.
fn upper_bound_ns(bucket: usize) -> u64 {
    ((bucket % PER_DOUBLING + PER_DOUBLING + 1) as u64) << (bucket / PER_DOUBLING)
}

/// The time that so many of a hundred calls did not exceed.
fn at_most_ns(counts: &[u64; BUCKETS], calls: u64, percent: u64) -> u64 {
    let wanted = (calls * percent).div_ceil(100);
    let mut seen = 0;
    let reaches = |count: &u64| {
        seen += count;
        seen >= wanted
    };
    upper_bound_ns(counts.iter().position(reaches).unwrap_or(BUCKETS - 1))
}

/// Rounded up to tenths, which only short times need.
fn micros(ns: u64) -> String {
    let tenths = ns.div_ceil(100);
    if tenths < 100 { format!("{}.{}", tenths / 10, tenths % 10) } else { tenths.div_ceil(10).to_string() }
}

#[cfg(test)]
mod tests;
