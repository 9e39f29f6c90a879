//! Waiting with a deadline.

use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The value that `look` finds within the deadline.
///
/// # Panics
/// If it finds none, naming what was awaited.
pub fn eventually<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + deadline;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "not within {deadline:?}: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Looks again and again for so long that nothing else comes of it, and fails as soon as something does.
///
/// # Panics
/// If `look` turns false.
pub fn holds_for(what: &str, time: Duration, mut look: impl FnMut() -> bool) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        assert!(look(), "no longer true: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}
