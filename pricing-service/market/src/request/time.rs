//! Time limits as `sbatch --time` takes them (src/common/parse_time.c: `time_str2mins`, `mins2time_str`).

use std::fmt;

use thiserror::Error;

/// How long a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeLimit {
    /// Whole minutes, at least 1.
    Minutes(u32),
    /// No limit of its own: the partition's holds.
    Unlimited,
}

impl fmt::Display for TimeLimit {
    /// As Slurm prints it: `04:00:00`, `1-12:00:00`, `UNLIMITED`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unlimited => f.pad("UNLIMITED"),
            Self::Minutes(minutes) => {
                let (days, hours, minutes) = (minutes / 1_440, minutes / 60 % 24, minutes % 60);
                let clock = format!("{hours:02}:{minutes:02}:00");
                f.pad(&if days == 0 { clock } else { format!("{days}-{clock}") })
            }
        }
    }
}

/// Why a text is no time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TimeError {
    #[error("not a time; write minutes, hours:minutes:seconds or days-hours, e.g. 4:00:00 for four hours")]
    Malformed,
    #[error("the time is too long; at most 68 years, or write UNLIMITED")]
    TooLong,
}

/// Longest time in seconds: Slurm counts them in a C `int`.
const SECONDS_MAX: u64 = i32::MAX as u64;

/// Reads `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-[hours[:minutes[:seconds]]]`, or one of
/// `UNLIMITED`, `INFINITE`, `-1`. Seconds are rounded up to a whole minute. Zero means unlimited, as for sbatch
/// (src/common/slurm_opt.c: `arg_set_time_limit`).
///
/// # Errors
/// `Malformed` for any other spelling. `TooLong` where Slurm's seconds would overflow.
pub fn parse_time_limit_min(text: &str) -> Result<TimeLimit, TimeError> {
    if ["-1", "INFINITE", "UNLIMITED"].iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return Ok(TimeLimit::Unlimited);
    }
    let seconds = match text.split_once('-') {
        Some((days, "")) => weighted_sum(&[days], &[86_400])?,
        Some((days, clock)) => {
            let mut parts = vec![days];
            parts.extend(clock.split(':'));
            weighted_sum(&parts, &[86_400, 3_600, 60, 1])?
        }
        None => match *text.split(':').collect::<Vec<_>>() {
            [minutes] => weighted_sum(&[minutes], &[60])?,
            [minutes, seconds] => weighted_sum(&[minutes, seconds], &[60, 1])?,
            [hours, minutes, seconds] => weighted_sum(&[hours, minutes, seconds], &[3_600, 60, 1])?,
            _ => return Err(TimeError::Malformed),
        },
    };
    // At most 2³¹ ÷ 60, so it fits.
    Ok(match u32::try_from(seconds.div_ceil(60)) {
        Ok(0) => TimeLimit::Unlimited,
        Ok(minutes) => TimeLimit::Minutes(minutes),
        Err(_) => return Err(TimeError::TooLong),
    })
}

/// Seconds of numbers with these weights; there may be fewer numbers than weights, not more.
fn weighted_sum(numbers: &[&str], weights_seconds: &[u64]) -> Result<u64, TimeError> {
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if numbers.len() > weights_seconds.len() || !numbers.iter().all(is_number) {
        return Err(TimeError::Malformed);
    }
    numbers
        .iter()
        .zip(weights_seconds)
        .try_fold(0_u64, |sum, (number, weight)| {
            sum.checked_add(number.parse::<u64>().ok()?.checked_mul(*weight)?)
        })
        .filter(|seconds| *seconds <= SECONDS_MAX)
        .ok_or(TimeError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_slurm_is_read() {
        let table = [
            ("1", 1),
            ("30", 30),
            ("4:00", 4),
            ("30:00", 30),
            ("1:30", 2),
            ("0:01", 1),
            ("0:61", 2),
            ("1:00:00", 60),
            ("04:00:00", 240),
            ("0:59:01", 60),
            ("2-12", 3_600),
            ("2-", 2_880),
            ("2-12:30", 3_630),
            ("2-00:00:00", 2_880),
            ("1-12:00:00", 2_160),
            ("0-0:0:1", 1),
            ("007", 7),
            ("100:99:99", 6_101),
            ("35791394", 35_791_394),
        ];
        for (text, minutes) in table {
            assert_eq!(parse_time_limit_min(text), Ok(TimeLimit::Minutes(minutes)), "{text}");
        }
        for text in ["UNLIMITED", "unlimited", "Infinite", "-1", "0", "0:00", "0:0:0", "0-0", "0-"] {
            assert_eq!(parse_time_limit_min(text), Ok(TimeLimit::Unlimited), "{text}");
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        let malformed = [
            "",
            " ",
            "x",
            "1 ",
            " 1",
            "+1",
            "-2",
            "-1-1",
            "1--2",
            "1:2-3",
            "1:2:3:4",
            "1-2:3:4:5",
            "1:",
            ":1",
            "::",
            "1::2",
            "1-:2",
            "1-2:",
            "1.5",
            "4h",
            "2-12h",
            "tomorrow",
            "٣",
            "1-1-1",
            "-",
            "- 1",
        ];
        for text in malformed {
            assert_eq!(parse_time_limit_min(text), Err(TimeError::Malformed), "{text:?}");
        }
        for text in ["35791395", "999999999999999999999", "24856-", "1-99999999999999999999:0"] {
            assert_eq!(parse_time_limit_min(text), Err(TimeError::TooLong), "{text:?}");
        }
    }

    #[test]
    fn limits_print_as_slurm_prints_them() {
        let table = [
            (TimeLimit::Minutes(1), "00:01:00"),
            (TimeLimit::Minutes(240), "04:00:00"),
            (TimeLimit::Minutes(2_160), "1-12:00:00"),
            (TimeLimit::Minutes(u32::MAX), "2982616-04:15:00"),
            (TimeLimit::Unlimited, "UNLIMITED"),
        ];
        for (limit, text) in table {
            assert_eq!(limit.to_string(), text);
        }
    }
}
