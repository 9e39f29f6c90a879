//! Receipts that slurmctld wrote over. At each of its starts it reports the end of every job that it still remembers
//! once more, with the AdminComment that it had in mind (src/slurmctld/job_mgr.c: `_load_job_state`), and slurmdbd takes
//! that for the newer one.

use super::Engine;
use super::gap::LAST_FACTS_KEY;
use super::pass::RECENT_S;
use crate::facts::Facts;
use crate::store::StoreError;

/// slurmctld's own clock readings lie around ours, and it forgets late.
const REPEATS_MARGIN_S: i64 = 120;
const REPEATS_KEY: &str = "repeats_from_s";

impl Engine {
    /// Runs that ended since then may have been reported again; `None` if slurmctld is the one of the last facts.
    pub(super) fn repeats_from_s(&self, facts: &Facts) -> Result<Option<i64>, StoreError> {
        if self.facts.is_some() && self.controller_began_s == facts.cluster.controller_began_s {
            return Ok(None);
        }
        let seen_s = match self.seen {
            Some(seen) => Some(seen.as_of_s()),
            None => self.stored_s(LAST_FACTS_KEY)?,
        };
        let remembered_from_s = |seen_s: i64| match facts.cluster.forgets_jobs_after_s {
            Some(after_s) => seen_s.saturating_sub(after_s).saturating_sub(REPEATS_MARGIN_S),
            None => 0,
        };
        Ok(seen_s.map(remembered_from_s))
    }

    /// Remembers it until slurmctld has told slurmdbd everything.
    pub(super) fn expect_repeats(&mut self, from_s: i64) -> Result<(), StoreError> {
        let from_s = self.stored_s(REPEATS_KEY)?.map_or(from_s, |former_s| former_s.min(from_s));
        let tx = self.store.begin()?;
        tx.set_meta(REPEATS_KEY, &from_s.to_string())?;
        tx.commit()?;
        self.repeats_from_s = Some(from_s);
        Ok(())
    }

    /// Wants the receipts of those runs again. Those that stand are only read.
    pub(super) fn want_receipts_again(&mut self, facts: &Facts) -> Result<(), StoreError> {
        let Some(from_s) = self.repeats_from_s.filter(|_| facts.accounting_queue_is_empty) else {
            return Ok(());
        };
        let tx = self.store.begin()?;
        tx.receipts_outstanding_again(from_s)?;
        tx.set_meta(REPEATS_KEY, "")?;
        tx.commit()?;
        self.book = self.store.load((self.clock)() - RECENT_S)?;
        self.repeats_from_s = None;
        Ok(())
    }
}
