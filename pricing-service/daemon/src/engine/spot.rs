//! Prices of running spot jobs: they float with the index, from one round to the next.

use market::amount::Price;
use market::index::Index;
use market::metering::{PriceInterval, spot_price};

use super::pass::{Pass, PassError};
use crate::facts::Run;
use crate::model::SegmentRow;
use crate::store::StoreError;

impl Pass<'_> {
    /// After a round: the index just published is the price of what runs from now on.
    pub(crate) fn float(&mut self, runs: &[Run]) -> Result<(), PassError> {
        for run in runs.iter().filter(|run| run.end.is_none() && run.clock.running_since_s.is_some()) {
            if let Some(row) = self.book.segment_by_run.get(&run.key()).copied() {
                self.float_one(row, run.clock.reading_s(self.as_of_s))?;
            }
        }
        Ok(())
    }

    fn float_one(&mut self, row: SegmentRow, metered_s: i64) -> Result<(), StoreError> {
        let Some(segment) = self.book.segments.get_mut(&row) else { return Ok(()) };
        if segment.settled.is_some() || !segment.tier.floats() {
            return Ok(());
        }
        for (pool, held) in &mut segment.held {
            let Some(state) = self.book.pools.get(pool) else { continue };
            let price = spot_price(segment.limit, self.terms.reserve(pool), state.index.price());
            // The meter of a job that was resized may be behind its prices; they hold until it has caught up.
            if held.prices.last().is_some_and(|last| last.price == price || last.from_metered_s >= metered_s)
            {
                continue;
            }
            let interval = PriceInterval { from_metered_s: metered_s, price };
            self.tx.insert_price(row, pool, interval)?;
            held.prices.push(interval);
        }
        Ok(())
    }

    /// π of a spot run from its start on, by the index that was published before it; at first κ.
    pub(crate) fn spot_price_at(&self, limit: Price, pool: &str, start_s: i64) -> Result<Price, StoreError> {
        let published = self.tx.index_points(pool, start_s, start_s.saturating_add(1))?;
        let index = published.last().map(|(_, price)| *price);
        let index = index.or_else(|| self.book.pools.get(pool).map(|state| state.index.price()));
        let first = || self.terms.pools.get(pool).map(|params| Index::at(params.weight).price());
        Ok(spot_price(limit, self.terms.reserve(pool), index.or_else(first).unwrap_or_default()))
    }
}
