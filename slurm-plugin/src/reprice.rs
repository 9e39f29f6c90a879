//! Brings the priorities of pending jobs in line with the factors of a snapshot.

use std::time::Duration;

use slurm_sys::NICE_OFFSET;

use crate::host::{self, JobFactor};
use crate::role::Stop;
use crate::snapshot::JobKey;
use crate::timing::Timing;

/// Jobs touched in one hold of Slurm's job write lock: a few milliseconds.
const PIECE_JOBS: usize = 256;
/// Pause between two holds. Slurm's locks are not fair; without it others might not get their turn.
const PIECE_PAUSE: Duration = Duration::from_millis(2);

/// How long Slurm's job write lock is held for a piece.
pub(crate) static LOCK_TIMES: Timing = Timing::new("repricing under the job write lock");

/// A factor as it stands in Slurm's record.
pub(crate) fn site_factor(factor: u32) -> u32 {
    NICE_OFFSET.saturating_add(factor)
}

/// Applies changed factors in pieces; if any job changed, tells clients and the scheduler once. Waits for Slurm's
/// locks as long as it must, but takes none once `stop` is set.
pub(crate) fn round(changed: &[(JobKey, u32)], stop: &Stop) {
    let items: Vec<JobFactor> = changed
        .iter()
        .map(|(key, factor)| JobFactor {
            job_id: key.job_id,
            site_factor: site_factor(*factor),
            submit_s: key.submit_s,
        })
        .collect();
    let mut touched = 0;
    for (index, piece) in items.chunks(PIECE_JOBS).enumerate() {
        if stop.is_set() {
            return;
        }
        if index > 0 {
            std::thread::sleep(PIECE_PAUSE);
        }
        touched += host::reprice(piece, stop.flag(), &LOCK_TIMES);
    }
    if touched > 0 && !stop.is_set() {
        host::announce_repricing();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_stands_on_nice_offset() {
        assert_eq!(site_factor(0), 0x8000_0000);
        assert_eq!(site_factor(16_385), 0x8000_0000 + 16_385);
        assert_eq!(site_factor(u32::MAX), u32::MAX);
    }
}
