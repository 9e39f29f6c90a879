//! The boundary that no panic crosses: Slurm's daemon must outlive any bug of ours.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::host;
use crate::timing::Timing;

/// Runs `callback`; if it panics, the answer is `fallback` and the log has one line.
pub(crate) fn guarded<T>(fallback: T, callback: impl FnOnce() -> T) -> T {
    // What a panic leaves behind stays sound: shared state changes only by whole swaps and under locks that
    // recover from poison.
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or(fallback)
}

/// [`guarded`], for the callbacks that slurmctld makes while it holds locks: how long they take is told.
pub(crate) fn guarded_and_timed<T>(timing: &Timing, fallback: T, callback: impl FnOnce() -> T) -> T {
    timing.of(|| guarded(fallback, callback))
}

/// Sends the message of every panic in this shared object to Slurm's log.
pub(crate) fn log_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let text = panic.payload_as_str().unwrap_or("no message");
            let place =
                panic.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
            host::log_error(&format!("bid: internal error{place}: {text}; carrying on without"));
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_fallback() {
        assert_eq!(guarded(7, || panic!("a test's panic")), 7);
        assert_eq!(guarded(7, || 8), 8);
    }
}
