//! Times in which runs may have come and gone unseen; they are searched in slurmdbd.

use super::Engine;
use crate::facts::Facts;
use crate::store::{StoreError, meta};

/// A gap is searched from a little earlier on: Slurm's own clock readings lie around ours.
const GAP_MARGIN_S: i64 = 60;
const GAP_KEY: &str = "gap_from_s";
pub(super) const LAST_FACTS_KEY: &str = "last_facts_s";
const SECOND_NS: u64 = 1_000_000_000;

/// A time that ended when slurmctld was read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from_s: i64,
    /// The read, on the monotonic clock: a search that began before it does not cover the gap.
    until_ns: u64,
}

impl Gap {
    /// Runs that ended since then may have been missed.
    pub(crate) fn search_from_s(self) -> i64 {
        self.from_s.saturating_sub(GAP_MARGIN_S)
    }
}

/// When slurmctld was last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    as_of_s: i64,
    began_ns: u64,
}

impl Seen {
    pub(super) fn as_of_s(self) -> i64 {
        self.as_of_s
    }

    pub(super) fn of(facts: &Facts) -> Self {
        Self { as_of_s: facts.as_of_s, began_ns: facts.read_began_ns }
    }

    /// Until the later read was over, on the clock that shows more: slurmctld forgets by the one, and the other cannot
    /// be set back.
    fn silence_s(self, later: &Facts) -> i64 {
        let monotonic_s = later.read_ended_ns.saturating_sub(self.began_ns) / SECOND_NS;
        let wall_s = later.as_of_s.saturating_sub(self.as_of_s);
        wall_s.max(i64::try_from(monotonic_s).unwrap_or(i64::MAX))
    }
}

impl Engine {
    /// slurmctld forgets ended jobs: before the first facts, and in a silence as long as its memory, runs can have been
    /// missed.
    pub(super) fn look_for_gap(&mut self, facts: &Facts) -> Result<(), StoreError> {
        if self.facts.is_none() {
            self.began_s = self.store.bind(&facts.cluster.name, facts.as_of_s)?;
            let since = [self.stored_s(GAP_KEY)?, self.stored_s(LAST_FACTS_KEY)?];
            if let Some(from_s) = since.into_iter().flatten().min() {
                self.open_gap(from_s, facts)?;
            }
            self.seen = Some(Seen::of(facts));
            return Ok(());
        }
        let forgets_after_s = facts.cluster.forgets_jobs_after_s.unwrap_or(i64::MAX);
        match self.seen.filter(|seen| seen.silence_s(facts) >= forgets_after_s) {
            Some(seen) => self.open_gap(seen.as_of_s, facts),
            None => Ok(()),
        }
    }

    pub(super) fn stored_s(&self, key: &str) -> Result<Option<i64>, StoreError> {
        Ok(meta(self.store.reader(), key)?.and_then(|text| text.parse().ok()))
    }

    fn open_gap(&mut self, from_s: i64, facts: &Facts) -> Result<(), StoreError> {
        // A clock that was ahead must not hide what has happened since it was set right.
        let from_s = self.gap.map_or(from_s, |open| open.from_s.min(from_s)).min(facts.as_of_s);
        self.set_gap_meta(&from_s.to_string())?;
        self.gap = Some(Gap { from_s, until_ns: facts.read_ended_ns });
        Ok(())
    }

    pub(super) fn close_gap(&mut self) -> Result<(), StoreError> {
        self.set_gap_meta("")?;
        self.gap = None;
        Ok(())
    }

    fn set_gap_meta(&mut self, value: &str) -> Result<(), StoreError> {
        let tx = self.store.begin()?;
        tx.set_meta(GAP_KEY, value)?;
        tx.commit()
    }
}
