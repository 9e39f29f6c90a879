//! Fixed-point arithmetic and what rests on it (priority factor, index) against floating point.
#![allow(clippy::disallowed_types, reason = "floats are the oracle here, never in the market itself")]

use market::amount::Price;
use market::fixed::{LOG2_1_25_Q32, ONE_Q32, exp2_q32, log2_q32};
use market::index::Index;
use market::order::{FactorScale, priority_factor};
use proptest::prelude::*;

const UNITS: f64 = ONE_Q32 as f64;
/// What an f64's log2 of a u64 may be off by, in units of 2⁻³².
const FLOAT_ERROR: f64 = 1e-3;

/// Whole numbers of every size alike.
fn any_size() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(x, shift)| (x >> shift).max(1))
}

fn any_price() -> impl Strategy<Value = Price> {
    any_size().prop_map(|x| Price::from_micros((x >> 1) as i64).expect("63 bits"))
}

fn micros(price: Price) -> f64 {
    price.micros().max(1) as f64
}

proptest! {
    #[test]
    fn log2_is_the_floor(x in any_size()) {
        let expected = (x as f64).log2() * UNITS;
        let log = log2_q32(x) as f64;
        prop_assert!(log <= expected + FLOAT_ERROR, "{log} > {expected}");
        prop_assert!(log > expected - 1.0 - FLOAT_ERROR, "{log} < {expected} - 1");
    }

    #[test]
    fn log2_is_monotone(x in any_size(), y in any_size()) {
        prop_assert!(log2_q32(x.min(y)) <= log2_q32(x.max(y)));
        prop_assert!(log2_q32(x) <= log2_q32(x.saturating_add(1)));
    }

    #[test]
    fn exp2_is_the_nearest_number(log in -3 * ONE_Q32..64 * ONE_Q32) {
        let expected = (log as f64 / UNITS).exp2();
        let error = (exp2_q32(log) as f64 - expected).abs();
        prop_assert!(error <= 0.5 + expected * 2_f64.powi(-50), "off by {error} at {expected}");
    }

    #[test]
    fn exp2_is_monotone(a in -3 * ONE_Q32..65 * ONE_Q32, b in -3 * ONE_Q32..65 * ONE_Q32) {
        prop_assert!(exp2_q32(a.min(b)) <= exp2_q32(a.max(b)));
        prop_assert!(exp2_q32(a) <= exp2_q32(a + 1));
    }

    #[test]
    fn a_number_comes_back_from_its_logarithm(x in any_size()) {
        let error = exp2_q32(log2_q32(x)).abs_diff(x);
        prop_assert!(error <= (x >> 32) + 1, "off by {error}");
        prop_assert!(x > 1 << 31 || error == 0, "off by {error}");
    }

    #[test]
    fn the_factor_follows_its_formula(rank in any_price(), rho0 in any_price(), step in 1..10_000_u32) {
        let scale = FactorScale { step, ..FactorScale::default() };
        let factor = f64::from(priority_factor(rank, rho0, &scale));
        let b = micros(rho0) / 256.0;
        let rank_or_b = (rank.micros() as f64).max(b);
        let unrounded = f64::from(scale.per_doubling) * (rank_or_b / b).log2();
        let step = f64::from(step);
        // Floats and fixed point may fall on two sides of a step; both errors are far below this.
        let least = step * ((unrounded - 1e-4) / step).floor().max(0.0) + 1.0;
        let most = step * ((unrounded + 1e-4) / step).floor() + 1.0;
        prop_assert!(least <= factor && factor <= most, "{factor} is not {least}…{most}");
    }

    #[test]
    fn the_factor_is_monotone_in_rank(a in any_price(), b in any_price(), rho0 in any_price()) {
        let factor = |rank| priority_factor(rank, rho0, &FactorScale::default());
        prop_assert!(factor(a.min(b)) <= factor(a.max(b)));
        prop_assert_eq!(factor(a) % 64, 1);
    }

    #[test]
    fn the_index_follows_its_formula(now in any_price(), start in any_price(), elapsed_s in 0..500_i64, quantum_s in 1..200_i64) {
        let next = Index::at(now).advance(start, elapsed_s, quantum_s);
        let hours = elapsed_s.min(2 * quantum_s) as f64 / 3_600.0;
        let bound = 1.25_f64.log2() * hours;
        let step = (0.5 * hours * (micros(start).log2() - micros(now).log2())).clamp(-bound, bound);
        let moved = (next.log2_q32() - Index::at(now).log2_q32()) as f64;
        prop_assert!((moved - step * UNITS).abs() <= 2.0, "{moved} units instead of {}", step * UNITS);
    }
}

#[test]
fn small_numbers_all_come_back() {
    for x in 0..200_000 {
        assert_eq!(exp2_q32(log2_q32(x)), x.max(1));
    }
}

#[test]
fn the_bound_of_the_index_is_log2_of_a_quarter_more() {
    assert_eq!(LOG2_1_25_Q32, (1.25_f64.log2() * UNITS).floor() as i64);
}
