//! The index (`charge_price`): the start price, smoothed in its logarithm (design, "Index").

use crate::amount::Price;
use crate::fixed::{LOG2_1_25_Q32, exp2_q32, log2_q32};

const HOUR_S: u128 = 3_600;
/// 1/λ: the index would need two hours to come the whole way at its first speed.
const HOURS_TO_CLOSE: u128 = 2;
/// A late round moves the index by at most this many rounds.
const QUANTA_MAX: i64 = 2;

/// A pool's index, kept as its logarithm so that small steps are not lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    log2_q32: i64,
}

impl Index {
    /// The index at `price`; it starts at κ. A price of 0 counts as 1 µSU.
    #[must_use]
    pub const fn at(price: Price) -> Self {
        Self { log2_q32: log2_q32(price.micros().unsigned_abs()) }
    }

    /// The index with the stored log2 of its µSU per GPU-hour, in Q32.32.
    #[must_use]
    pub const fn from_log2_q32(log2_q32: i64) -> Self {
        Self { log2_q32 }
    }

    /// log2 of its µSU per GPU-hour in Q32.32, to be stored.
    #[must_use]
    pub const fn log2_q32(self) -> i64 {
        self.log2_q32
    }

    /// The index rounded to the nearest µSU. `Index::at(p).price()` is p from 1 µSU to 2³¹ µSU, 2,147 SU.
    #[must_use]
    pub fn price(self) -> Price {
        let micros = i64::try_from(exp2_q32(self.log2_q32)).unwrap_or(i64::MAX);
        Price::from_micros(micros).unwrap_or(Price::ZERO)
    }

    /// The index a round later: log2 i += clamp((λ·Δt/3600)·(log2 start − log2 i), ±log2(1.25)·Δt/3600) with λ = 0.5
    /// and Δt = `elapsed_s`, at most two of `quantum_s`. The step towards the start price is rounded up, so that the
    /// index arrives, the bound is rounded down, and the index never passes the start price.
    #[must_use]
    pub fn advance(self, start_price: Price, elapsed_s: i64, quantum_s: i64) -> Self {
        let longest_s = quantum_s.max(0).saturating_mul(QUANTA_MAX);
        let elapsed_s = u128::from(elapsed_s.clamp(0, longest_s).unsigned_abs());
        let target = Self::at(start_price).log2_q32;
        let gap = self.log2_q32.abs_diff(target);
        let pull = (u128::from(gap) * elapsed_s).div_ceil(HOURS_TO_CLOSE * HOUR_S);
        let bound = u128::from(LOG2_1_25_Q32.unsigned_abs()) * elapsed_s / HOUR_S;
        let step = u64::try_from(pull.min(bound)).unwrap_or(gap).min(gap);
        let log2_q32 = if target > self.log2_q32 {
            self.log2_q32.saturating_add_unsigned(step)
        } else {
            self.log2_q32.saturating_sub_unsigned(step)
        };
        Self { log2_q32 }
    }
}

