//! What use costs: the price an order pays, the funds set aside for it, and the charge for a stretch of use
//! (design, "Price paid", "Funds", "Metering").

use thiserror::Error;

use crate::amount::{Amount, MilliGpus, Price};
use crate::order::{Tier, times_multiple_ceil};

/// Longest time that funds are set aside for at once, and for which a standard price is fixed: 24 h.
pub const PRICE_WINDOW_S: i64 = 86_400;
/// µSU per GPU-hour times milli-GPUs times seconds, in one µSU: 1,000 · 3,600.
const PER_MICRO: i128 = 3_600_000;

/// Why a cost cannot be worked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MeterError {
    #[error("the cost is beyond what an amount can hold")]
    Overflow,
    #[error("a time is below zero")]
    NegativeTime,
    #[error("price intervals are not in order of time")]
    Unordered,
    #[error("metered time before the first price interval")]
    Unpriced,
}

/// h = min(time limit + OverTimeLimit, 24 h) in seconds. `None` is Slurm's "unlimited" for either; a site without
/// OverTimeLimit has `Some(0)`. Times below zero count as 0.
#[must_use]
pub fn escrow_horizon_s(limit_s: Option<i64>, over_time_s: Option<i64>) -> i64 {
    match (limit_s, over_time_s) {
        (Some(limit_s), Some(over_s)) => limit_s.max(0).saturating_add(over_s.max(0)).min(PRICE_WINDOW_S),
        _ => PRICE_WINDOW_S,
    }
}

/// Earmark of a pending order: ⌈limit·q·h/3,600,000⌉.
///
/// # Errors
/// `NegativeTime`, `Overflow`.
pub fn earmark_ceil(limit: Price, q: MilliGpus, horizon_s: i64) -> Result<Amount, MeterError> {
    cost_ceil(limit, q, horizon_s)
}

/// Escrow of a starting order at the price it pays: ⌈π·q·h/3,600,000⌉. Covers every charge of those h seconds.
///
/// # Errors
/// `NegativeTime`, `Overflow`.
pub fn escrow_ceil(price: Price, q: MilliGpus, horizon_s: i64) -> Result<Amount, MeterError> {
    cost_ceil(price, q, horizon_s)
}

fn cost_ceil(price: Price, q: MilliGpus, time_s: i64) -> Result<Amount, MeterError> {
    let product = product(price, q, i128::from(time_s))?;
    amount(product / PER_MICRO + i128::from(product % PER_MICRO != 0))
}

fn product(price: Price, q: MilliGpus, time_s: i128) -> Result<i128, MeterError> {
    if time_s < 0 {
        return Err(MeterError::NegativeTime);
    }
    let rate = i128::from(price.micros()) * i128::from(q.milli());
    rate.checked_mul(time_s).ok_or(MeterError::Overflow)
}

fn amount(micros: i128) -> Result<Amount, MeterError> {
    i64::try_from(micros).map(Amount::from_micros).map_err(|_| MeterError::Overflow)
}

/// π of an order that starts: min(limit, ⌈m·max(reserve, d)⌉), fixed for 24 h; 0 in the free tier.
///
/// `displaced` is d, see [`displaced_price`]. The product is rounded up like the least limit, so a limit equal to the
/// least limit pays exactly it. In a paid tier min(limit, reserve) ≤ π ≤ limit, and π ≥ d or π = limit.
#[must_use]
pub fn start_price_paid(limit: Price, tier: Tier, reserve: Price, displaced: Price) -> Price {
    limit.min(times_multiple_ceil(reserve.max(displaced), tier))
}

/// π of a spot order in an interval: min(limit, max(reserve, index)); `index` is the one published before the interval.
#[must_use]
pub fn spot_price(limit: Price, reserve: Price, index: Price) -> Price {
    limit.min(reserve.max(index))
}

/// π of a running order from a further 24 h mark on: min(limit, ⌈m·⌊mean⌋⌉); `mean_index` is the floored time-weighted
/// mean of the index over the past 24 h.
#[must_use]
pub fn window_price(limit: Price, tier: Tier, mean_index: Price) -> Price {
    limit.min(times_multiple_ceil(mean_index, tier))
}

/// An order that was funded in the last committed round and is still pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub account: &'a str,
    /// e, its effective bid.
    pub effective: Price,
    /// First eligible time, UTC seconds.
    pub eligible_s: i64,
    pub q: MilliGpus,
    /// Whether the GPUs that were taken meet its constraints.
    pub fits: bool,
}

/// The job that took the GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taker<'a> {
    pub account: &'a str,
    /// Start of the run segment, UTC seconds.
    pub started_s: i64,
    pub q: MilliGpus,
}

/// d, the best effective bid that a start displaced: the highest among the candidates of another account that were
/// eligible no later than the start, want no more GPUs, and could have used those taken; 0 if there is none.
#[must_use]
pub fn displaced_price(candidates: &[Candidate<'_>], taker: &Taker<'_>) -> Price {
    let is_displaced = |candidate: &&Candidate<'_>| {
        candidate.fits
            && candidate.account != taker.account
            && candidate.eligible_s <= taker.started_s
            && candidate.q <= taker.q
    };
    candidates.iter().filter(is_displaced).map(|candidate| candidate.effective).max().unwrap_or(Price::ZERO)
}

