//! Binary logarithm and exponential in Q32.32 fixed point: an `i64` of `l` stands for l / 2³².
//!
//! Whole-number arithmetic only, so that every machine and every replay gets the same bits.

/// Bits behind the point of a Q32.32 number.
pub const FRACTION_BITS: u32 = 32;
/// 1.0, one doubling.
pub const ONE_Q32: i64 = 1 << FRACTION_BITS;
/// log2(1.25) = log2(5) − 2, rounded down: the most the index may move in an hour.
pub const LOG2_1_25_Q32: i64 = log2_q32(5) - 2 * ONE_Q32;

/// Bits behind the point of a mantissa in [1, 2) held in a `u64`.
const MANTISSA_BITS: u32 = 63;

/// log2(x) in Q32.32 by bitwise squaring; 0 counts as 1.
///
/// Exact at powers of two, nowhere above log2(x)·2³², less than 1 + 2⁻²⁹ units below it, and monotone. So it is the
/// floor, unless the true value lies less than 2⁻²⁹ units above a whole number of units.
#[must_use]
pub const fn log2_q32(x: u64) -> i64 {
    let x = if x == 0 { 1 } else { x };
    let mut log = (MANTISSA_BITS - x.leading_zeros()) as i64;
    // Squaring the mantissa doubles its logarithm: each time the next binary digit comes out in front of the point.
    let mut mantissa = x << x.leading_zeros();
    let mut digits = 0;
    while digits < FRACTION_BITS {
        let square = (mantissa as u128 * mantissa as u128) >> MANTISSA_BITS;
        let is_two_or_more = square >> (MANTISSA_BITS + 1) != 0;
        log = (log << 1) | is_two_or_more as i64;
        mantissa = if is_two_or_more { (square >> 1) as u64 } else { square as u64 };
        digits += 1;
    }
    log
}

/// 2 to the power `log` (Q32.32), rounded to the nearest whole number, halves up; at and above 64.0 `u64::MAX`.
///
/// Monotone, exact at whole powers, and at most 1/2 + 2⁻⁵⁶·2^`log` away from the true value. With [`log2_q32`] before
/// it, x comes back exactly up to 2³¹ and at most x·2⁻³² + 1 away above.
#[must_use]
pub const fn exp2_q32(log: i64) -> u64 {
    let whole = log >> FRACTION_BITS;
    if whole >= 64 {
        return u64::MAX;
    }
    if whole < -1 {
        return 0;
    }
    let mut mantissa: u64 = 1 << MANTISSA_BITS;
    let mut digit = 1;
    while digit <= FRACTION_BITS {
        if (log >> (FRACTION_BITS - digit)) & 1 == 1 {
            let factor = ROOTS_OF_TWO[digit as usize - 1] as u128;
            mantissa = ((mantissa as u128 * factor) >> MANTISSA_BITS) as u64;
        }
        digit += 1;
    }
    // `shift` is 64 for results under 1, where shifting in one go would be too far.
    let shift = (MANTISSA_BITS as i64 - whole) as u32;
    if shift == 0 {
        return mantissa;
    }
    let doubled = mantissa >> (shift - 1);
    (doubled >> 1) + (doubled & 1)
}

/// 2^(2^−k) for k = 1…32 with [`MANTISSA_BITS`] bits behind the point, each the root of the one before, rounded down.
const ROOTS_OF_TWO: [u64; FRACTION_BITS as usize] = {
    let mut roots = [0; FRACTION_BITS as usize];
    let mut squared: u128 = 2 << MANTISSA_BITS;
    let mut k = 0;
    while k < roots.len() {
        roots[k] = (squared << MANTISSA_BITS).isqrt() as u64;
        squared = roots[k] as u128;
        k += 1;
    }
    roots
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_exact_both_ways() {
        for power in 0..64 {
            assert_eq!(log2_q32(1 << power), i64::from(power) * ONE_Q32);
            assert_eq!(exp2_q32(i64::from(power) * ONE_Q32), 1 << power);
        }
    }

    /// ⌊log2(x)·2³²⌋, computed apart with 80 decimals.
    #[test]
    fn known_logarithms() {
        let table = [
            (3, 6_807_362_105),
            (5, 9_972_605_231),
            (7, 12_057_497_578),
            (10, 14_267_572_527),
            (250_000, 77_015_500_571),
            (1_000_000, 85_605_435_163),
            (1_000_000_000_000, 171_210_870_326),
            (u64::MAX, 274_877_906_943),
        ];
        for (x, log) in table {
            assert_eq!(log2_q32(x), log, "{x}");
        }
        assert_eq!(LOG2_1_25_Q32, 1_382_670_639);
    }

    #[test]
    fn nothing_counts_as_one() {
        assert_eq!(log2_q32(0), 0);
    }

    #[test]
    fn exponential_rounds_to_nearest_and_saturates() {
        let half = ONE_Q32 / 2;
        let table = [
            (i64::MIN, 0),
            (-ONE_Q32 - 1, 0),
            (-ONE_Q32, 1),
            (-1, 1),
            (half, 1),
            (2 * ONE_Q32 - 1, 4),
            (ONE_Q32 + half, 3),
            (20 * ONE_Q32 + half, 1_482_910),
            (64 * ONE_Q32, u64::MAX),
            (i64::MAX, u64::MAX),
        ];
        for (log, x) in table {
            assert_eq!(exp2_q32(log), x, "{log}");
        }
        assert!(exp2_q32(64 * ONE_Q32 - 1) < u64::MAX);
    }
}
