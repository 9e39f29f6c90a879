//! The end of a run: it is charged by Slurm's record, and the rest of its escrow goes back.

use market::amount::{Amount, Price};
use market::ledger::{LedgerAccount, Settlement};
use market::metering::charge_floor;
use market::stamp::Receipt;

use super::pass::{BookingError, Pass, RunKey};
use crate::facts::Ending;
use crate::model::{Segment, SegmentRow, Settled};

impl Pass<'_> {
    /// Settles a run that has ended, if the ledger knows it.
    pub(crate) fn settle_known(&mut self, ending: Ending) -> Result<(), BookingError> {
        match self.book.segment_by_run.get(&(ending.job_id, ending.start_s)).copied() {
            Some(row) => self.settle(row, ending.end_s, ending.suspended_s),
            None => Ok(()),
        }
    }

    /// Ends a run that Slurm has no record of: nothing is charged, and there is nowhere to write a receipt.
    pub(crate) fn settle_unrecorded(&mut self, run: RunKey) -> Result<(), BookingError> {
        let Some(row) = self.book.segment_by_run.get(&run).copied() else { return Ok(()) };
        self.settle(row, run.1, 0)?;
        self.tx.drop_receipt(row)?;
        if let Some(segment) = self.book.segments.get_mut(&row) {
            segment.receipt_outstanding = None;
        }
        Ok(())
    }

    /// Charges a run by Slurm's record, gives the rest of its escrow back and writes its receipt.
    pub(crate) fn settle(
        &mut self,
        row: SegmentRow,
        end_s: i64,
        suspended_s: i64,
    ) -> Result<(), BookingError> {
        let Some(segment) = self.book.segments.get(&row).filter(|segment| segment.settled.is_none()) else {
            return Ok(());
        };
        let metered_s = end_s.saturating_sub(segment.start_s).saturating_sub(suspended_s.max(0)).max(0);
        self.price_until(row, metered_s)?;
        let Some(segment) = self.book.segments.get(&row).cloned() else {
            return Ok(());
        };
        let charge = charge_floor(0, segment.numerator(metered_s)?)?;
        let available = self.book.balances.of(&LedgerAccount::Account(segment.account.clone()));
        let settlement = Settlement::of(&segment.account, segment.escrow, available, charge)?;
        self.post(&settlement.charge, &segment)?;
        self.post(&settlement.refund, &segment)?;
        let receipt = receipt(&segment, metered_s, settlement.paid).to_string();
        let settled = Settled { end_s, metered_s, charge, loss: settlement.loss };
        self.tx.settle_segment(row, settled, &receipt)?;
        let settled = Some(settled);
        let segment =
            Segment { escrow: Amount::ZERO, settled, receipt_outstanding: Some(receipt), ..segment };
        self.book.segments.insert(row, segment);
        Ok(())
    }
}

fn receipt(segment: &Segment, metered_s: i64, paid: Amount) -> Receipt {
    let gpu_milliseconds = i128::from(segment.q_milli()) * i128::from(metered_s);
    let mean = segment.numerator(metered_s).ok().and_then(|n| n.checked_div(gpu_milliseconds));
    Receipt {
        paid,
        limit: segment.limit,
        tier: segment.tier,
        gpu_seconds: i64::try_from(gpu_milliseconds / 1000).unwrap_or(i64::MAX),
        price: mean
            .filter(|_| segment.tier.is_paid())
            .and_then(|micros| i64::try_from(micros).ok())
            .and_then(Price::from_micros),
    }
}
