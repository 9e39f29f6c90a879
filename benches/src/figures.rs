//! Figures of a noisy machine: order statistics only.

use std::fmt;

/// The least value that at least `part` of the values do not exceed, for `part` in (0, 1]; 0 without values.
pub fn quantile(sorted: &[u64], part: f64) -> u64 {
    let index = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied().unwrap_or(0)
}

/// The median of some values and how far they spread: the middle half, and all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub middle_half: (f64, f64),
    pub all: (f64, f64),
}

impl Spread {
    /// # Panics
    /// Without a value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1).expect("at least one value");
        // Between the two neighbours, as usual for medians.
        let at = |part: f64| {
            let place = last as f64 * part;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Self { median: at(0.5), middle_half: (at(0.25), at(0.75)), all: (sorted[0], sorted[last]) }
    }
}

/// With as many decimals as the formatter asks for: `0.985 (0.97 to 1.00; all 0.91 to 1.06)`.
impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = out.precision().unwrap_or(3);
        let Self { median, middle_half: (low, high), all: (least, most) } = self;
        write!(
            out,
            "{median:.decimals$} ({low:.decimals$} to {high:.decimals$}; all {least:.decimals$} to {most:.decimals$})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let values: Vec<u64> = (1..=1_000).collect();
        assert_eq!([0.001, 0.5, 0.99, 1.0].map(|part| quantile(&values, part)), [1, 500, 990, 1_000]);
        assert_eq!(quantile(&[7], 0.99), 7);
        assert_eq!(quantile(&[], 0.5), 0);
    }

    #[test]
    fn a_spread_tells_median_middle_half_and_all() {
        let spread = Spread::of([5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((spread.median, spread.middle_half, spread.all), (3.0, (2.0, 4.0), (1.0, 5.0)));
        assert_eq!(format!("{spread:.1}"), "3.0 (2.0 to 4.0; all 1.0 to 5.0)");
        assert_eq!(Spread::of([1.0, 2.0]).median, 1.5);
    }
}
