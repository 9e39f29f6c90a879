//! How often something is asked of slurmdbd that it does not have yet: soon at first, then less and less often, so that
//! a record that never comes costs next to nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::accounting::AccountingWork;
use crate::model::SegmentRow;

const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    /// The runs of a job.
    Lookup(u32),
    Receipt(SegmentRow),
}

#[derive(Debug, Clone, Copy)]
struct Try {
    next: Instant,
    /// From this try to the next.
    pause: Duration,
}

/// What was tried and is still wanted.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    tries: BTreeMap<Wish, Try>,
}

impl Patience {
    /// What of the work is to be tried now. What is no longer wanted is forgotten.
    pub(crate) fn due(&mut self, mut work: AccountingWork, now: Instant) -> AccountingWork {
        let receipts: Vec<SegmentRow> = work.receipts.iter().map(|due| due.segment).collect();
        self.tries.retain(|wish, _| match wish {
            Wish::Lookup(job_id) => work.lookups.contains(job_id),
            Wish::Receipt(segment) => receipts.binary_search(segment).is_ok(),
        });
        let is_due = |wish| self.tries.get(&wish).is_none_or(|tried| tried.next <= now);
        work.lookups.retain(|job_id| is_due(Wish::Lookup(*job_id)));
        work.receipts.retain(|due| is_due(Wish::Receipt(due.segment)));
        work
    }

    /// Notes tries; whether any of them was not the first.
    pub(crate) fn tried(&mut self, wishes: impl IntoIterator<Item = Wish>, now: Instant) -> bool {
        let mut was_tried = false;
        for wish in wishes {
            let before = self.tries.get(&wish).copied();
            was_tried |= before.is_some();
            let pause = before.map_or(FIRST, |tried| (tried.pause * 2).min(MOST));
            self.tries.insert(wish, Try { next: now + pause, pause });
        }
        was_tried
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::ReceiptDue;

    fn work(lookups: &[u32], receipts: &[SegmentRow]) -> AccountingWork {
        let due = |segment: &SegmentRow| ReceiptDue {
            segment: *segment,
            job_id: 1,
            start_s: 2,
            receipt: String::new(),
        };
        AccountingWork {
            lookups: lookups.iter().copied().collect(),
            receipts: receipts.iter().map(due).collect(),
            ..AccountingWork::default()
        }
    }

    #[test]
    fn a_record_that_never_comes_is_asked_for_once_a_minute() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        let mut tries = Vec::new();
        for second in 0..600 {
            let now = start + Duration::from_secs(second);
            if !patience.due(work(&[7], &[]), now).is_empty() {
                assert_eq!(patience.tried([Wish::Lookup(7)], now), !tries.is_empty());
                tries.push(second);
            }
        }
        assert_eq!(tries[..8], [0, 1, 3, 7, 15, 31, 63, 123]);
        assert_eq!(tries.len(), 15);
    }

    #[test]
    fn each_wish_has_its_own_pace_and_a_new_one_is_tried_at_once() {
        let (mut patience, now) = (Patience::default(), Instant::now());
        patience.tried([Wish::Lookup(7), Wish::Receipt(3)], now);
        assert_eq!(patience.due(work(&[7, 8], &[3, 4]), now), work(&[8], &[4]));
        // No longer wanted, then wanted anew: another run of the same job.
        assert!(patience.due(work(&[], &[3]), now).is_empty());
        assert_eq!(patience.due(work(&[7], &[3]), now), work(&[7], &[]));
    }
}
