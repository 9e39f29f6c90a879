//! The market is taken out of service: no bid is taken any more, waiting jobs become Slurm's alone, and what runs is
//! settled at its end. The state outlives the daemon.

use market_api::v1;

use super::Engine;
use crate::model::Segment;
use crate::query::{Caller, QueryError};
use crate::store::{Store, StoreError, meta};

const DRAINS_SINCE_KEY: &str = "drains_since_s";

/// Since when the market drains, if it does.
pub(super) fn since_s(store: &Store) -> Result<Option<i64>, StoreError> {
    Ok(meta(store.reader(), DRAINS_SINCE_KEY)?.and_then(|text| text.parse().ok()))
}

impl Engine {
    /// For operators. Says how far it is, whatever the action.
    pub(super) fn drain(
        &mut self,
        caller: Caller,
        action: v1::DrainAction,
    ) -> Result<v1::DrainReply, QueryError> {
        if !self.is_operator(caller) {
            return Err(QueryError::NotAllowed(
                "only root, SlurmUser and Slurm operators may drain the market; ask one of them".into(),
            ));
        }
        match action {
            v1::DrainAction::Unspecified => {}
            v1::DrainAction::Begin => self.set_draining(caller, true)?,
            v1::DrainAction::Undo => self.set_draining(caller, false)?,
        }
        self.drain_state()
    }

    fn set_draining(&mut self, caller: Caller, drains: bool) -> Result<(), QueryError> {
        if self.drains_since_s.is_some() == drains {
            return Ok(());
        }
        let since_s = drains.then(|| (self.clock)());
        let tx = self.store.begin()?;
        tx.set_meta(DRAINS_SINCE_KEY, &since_s.map_or_else(String::new, |s| s.to_string()))?;
        tx.commit()?;
        self.drains_since_s = since_s;
        tracing::info!("the market {} (uid {})", if drains { "drains" } else { "is in service" }, caller.uid);
        // Factors first: a job that left the market is none of the plugin's to set.
        self.pass();
        self.controller.drain(drains);
        Ok(())
    }

    fn drain_state(&self) -> Result<v1::DrainReply, QueryError> {
        self.facts()?;
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let running = || self.book.segments.values().filter(|segment| segment.settled.is_none());
        let end_s = |segment: &Segment| segment.time_limit_s.map(|s| segment.start_s.saturating_add(s));
        let ends: Option<Vec<i64>> = running().map(end_s).collect();
        let receipts = self.book.segments.values().filter(|segment| segment.receipt_outstanding.is_some());
        Ok(v1::DrainReply {
            draining: self.drains_since_s.is_some(),
            since_s: self.drains_since_s.unwrap_or(0),
            waiting: count(self.waiting.len()),
            running: count(running().count()),
            running_until_s: ends.and_then(|ends| ends.into_iter().max()).unwrap_or(0),
            receipts: count(receipts.count()),
        })
    }

    /// Bids can be given and changed.
    pub(super) fn check_in_service(&self) -> Result<(), QueryError> {
        match self.drains_since_s {
            None => Ok(()),
            Some(_) => Err(QueryError::Refused(
                "the market is being taken out of service, and bids no longer count; Slurm alone decides when jobs start".into(),
            )),
        }
    }
}
