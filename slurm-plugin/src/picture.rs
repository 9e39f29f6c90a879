//! The one place where the plugin's thread and Slurm's threads meet: the current snapshot, the funds, and how long
//! the daemon has been silent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};

use crate::funds::Funds;
use crate::snapshot::Snapshot;
use crate::staging::Commit;

/// How long a replaced snapshot is kept at least. A callback takes microseconds.
const RETIRED_KEPT_NS: u64 = 3_000_000_000;

/// What callbacks read. They never wait for more than the funds' leaf lock.
#[derive(Debug)]
pub(crate) struct Picture {
    snapshot: ArcSwap<Snapshot>,
    pub(crate) funds: Funds,
    /// CLOCK_MONOTONIC of the daemon's last message; 0: none ever.
    last_message_ns: AtomicU64,
    /// A snapshot of the daemon has come.
    is_whole: AtomicBool,
}

impl Picture {
    /// `file`: what is known before the daemon ever spoke.
    pub(crate) fn new(file: Snapshot) -> Self {
        Self {
            snapshot: ArcSwap::from_pointee(file),
            funds: Funds::default(),
            last_message_ns: AtomicU64::new(0),
            is_whole: AtomicBool::new(false),
        }
    }

    pub(crate) fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// The file was read anew; it counts until the daemon has spoken.
    pub(crate) fn read_file_again(&self, file: Snapshot) {
        if !self.is_whole.load(Ordering::Acquire) {
            self.snapshot.store(Arc::new(file));
        }
    }

    /// Whether prices and funds are fresh enough to rest a decision on.
    pub(crate) fn is_available(&self, now_ns: u64) -> bool {
        self.is_whole.load(Ordering::Acquire)
            && self
                .silence(now_ns)
                .is_some_and(|silence| silence <= self.snapshot.load().settings.stale_after)
    }

    /// Time since the daemon's last message, whatever the state of the connection; `None`: there was none.
    pub(crate) fn silence(&self, now_ns: u64) -> Option<Duration> {
        match self.last_message_ns.load(Ordering::Acquire) {
            0 => None,
            last_ns => Some(Duration::from_nanos(now_ns.saturating_sub(last_ns))),
        }
    }

    pub(crate) fn heard(&self, now_ns: u64) {
        self.last_message_ns.store(now_ns, Ordering::Release);
    }

    /// Makes a commit the current picture.
    pub(crate) fn take_up(&self, commit: &Commit, now_ns: u64, retired: &mut Retired) {
        // Figures before rows: an account that the rows name must have its figure.
        self.funds.renew(Arc::clone(&commit.snapshot.accounts), &commit.known, commit.read_began_ns);
        let former = self.snapshot.swap(Arc::new(commit.snapshot.clone()));
        self.is_whole.store(true, Ordering::Release);
        retired.0.push_back((now_ns, former));
        retired.drop_unused(now_ns);
    }
}

/// Replaced snapshots, kept by the plugin's thread until nobody else holds them: freeing a large one takes
/// milliseconds, which no callback may spend.
#[derive(Debug, Default)]
pub(crate) struct Retired(VecDeque<(u64, Arc<Snapshot>)>);

impl Retired {
    pub(crate) fn drop_unused(&mut self, now_ns: u64) {
        let is_old = |(since_ns, snapshot): &mut (u64, Arc<Snapshot>)| {
            now_ns.saturating_sub(*since_ns) >= RETIRED_KEPT_NS && Arc::strong_count(snapshot) == 1
        };
        while self.0.pop_front_if(is_old).is_some() {}
    }
}

#[cfg(test)]
mod tests;
