//! An order's tier, its effective bid, its place in the queue and its factor in Slurm's priority (design, "Rules of the market").
//!
//! Pacing is not here yet: α = 1 for every account.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::amount::Price;
use crate::fixed::{FRACTION_BITS, ONE_Q32, log2_q32};

/// Thousandths in one, for a tier's multiple.
const PERMILLE: i128 = 1_000;
/// Age grows for this long, 14 days, and then stays.
const AGE_MAX_S: i64 = 14 * 86_400;
/// Seconds in which age grows by one ρ0: a hundredth of it per hour.
const AGE_S_PER_RHO0: i128 = 100 * 3_600;
/// log2 of ρ0/b: a rank of ρ0/256 and below has the least factor.
const DOUBLINGS_BELOW_RHO0: i64 = 8;
/// `site_factor` is Slurm's NICE_OFFSET (2³¹) plus the factor, in 32 bits.
const FACTOR_MAX: u32 = (1 << 31) - 1;

/// What service an order buys. Each tier is one QOS in Slurm. (design "Tiers")
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// May have spot jobs evicted, at twice the price.
    Urgent,
    /// Not preempted by the market, at 1.25 times the price.
    Standard,
    /// May be outbid while it runs, at a price that floats with the index.
    Spot,
    /// Pays nothing, takes leftovers, yields to every paid tier.
    Free,
}

impl Tier {
    /// The multiple m of the price that this tier pays, in thousandths; 0 for the free tier, which has no price.
    #[must_use]
    pub const fn multiple_permille(self) -> u32 {
        match self {
            Self::Urgent => 2_000,
            Self::Standard => 1_250,
            Self::Spot => 1_000,
            Self::Free => 0,
        }
    }

    /// Every tier but the free one: it needs funds, stands in line by its rank, and pays.
    #[must_use]
    pub const fn is_paid(self) -> bool {
        self.multiple_permille() > 0
    }

    /// The price is not fixed at the start but follows the index.
    #[must_use]
    pub const fn floats(self) -> bool {
        matches!(self, Self::Spot)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Standard => "standard",
            Self::Spot => "spot",
            Self::Free => "free",
        }
    }

    /// All of them, the dearest first.
    pub const ALL: [Self; 4] = [Self::Urgent, Self::Standard, Self::Spot, Self::Free];
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a tier is urgent, standard, spot or free")]
pub struct UnknownTier;

impl FromStr for Tier {
    type Err = UnknownTier;

    /// Reads the exact lower-case name.
    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        Self::ALL.into_iter().find(|tier| tier.name() == text).ok_or(UnknownTier)
    }
}

/// Effective bid e = ⌊limit/m⌋; 0 in the free tier.
///
/// e ≥ r exactly if the limit is at least [`least_limit_ceil`] of r.
#[must_use]
pub fn effective_bid_floor(limit: Price, tier: Tier) -> Price {
    match tier.multiple_permille() {
        0 => Price::ZERO,
        m => price_or_max(i128::from(limit.micros()) * PERMILLE / i128::from(m)),
    }
}

/// The least limit that buys at `reserve` in this tier: ⌈m·reserve⌉, 0 in the free tier, at most the highest `Price`.
#[must_use]
pub fn least_limit_ceil(reserve: Price, tier: Tier) -> Price {
    times_multiple_ceil(reserve, tier)
}

/// ⌈m·price⌉, at most the highest `Price`.
///
/// Rounded up like the least limit that is quoted, so that a limit of exactly the least limit pays exactly itself.
pub(crate) fn times_multiple_ceil(price: Price, tier: Tier) -> Price {
    let product = i128::from(price.micros()) * i128::from(tier.multiple_permille());
    price_or_max((product + PERMILLE - 1) / PERMILLE)
}

/// Age = ⌊0.01·ρ0 per hour⌋ for the seconds pending, eligible, not held and funded, at most 14 days of them (3.36·ρ0).
#[must_use]
pub fn age_bonus(rho0: Price, pending_s: i64) -> Price {
    let counted_s = pending_s.clamp(0, AGE_MAX_S);
    price_or_max(i128::from(rho0.micros()) * i128::from(counted_s) / AGE_S_PER_RHO0)
}

/// Rank = e + age, at most the highest `Price`. It orders; prices come from e alone.
#[must_use]
pub fn rank(effective: Price, age: Price) -> Price {
    price_or_max(i128::from(effective.micros()) + i128::from(age.micros()))
}

