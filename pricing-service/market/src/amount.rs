//! Money, prices and GPU counts as whole numbers, and how people write them.
//!
//! One SU (service unit) is 1,000,000 µSU. Multiplication and division live with the rules that need them
//! (`metering`, `clearing`): here a number only gets a unit, a plain decimal form and checked sums.

use std::fmt;

use thiserror::Error;

/// µSU in one SU.
const MICROS_PER_UNIT: i64 = 1_000_000;
/// Most digits behind the dot: one µSU is the smallest step.
const DECIMALS_MAX: usize = 6;

/// Money in µSU. Below zero only as an entry on the giving side of a transfer or on an account that may owe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(i64);

impl Amount {
    pub const ZERO: Self = Self(0);
    /// The most that may be typed: 10¹² SU, a ninth of what an `i64` of µSU holds, so that nine such sums still add up.
    pub const PARSE_MAX: Self = Self(1_000_000_000_000 * MICROS_PER_UNIT);

    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// `None` on overflow.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(micros) => Some(Self(micros)),
            None => None,
        }
    }

    /// `None` on overflow.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(micros) => Some(Self(micros)),
            None => None,
        }
    }

    /// `None` for the one value without a counterpart, `i64::MIN`.
    #[must_use]
    pub const fn checked_neg(self) -> Option<Self> {
        match self.0.checked_neg() {
            Some(micros) => Some(Self(micros)),
            None => None,
        }
    }

    /// Reads SU as a plain decimal: digits, at most six of them behind a dot, no sign and no exponent.
    ///
    /// # Errors
    /// See [`DecimalError`]; more than [`Self::PARSE_MAX`] is `TooLarge`.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        parse_micros(text, Self::PARSE_MAX.0).map(Self)
    }

    /// All six decimals, so that columns line up: `3.500000`.
    #[must_use]
    pub fn fixed6(self) -> String {
        fixed6(self.0)
    }
}

impl fmt::Display for Amount {
    /// SU without needless zeros: `3.5`, `0`, `-12.000001`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&trimmed(self.0))
    }
}

/// A price or a bid's limit in µSU per GPU-hour, never below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Price(i64);

impl Price {
    pub const ZERO: Self = Self(0);
    /// The highest price that may be typed: 10⁶ SU per GPU-hour, where a fair price is about 1. At this limit a job of
    /// 100,000 GPUs over 24 h is worth 2.4·10¹⁸ µSU and still fits `Amount`; price·q·s in `i128` fits by far.
    pub const PARSE_MAX: Self = Self(1_000_000 * MICROS_PER_UNIT);

    /// `None` below zero.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Option<Self> {
        if micros < 0 { None } else { Some(Self(micros)) }
    }

    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Reads SU per GPU-hour as a plain decimal: digits, at most six of them behind a dot, no sign and no exponent.
    ///
    /// # Errors
    /// See [`DecimalError`]; more than [`Self::PARSE_MAX`] is `TooLarge`.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        parse_micros(text, Self::PARSE_MAX.0).map(Self)
    }

    /// All six decimals, so that columns line up: `0.312500`.
    #[must_use]
    pub fn fixed6(self) -> String {
        fixed6(self.0)
    }
}

impl fmt::Display for Price {
    /// SU per GPU-hour without needless zeros: `3.5`, `0`, `0.3125`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&trimmed(self.0))
    }
}

/// GPUs in thousandths, never below zero: what a job is billed for need not be whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MilliGpus(i64);

impl MilliGpus {
    pub const ZERO: Self = Self(0);

    #[must_use]
    pub const fn from_gpus(gpus: u32) -> Self {
        // A u32 times 1,000 always fits.
        Self(gpus as i64 * 1_000)
    }

    /// `None` below zero.
    #[must_use]
    pub const fn from_milli(milli: i64) -> Option<Self> {
        if milli < 0 { None } else { Some(Self(milli)) }
    }

    #[must_use]
    pub const fn milli(self) -> i64 {
        self.0
    }
}

impl fmt::Display for MilliGpus {
    /// GPUs without needless zeros: `2`, `0.5`, `1.333`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A milli-GPU is to a GPU what 1,000 µSU are to an SU; whole and rest apart cannot overflow.
        let micros_of_rest = self.0 % 1_000 * 1_000;
        let mut text = (self.0 / 1_000).to_string();
        if micros_of_rest != 0 {
            text.push_str(&trimmed(micros_of_rest)[1..]);
        }
        f.pad(&text)
    }
}

/// Why a text is not a plain decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecimalError {
    #[error("a number is missing")]
    Empty,
    #[error("only digits and one dot with digits on both sides are allowed")]
    NotPlain,
    #[error("at most 6 decimals are allowed")]
    TooManyDecimals,
    #[error("the number is too large")]
    TooLarge,
}

/// Precedence of errors: empty, form, decimals, size.
fn parse_micros(text: &str, micros_max: i64) -> Result<i64, DecimalError> {
    if text.is_empty() {
        return Err(DecimalError::Empty);
    }
    let (whole, decimals) = match text.split_once('.') {
        Some((whole, decimals)) => (whole, Some(decimals)),
        None => (text, None),
    };
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !decimals.is_none_or(is_digits) {
        return Err(DecimalError::NotPlain);
    }
    let decimals = decimals.unwrap_or("");
    if decimals.len() > DECIMALS_MAX {
        return Err(DecimalError::TooManyDecimals);
    }
    let filler = std::iter::repeat_n(b'0', DECIMALS_MAX - decimals.len());
    let mut micros: i64 = 0;
    for digit in whole.bytes().chain(decimals.bytes()).chain(filler) {
        micros = micros
            .checked_mul(10)
            .and_then(|micros| micros.checked_add(i64::from(digit - b'0')))
            .filter(|micros| *micros <= micros_max)
            .ok_or(DecimalError::TooLarge)?;
    }
    Ok(micros)
}