/// A price and where on the segment's meter it begins; it holds until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceInterval {
    /// Reading of the meter when the price came into force: seconds run since the segment's start, suspended ones not
    /// counted. The first interval begins at 0.
    pub from_metered_s: i64,
    pub price: Price,
}

/// The GPUs that a run segment holds in one pool, with their prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub q: MilliGpus,
    /// In order of time.
    pub intervals: &'a [PriceInterval],
}

/// N(t) = Σ π_k·q·s_k of a run segment after `metered_s` seconds of running, over all its lines, in 1/3,600,000 µSU.
///
/// # Errors
/// Any [`MeterError`].
pub fn numerator(lines: &[Line<'_>], metered_s: i64) -> Result<i128, MeterError> {
    if metered_s < 0 {
        return Err(MeterError::NegativeTime);
    }
    lines.iter().try_fold(0_i128, |sum, line| {
        sum.checked_add(line_numerator(line, metered_s)?).ok_or(MeterError::Overflow)
    })
}

fn line_numerator(line: &Line<'_>, metered_s: i64) -> Result<i128, MeterError> {
    let starts = line.intervals.iter().map(|interval| interval.from_metered_s);
    if !starts.clone().is_sorted() {
        return Err(MeterError::Unordered);
    }
    if metered_s > 0 && starts.clone().next().is_none_or(|first_s| first_s > 0) {
        return Err(MeterError::Unpriced);
    }
    let ends = starts.skip(1).chain([metered_s]);
    line.intervals.iter().zip(ends).try_fold(0_i128, |sum, (interval, end_s)| {
        // Intervals that begin after the reading do not count yet; nor does what lies before the segment.
        let begin_s = interval.from_metered_s.clamp(0, metered_s);
        let held_s = i128::from(end_s.clamp(begin_s, metered_s)) - i128::from(begin_s);
        sum.checked_add(product(interval.price, line.q, held_s)?).ok_or(MeterError::Overflow)
    })
}

/// charge(t0, t1) = ⌊N(t1)/3,600,000⌋ − ⌊N(t0)/3,600,000⌋: however a time is split, its parts bill the same in sum.
/// Below zero if N went down, as when Slurm reports a suspension late: that much is given back.
///
/// # Errors
/// `Overflow`.
pub fn charge_floor(n0: i128, n1: i128) -> Result<Amount, MeterError> {
    amount(n1.div_euclid(PER_MICRO) - n0.div_euclid(PER_MICRO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(micros: i64) -> Price {
        Price::from_micros(micros).expect("a test's price is not below zero")
    }

    fn micros(amount: i64) -> Result<Amount, MeterError> {
        Ok(Amount::from_micros(amount))
    }

    fn gpus(count: u32) -> MilliGpus {
        MilliGpus::from_gpus(count)
    }

    fn milli(count: i64) -> MilliGpus {
        MilliGpus::from_milli(count).expect("a test's GPUs are not below zero")
    }

    fn interval(from_metered_s: i64, micros: i64) -> PriceInterval {
        PriceInterval { from_metered_s, price: price(micros) }
    }

    const MAX: i64 = i64::MAX;

    #[test]
    fn the_horizon_is_the_worst_case_up_to_a_day() {
        let table = [
            ((Some(3_600), Some(0)), 3_600),
            ((Some(3_600), Some(600)), 4_200),
            ((Some(86_400), Some(600)), 86_400),
            ((Some(0), Some(0)), 0),
            ((Some(-5), Some(60)), 60),
            ((Some(MAX), Some(MAX)), 86_400),
            ((None, Some(0)), 86_400),
            ((Some(60), None), 86_400),
        ];
        for ((limit_s, over_s), horizon_s) in table {
            assert_eq!(escrow_horizon_s(limit_s, over_s), horizon_s, "{limit_s:?} {over_s:?}");
        }
    }

    #[test]
    fn funds_are_set_aside_rounded_up() {
        // 2 GPUs × 4 h × 3.5 SU = 28 SU.
        assert_eq!(earmark_ceil(price(3_500_000), gpus(2), 14_400), micros(28_000_000));
        assert_eq!(escrow_ceil(price(1), milli(1), 1), micros(1));
        assert_eq!(escrow_ceil(price(1), gpus(1), 3_600), micros(1));
        assert_eq!(escrow_ceil(price(1), gpus(1), 3_601), micros(2));
        assert_eq!(escrow_ceil(price(7), gpus(3), 0), micros(0));
    }

    #[test]
    fn what_no_amount_can_hold_is_an_error() {
        assert_eq!(earmark_ceil(price(MAX), milli(MAX), MAX), Err(MeterError::Overflow));
        assert_eq!(earmark_ceil(price(MAX), gpus(2), 3_600), Err(MeterError::Overflow));
        assert_eq!(earmark_ceil(price(MAX), gpus(1), 3_600), micros(MAX));
        assert_eq!(earmark_ceil(price(1), gpus(1), -1), Err(MeterError::NegativeTime));
        assert_eq!(charge_floor(i128::MIN, i128::MAX), Err(MeterError::Overflow));
        let line = Line { q: milli(MAX), intervals: &[interval(0, MAX)] };
        assert_eq!(numerator(&[line], MAX), Err(MeterError::Overflow));
        assert_eq!(numerator(&[line; 3], 1), Err(MeterError::Overflow), "only the sum is too large");
    }

    #[test]
    fn a_start_pays_the_multiple_of_reserve_or_displaced_bid_up_to_its_limit() {
        let paid = |limit, displaced| {
            start_price_paid(price(limit), Tier::Standard, price(250_000), price(displaced)).micros()
        };
        assert_eq!(paid(3_500_000, 0), 312_500);
        assert_eq!(paid(3_500_000, 250_001), 312_502, "rounded up");
        assert_eq!(paid(3_500_000, 2_000_000), 2_500_000);
        assert_eq!(paid(3_500_000, 9_000_000), 3_500_000);
        assert_eq!(paid(312_500, 0), 312_500, "the least limit pays itself");
        assert_eq!(paid(100_000, 0), 100_000);
        assert_eq!(start_price_paid(price(MAX), Tier::Standard, price(MAX), price(0)), price(MAX));
        assert_eq!(start_price_paid(price(5), Tier::Free, price(5), price(5)), Price::ZERO);
    }

    #[test]
    fn a_further_window_pays_the_multiple_of_the_mean_index() {
        assert_eq!(window_price(price(3_500_000), Tier::Standard, price(1_000_001)), price(1_250_002));
        assert_eq!(window_price(price(900_000), Tier::Standard, price(1_000_000)), price(900_000));
        assert_eq!(window_price(price(900_000), Tier::Free, price(1_000_000)), Price::ZERO);
    }

    #[test]
    fn a_spot_price_floats_between_reserve_and_limit() {
        let paid = |limit, index| spot_price(price(limit), price(250_000), price(index)).micros();
        assert_eq!(paid(3_000_000, 0), 250_000);
        assert_eq!(paid(3_000_000, 1_234_567), 1_234_567);
        assert_eq!(paid(1_000_000, 1_234_567), 1_000_000);
        assert_eq!(paid(100_000, 0), 100_000, "an old limit under a reserve that rose");
    }

    #[test]
    fn only_a_strangers_waiting_order_that_could_have_run_there_is_displaced() {
        let taker = Taker { account: "vision", started_s: 1_000, q: gpus(4) };
        let rival =
            Candidate { account: "speech", effective: price(800), eligible_s: 1_000, q: gpus(4), fits: true };
        let best = Candidate { effective: price(900), ..rival };
        assert_eq!(displaced_price(&[], &taker), Price::ZERO);
        assert_eq!(displaced_price(&[rival, best, rival], &taker), price(900));
        let undisplaced = [
            Candidate { account: "vision", ..best },
            Candidate { eligible_s: 1_001, ..best },
            Candidate { q: milli(4_001), ..best },
            Candidate { fits: false, ..best },
        ];
        for candidate in undisplaced {
            assert_eq!(displaced_price(&[candidate, rival], &taker), price(800), "{candidate:?}");
        }
    }

    #[test]
    fn the_numerator_weighs_each_price_by_its_seconds_and_sums_the_lines() {
        let first = Line { q: gpus(2), intervals: &[interval(0, 10), interval(100, 30), interval(100, 20)] };
        let second = Line { q: milli(500), intervals: &[interval(0, 1)] };
        let table = [(0, 0), (1, 20_500), (100, 2_050_000), (150, 4_075_000)];
        for (metered_s, n) in table {
            assert_eq!(numerator(&[first, second], metered_s), Ok(n), "{metered_s}");
        }
        assert_eq!(numerator(&[], 150), Ok(0));
    }

    #[test]
    fn gaps_disorder_and_negative_readings_are_errors() {
        let reading =
            |intervals: &[PriceInterval], metered_s| numerator(&[Line { q: gpus(1), intervals }], metered_s);
        let unordered = [interval(0, 5), interval(9, 5), interval(8, 5)];
        assert_eq!(reading(&[], 1), Err(MeterError::Unpriced));
        assert_eq!(reading(&[interval(1, 5)], 1), Err(MeterError::Unpriced));
        assert_eq!(reading(&[], 0), Ok(0));
        assert_eq!(reading(&unordered, 1), Err(MeterError::Unordered));
        assert_eq!(reading(&[interval(0, 5)], -1), Err(MeterError::NegativeTime));
    }

    #[test]
    fn charges_round_down_and_give_back_what_was_too_much() {
        assert_eq!(charge_floor(0, 3_599_999), micros(0));
        assert_eq!(charge_floor(3_599_999, 3_600_000), micros(1));
        assert_eq!(charge_floor(7_200_000, 3_599_999), micros(-2));
    }
}