/// `micros` must not be below zero.
fn price_or_max(micros: i128) -> Price {
    Price::from_micros(i64::try_from(micros).unwrap_or(i64::MAX)).unwrap_or(Price::ZERO)
}

/// Who an order is for as long as it lives: Slurm rewrites submit times and ids at a requeue or a split, these are the
/// first ones seen. Compares as the last three tie-breaks of [`RankKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId {
    /// First submit time, UTC seconds.
    pub submitted_s: i64,
    pub job_id: u32,
    /// The task, where the order is one task of an array.
    pub task_id: Option<u32>,
}

/// An order's place in the queue. The lesser key is served first: higher rank, then earlier first eligible time, first
/// submit time, first-seen job id, task id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RankKey {
    /// e + age; frozen at the start.
    pub rank: Price,
    /// First eligible time, UTC seconds.
    pub eligible_s: i64,
    pub order: OrderId,
}

impl Ord for RankKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let higher_rank_first = other.rank.cmp(&self.rank);
        higher_rank_first.then(self.eligible_s.cmp(&other.eligible_s)).then(self.order.cmp(&other.order))
    }
}

impl PartialOrd for RankKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How ranks become factors: a site's setting, to be weighed against its other priority weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactorScale {
    /// M: what a doubling of the rank adds to the factor.
    pub per_doubling: u32,
    /// The factor moves in steps of this size, so that small changes of rank change no job; 0 counts as 1.
    pub step: u32,
}

impl Default for FactorScale {
    /// 1/256 of a doubling per step.
    fn default() -> Self {
        Self { per_doubling: 16_384, step: 64 }
    }
}