fn fixed6(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let magnitude = micros.unsigned_abs();
    let per_unit = MICROS_PER_UNIT.unsigned_abs();
    format!("{sign}{}.{:06}", magnitude / per_unit, magnitude % per_unit)
}

fn trimmed(micros: i64) -> String {
    let fixed = fixed6(micros);
    fixed.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_decimals_are_read_exactly() {
        let table = [
            ("0", 0),
            ("3", 3_000_000),
            ("3.5", 3_500_000),
            ("3.50", 3_500_000),
            ("003", 3_000_000),
            ("0.000001", 1),
            ("0.3125", 312_500),
            ("1000000", 1_000_000_000_000),
            ("1000000.000000", 1_000_000_000_000),
            ("0000000000000000000000000000000000000001", 1_000_000),
        ];
        for (text, micros) in table {
            assert_eq!(Price::parse(text).map(Price::micros), Ok(micros), "{text}");
            assert_eq!(Amount::parse(text).map(Amount::micros), Ok(micros), "{text}");
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        use DecimalError::*;
        let table = [
            ("", Empty),
            (".5", NotPlain),
            ("3.", NotPlain),
            (".", NotPlain),
            ("+1", NotPlain),
            ("-1", NotPlain),
            ("1e3", NotPlain),
            ("1_000", NotPlain),
            ("1,5", NotPlain),
            ("1.2.3", NotPlain),
            (" 1", NotPlain),
            ("1 ", NotPlain),
            ("٣", NotPlain),
            ("0x10", NotPlain),
            ("inf", NotPlain),
            ("NaN", NotPlain),
            ("1.0000000", TooManyDecimals),
            ("0.0000001", TooManyDecimals),
            ("99999999999999999999", TooLarge),
            ("9223372036854775808", TooLarge),
        ];
        for (text, error) in table {
            assert_eq!(Price::parse(text), Err(error), "{text:?}");
            assert_eq!(Amount::parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn bounds_are_exact() {
        assert_eq!(Price::parse("1000000"), Ok(Price::PARSE_MAX));
        assert_eq!(Price::parse("1000000.000001"), Err(DecimalError::TooLarge));
        assert_eq!(Amount::parse("1000000000000"), Ok(Amount::PARSE_MAX));
        assert_eq!(Amount::parse("1000000000000.000001"), Err(DecimalError::TooLarge));
    }

    #[test]
    fn the_dearest_realistic_job_fits_an_amount() {
        let gpus = MilliGpus::from_gpus(100_000);
        let product = i128::from(Price::PARSE_MAX.micros()) * i128::from(gpus.milli()) * 86_400;
        assert!(i64::try_from(product / 3_600_000).is_ok());
    }

    #[test]
    fn display_drops_needless_zeros_and_fixed6_keeps_them() {
        let table = [
            (0, "0", "0.000000"),
            (3_500_000, "3.5", "3.500000"),
            (312_500, "0.3125", "0.312500"),
            (10_000_000, "10", "10.000000"),
            (-1, "-0.000001", "-0.000001"),
            (-12_500_000, "-12.5", "-12.500000"),
            (i64::MIN, "-9223372036854.775808", "-9223372036854.775808"),
            (i64::MAX, "9223372036854.775807", "9223372036854.775807"),
        ];
        for (micros, trimmed, fixed) in table {
            assert_eq!(Amount::from_micros(micros).to_string(), trimmed);
            assert_eq!(Amount::from_micros(micros).fixed6(), fixed);
            if let Some(price) = Price::from_micros(micros) {
                assert_eq!(price.to_string(), trimmed);
                assert_eq!(price.fixed6(), fixed);
            }
        }
        assert_eq!(format!("[{:>6}]", Amount::from_micros(3_500_000)), "[   3.5]");
    }

    #[test]
    fn sums_are_checked() {
        let one = Amount::from_micros(1);
        assert_eq!(one.checked_add(one), Some(Amount::from_micros(2)));
        assert_eq!(Amount::ZERO.checked_sub(one), one.checked_neg());
        assert_eq!(Amount::from_micros(i64::MAX).checked_add(one), None);
        assert_eq!(Amount::from_micros(i64::MIN).checked_sub(one), None);
        assert_eq!(Amount::from_micros(i64::MIN).checked_neg(), None);
        assert!(Amount::from_micros(-1).is_negative() && !Amount::ZERO.is_negative());
    }

    #[test]
    fn negative_prices_and_gpus_do_not_exist() {
        assert_eq!(Price::from_micros(-1), None);
        assert_eq!(Price::from_micros(0), Some(Price::ZERO));
        assert_eq!(MilliGpus::from_milli(-1), None);
        assert_eq!(MilliGpus::from_gpus(u32::MAX).milli(), 4_294_967_295_000);
    }

    #[test]
    fn milli_gpus_print_as_gpus() {
        for (milli, text) in
            [(0, "0"), (2_000, "2"), (500, "0.5"), (1_333, "1.333"), (i64::MAX, "9223372036854775.807")]
        {
            assert_eq!(MilliGpus::from_milli(milli).map(|g| g.to_string()).as_deref(), Some(text));
        }
    }
}
