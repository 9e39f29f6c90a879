//! Escrow of running jobs: placed window by window of 24 h, each at its own price.

use market::amount::{Amount, Price};
use market::index::time_weighted_mean_floor;
use market::ledger::{LedgerAccount, Transfer, TransferKind};
use market::metering::{MeterError, PRICE_WINDOW_S, PriceInterval, escrow_ceil, window_price};

use super::pass::{BookingError, Pass};
use super::terms;
use crate::facts::Run;
use crate::model::{Segment, SegmentRow};

/// An escrow is renewed when so little of it remains.
const RENEW_BEFORE_S: i64 = 30 * 60;

impl Pass<'_> {
    /// Renews what is about to run out, and follows a changed time limit.
    pub(crate) fn renew(&mut self, run: &Run) -> Result<(), BookingError> {
        let Some(row) = self.book.segment_by_run.get(&run.key()).copied() else {
            return Ok(());
        };
        let limit_s = terms::run_limit_s(self.cluster, &run.identity.partition, run.identity.time_limit_s);
        let Some(segment) = self.book.segments.get_mut(&row).filter(|segment| segment.settled.is_none())
        else {
            return Ok(());
        };
        if segment.time_limit_s != limit_s {
            segment.time_limit_s = limit_s;
            self.tx.update_escrow(segment)?;
        }
        let elapsed_s = self.as_of_s.saturating_sub(run.start_s);
        self.extend_escrow(row, elapsed_s.saturating_add(RENEW_BEFORE_S))
    }

    /// Places escrow, and fixes the price of further 24 h windows, until more than `needed_s` metered seconds are
    /// covered or the time limit is. Takes what money there is; the rest becomes house loss if it is used.
    pub(crate) fn extend_escrow(&mut self, row: SegmentRow, needed_s: i64) -> Result<(), BookingError> {
        loop {
            let Some(segment) = self.book.segments.get(&row) else {
                return Ok(());
            };
            let from_s = segment.escrow_until_s;
            let mark_s = next_mark_s(from_s);
            let until_s = segment.time_limit_s.map_or(mark_s, |limit_s| limit_s.min(mark_s));
            if from_s > needed_s || until_s <= from_s {
                return Ok(());
            }
            self.price_window(row, from_s)?;
            self.place_escrow(row, until_s)?;
        }
    }

    /// Prices a run up to its end, where it outlived the renewals because nobody looked.
    pub(crate) fn price_until(&mut self, row: SegmentRow, metered_s: i64) -> Result<(), BookingError> {
        loop {
            let Some(segment) = self.book.segments.get_mut(&row) else {
                return Ok(());
            };
            let from_s = segment.escrow_until_s;
            if metered_s <= from_s {
                return Ok(());
            }
            segment.escrow_until_s = next_mark_s(from_s).min(metered_s);
            self.price_window(row, from_s)?;
        }
    }

    /// Fixes the price of the window that begins at `from_s`, if one does.
    fn price_window(&mut self, row: SegmentRow, from_s: i64) -> Result<(), BookingError> {
        if from_s == 0 || from_s % PRICE_WINDOW_S != 0 {
            return Ok(());
        }
        let Some(segment) = self.book.segments.get_mut(&row).filter(|segment| !segment.tier.floats()) else {
            return Ok(());
        };
        // The index is known up to now; renewed early, its last value stands for the minutes to come.
        let mark_s = segment.start_s.saturating_add(from_s);
        let day_before_s = mark_s.saturating_sub(PRICE_WINDOW_S);
        for (pool, held) in &mut segment.held {
            let points = self.tx.index_points(pool, day_before_s, mark_s)?;
            let mean = time_weighted_mean_floor(&points, day_before_s, mark_s);
            let last = held.prices.last().map_or(Price::ZERO, |interval| interval.price);
            let price = mean.map_or(last, |mean| window_price(segment.limit, segment.tier, mean));
            let interval = PriceInterval { from_metered_s: from_s, price };
            self.tx.insert_price(row, pool, interval)?;
            held.prices.push(interval);
        }
        Ok(())
    }

    fn place_escrow(&mut self, row: SegmentRow, until_s: i64) -> Result<(), BookingError> {
        let Some(segment) = self.book.segments.get(&row).cloned() else {
            return Ok(());
        };
        let mut wanted = Amount::ZERO;
        for held in segment.held.values() {
            let last = || held.prices.last().map_or(Price::ZERO, |interval| interval.price);
            // What floats may come to cost its limit.
            let price = if segment.tier.floats() { segment.limit } else { last() };
            let cost = escrow_ceil(price, held.q, until_s - segment.escrow_until_s)?;
            wanted = wanted.checked_add(cost).ok_or(MeterError::Overflow)?;
        }
        let from = LedgerAccount::Account(segment.account.clone());
        let placed = wanted.min(self.book.balances.of(&from));
        if placed > Amount::ZERO {
            let to = LedgerAccount::Escrow(segment.account.clone());
            let transfer = Transfer::movement(TransferKind::EscrowPlaced, from, to, placed)?;
            self.post(&transfer, &segment)?;
        }
        let escrow = segment.escrow.checked_add(placed).ok_or(MeterError::Overflow)?;
        let segment = Segment { escrow, escrow_until_s: until_s, ..segment };
        self.tx.update_escrow(&segment)?;
        self.book.segments.insert(row, segment);
        Ok(())
    }
}

/// The end of the price window that these metered seconds lie in.
fn next_mark_s(metered_s: i64) -> i64 {
    (metered_s / PRICE_WINDOW_S + 1).saturating_mul(PRICE_WINDOW_S)
}