/// F = step·⌊M·log2(max(rank, b)/b)/step⌋ + 1 with b = ρ0/256, below 2³¹: the factor of a paid order. Free and unpriced
/// jobs have 0, which is the caller's to say.
///
/// b stays a fraction: log2(rank/b) = log2(rank) + 8 − log2(ρ0) in Q32.32, each logarithm within 2⁻³². A ρ0 of 0 counts
/// as 1 µSU.
#[must_use]
pub fn priority_factor(rank: Price, rho0: Price, scale: &FactorScale) -> u32 {
    if rank == Price::ZERO {
        return 1;
    }
    let log2 = |price: Price| log2_q32(price.micros().unsigned_abs());
    let doublings_q32 = (log2(rank) + DOUBLINGS_BELOW_RHO0 * ONE_Q32 - log2(rho0)).max(0);
    let step = scale.step.max(1);
    let raw = (i128::from(doublings_q32) * i128::from(scale.per_doubling)) >> FRACTION_BITS;
    let raw_max = FACTOR_MAX - 1;
    let raw = u32::try_from(raw).unwrap_or(raw_max).min(raw_max);
    raw / step * step + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(micros: i64) -> Price {
        Price::from_micros(micros).expect("a test's price is not below zero")
    }

    #[test]
    fn tiers_are_read_by_their_exact_names() {
        for tier in Tier::ALL {
            assert_eq!(tier.to_string().parse(), Ok(tier));
        }
        for text in ["", "Standard", "free ", "gold"] {
            assert_eq!(text.parse::<Tier>(), Err(UnknownTier), "{text:?}");
        }
    }

    #[test]
    fn effective_bids_round_down_and_least_limits_up() {
        let table = [
            (0, 0),
            (1, 0),
            (2, 1),
            (1_250_000, 1_000_000),
            (1_250_001, 1_000_000),
            (i64::MAX, i64::MAX / 5 * 4 + 1),
        ];
        for (limit, effective) in table {
            assert_eq!(effective_bid_floor(price(limit), Tier::Standard), price(effective), "{limit}");
            assert_eq!(effective_bid_floor(price(limit), Tier::Free), Price::ZERO);
        }
        let table = [(0, 0), (1, 2), (4, 5), (250_000, 312_500), (250_001, 312_502), (i64::MAX, i64::MAX)];
        for (reserve, limit) in table {
            assert_eq!(least_limit_ceil(price(reserve), Tier::Standard), price(limit), "{reserve}");
            assert_eq!(least_limit_ceil(price(reserve), Tier::Free), Price::ZERO);
        }
    }

    #[test]
    fn a_dearer_tier_needs_more_for_the_same_place() {
        let limit = price(2_000_000);
        let effective = Tier::ALL.map(|tier| effective_bid_floor(limit, tier).micros());
        assert_eq!(effective, [1_000_000, 1_600_000, 2_000_000, 0]);
        let least = Tier::ALL.map(|tier| least_limit_ceil(price(250_001), tier).micros());
        assert_eq!(least, [500_002, 312_502, 250_001, 0]);
    }

    #[test]
    fn the_least_limit_is_the_first_whose_effective_bid_reaches_the_reserve() {
        for tier in Tier::ALL.into_iter().filter(|tier| tier.is_paid()) {
            for reserve in (0..2_000).chain(249_990..250_010) {
                let least = least_limit_ceil(price(reserve), tier);
                assert!(effective_bid_floor(least, tier) >= price(reserve));
                if let Some(below) = Price::from_micros(least.micros() - 1) {
                    assert!(effective_bid_floor(below, tier) < price(reserve));
                }
            }
        }
    }

    #[test]
    fn age_is_a_hundredth_of_rho0_per_hour_for_at_most_14_days() {
        let rho0 = price(250_000);
        let table = [
            (-5, 0),
            (0, 0),
            (1, 0),
            (3_599, 2_499),
            (3_600, 2_500),
            (86_400, 60_000),
            (14 * 86_400, 840_000),
            (i64::MAX, 840_000),
        ];
        for (pending_s, age) in table {
            assert_eq!(age_bonus(rho0, pending_s), price(age), "{pending_s}");
        }
        assert_eq!(age_bonus(price(i64::MAX), i64::MAX), price(i64::MAX));
        assert_eq!(rank(price(i64::MAX), price(1)), price(i64::MAX));
        assert_eq!(rank(price(7), price(2)), price(9));
    }

    #[test]
    fn a_greater_rank_goes_first_and_ties_go_by_time_then_id() {
        let key = |rank, eligible_s, submitted_s, job_id, task_id| RankKey {
            rank: price(rank),
            eligible_s,
            order: OrderId { submitted_s, job_id, task_id },
        };
        let queue = [
            key(9, 50, 50, 50, Some(5)),
            key(8, 10, 40, 40, Some(4)),
            key(8, 20, 10, 40, Some(4)),
            key(8, 20, 20, 10, Some(4)),
            key(8, 20, 20, 20, None),
            key(8, 20, 20, 20, Some(0)),
            key(8, 20, 20, 20, Some(1)),
        ];
        for (place, earlier) in queue.iter().enumerate() {
            for later in &queue[place + 1..] {
                assert_eq!(earlier.cmp(later), Ordering::Less);
                assert_eq!(later.cmp(earlier), Ordering::Greater);
            }
        }
    }

    #[test]
    fn factors_of_whole_doublings_are_exact() {
        let scale = FactorScale::default();
        for rho0 in [1, 3, 250_000, 777_777] {
            for doublings in 0..12 {
                let factor = priority_factor(price(rho0 << doublings), price(rho0), &scale);
                assert_eq!(factor, 16_384 * (8 + doublings) + 1);
            }
        }
    }

    #[test]
    fn b_is_not_rounded() {
        let scale = FactorScale::default();
        let rho0 = price(250_000); // b = 976.5625
        assert_eq!(priority_factor(price(0), rho0, &scale), 1);
        assert_eq!(priority_factor(price(976), rho0, &scale), 1);
        // M·log2(977/976.5625) = 10.6 and M·log2(980/976.5625) = 83.1: under and over the first step.
        assert_eq!(priority_factor(price(977), rho0, &scale), 1);
        assert_eq!(priority_factor(price(980), rho0, &scale), 65);
        let fine = FactorScale { per_doubling: 16_384, step: 1 };
        assert_eq!(priority_factor(price(977), rho0, &fine), 11);
        assert_eq!(priority_factor(price(980), rho0, &fine), 84);
    }

    #[test]
    fn factors_stay_between_1_and_2_to_the_31() {
        let wild = FactorScale { per_doubling: u32::MAX, step: 0 };
        let scales = [
            FactorScale::default(),
            wild,
            FactorScale { step: u32::MAX, ..wild },
            FactorScale { step: 1 << 30, ..wild },
        ];
        for scale in &scales {
            for rank in [0, 1, 1_000_000, i64::MAX] {
                for rho0 in [0, 1, 250_000, i64::MAX] {
                    let factor = priority_factor(price(rank), price(rho0), scale);
                    assert!((1..=FACTOR_MAX).contains(&factor));
                }
            }
        }
        assert_eq!(priority_factor(price(i64::MAX), price(0), &wild), FACTOR_MAX);
    }
}