/// ⌊time-weighted mean⌋ of a stepwise price over [`from_s`, `to_s`).
///
/// `points` are (UTC second, price) in order of time; each price holds from its second to the next point's, the last
/// one for ever, and the first one before it too. `None` without points, or if the time is empty.
#[must_use]
pub fn time_weighted_mean_floor(points: &[(i64, Price)], from_s: i64, to_s: i64) -> Option<Price> {
    let (_, first) = points.first()?;
    let (from, to) = (i128::from(from_s), i128::from(to_s));
    if from >= to {
        return None;
    }
    // Price·seconds: under 2⁶³·2⁶⁴, which an i128 holds.
    let mut weighted: i128 = 0;
    let mut reached = from;
    let mut price = *first;
    for (at_s, next_price) in points {
        let until = i128::from(*at_s).clamp(reached, to);
        weighted += i128::from(price.micros()) * (until - reached);
        reached = until;
        price = *next_price;
    }
    weighted += i128::from(price.micros()) * (to - reached);
    Price::from_micros(i64::try_from(weighted / (to - from)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SU: i64 = 1_000_000;

    fn price(micros: i64) -> Price {
        Price::from_micros(micros).expect("a test's price is not below zero")
    }

    #[test]
    fn an_index_shows_the_price_it_was_set_to() {
        for micros in [1, 2, 3, 999_999, SU, 1_234_567, 1 << 31] {
            assert_eq!(Index::at(price(micros)).price(), price(micros));
        }
        assert_eq!(Index::at(Price::ZERO).price(), price(1));
        let index = Index::at(price(1_234_567));
        assert_eq!(Index::from_log2_q32(index.log2_q32()), index);
    }

    #[test]
    fn a_minute_moves_it_by_at_most_3726_ppm() {
        let index = Index::at(price(SU));
        assert_eq!(index.advance(price(1_000 * SU), 60, 60).price(), price(1_003_726));
        assert_eq!(index.advance(price(1), 60, 60).price(), price(996_288));
    }

    #[test]
    fn an_hour_of_minutes_moves_it_by_at_most_a_quarter() {
        let mut up = Index::at(price(SU));
        let mut down = up;
        for _ in 0..60 {
            up = up.advance(price(1_000 * SU), 60, 60);
            down = down.advance(Price::ZERO, 60, 60);
        }
        assert_eq!((up.price(), down.price()), (price(1_250_000), price(800_000)));
    }

    #[test]
    fn near_the_start_price_it_closes_half_the_gap_per_hour_at_its_first_speed() {
        // 10 % apart in the logarithm's terms: 1.1^(1/120) = 1.0007946 in a minute.
        assert_eq!(Index::at(price(SU)).advance(price(1_100_000), 60, 60).price(), price(1_000_795));
    }

    #[test]
    fn a_late_round_counts_as_two_at_most() {
        let index = Index::at(price(SU));
        let start = price(9 * SU);
        assert_eq!(index.advance(start, 86_400, 60), index.advance(start, 120, 60));
        assert_eq!(index.advance(start, 0, 60), index);
        assert_eq!(index.advance(start, -60, 60), index);
        assert_eq!(index.advance(start, 60, 0), index);
    }

    #[test]
    fn it_arrives_exactly_and_never_moves_away_nor_past() {
        for quantum_s in [1, 5, 60, 3_600, 100_000] {
            for (from, to) in [(SU, 3 * SU), (SU, 0), (7 * SU, SU), (SU, SU + 1), (SU, SU)] {
                let target = Index::at(price(to));
                let mut index = Index::at(price(from));
                let mut rounds = 0;
                while index != target {
                    let next = index.advance(price(to), quantum_s, quantum_s);
                    let gap = |index: Index| target.log2_q32() - index.log2_q32();
                    assert!(gap(next).abs() < gap(index).abs(), "closer each round");
                    assert!(gap(next) == 0 || gap(next).signum() == gap(index).signum(), "not past");
                    index = next;
                    rounds += 1;
                    assert!(rounds * quantum_s <= 100 * 3_600 + quantum_s, "{quantum_s} {from} {to}");
                }
            }
        }
    }

    #[test]
    fn extreme_values_do_not_break_it() {
        for log in [i64::MIN, -1, 0, i64::MAX] {
            for start in [0, 1, i64::MAX] {
                let index = Index::from_log2_q32(log).advance(price(start), i64::MAX, i64::MAX);
                assert_eq!(index, Index::at(price(start)));
            }
        }
        assert_eq!(Index::from_log2_q32(i64::MAX).price(), price(i64::MAX));
        assert_eq!(Index::from_log2_q32(i64::MIN).price(), Price::ZERO);
    }

    #[test]
    fn means_weigh_each_price_by_its_time() {
        let points = [(100, price(10)), (160, price(20)), (220, price(40))];
        let mean = |from_s, to_s| time_weighted_mean_floor(&points, from_s, to_s);
        assert_eq!(mean(100, 160), Some(price(10)));
        assert_eq!(mean(130, 190), Some(price(15)));
        assert_eq!(mean(100, 221), Some(price(15)), "1,840 / 121 rounded down");
        assert_eq!(mean(0, 110), Some(price(10)), "before the first point its price holds");
        assert_eq!(mean(0, 50), Some(price(10)));
        assert_eq!(mean(500, 600), Some(price(40)), "the last price holds for ever");
        assert_eq!(mean(170, 180), Some(price(20)));
        assert_eq!(mean(160, 160), None);
        assert_eq!(mean(160, 100), None);
        assert_eq!(time_weighted_mean_floor(&[], 0, 1), None);
    }

    #[test]
    fn of_two_points_at_one_time_the_later_counts() {
        let points = [(100, price(10)), (150, price(70)), (150, price(20))];
        assert_eq!(time_weighted_mean_floor(&points, 100, 200), Some(price(15)));
    }

    #[test]
    fn the_widest_mean_does_not_overflow() {
        let points = [(i64::MIN, price(i64::MAX))];
        assert_eq!(time_weighted_mean_floor(&points, i64::MIN, i64::MAX), Some(price(i64::MAX)));
    }
}
