//! Job arrays: how many tasks, and how many of them at once (src/slurmctld/job_mgr.c: `_parse_array_tok`).
//!
//! Work and memory grow with the length of the text, not with the number of tasks, since `0-4000000` is as short as `0-4`.

use thiserror::Error;

/// What `--array` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArraySpec {
    /// Different task ids; a task named twice runs once.
    pub tasks: u64,
    /// Most tasks that run at one time (`%5`); it does not change how many run in the end.
    pub at_once: Option<u32>,
}

/// Why a text is no array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ArrayError {
    #[error("no task in the array")]
    Empty,
    #[error("not an array of tasks; write e.g. 0-9, 1,3,5-9:2 or 0-99%5")]
    Malformed,
    #[error("task ids are above 4294967295")]
    IndexTooLarge,
    #[error("too many overlapping ranges with steps; give each task once")]
    TooManyOverlaps,
    /// Clients cut the text at SLURM_BITSTR_LEN bytes (src/common/slurm_protocol_defs.c: `xlate_array_task_str`);
    /// SLURM_BITSTR_LEN=0 in the reader's environment keeps it whole.
    #[error("Slurm cut the list of tasks short")]
    Truncated,
}

/// Reads what users type (`0-9%2`, `1,3,5-9:2,7`), what job records show (`0-9%2`, `[0-9%2]`) and the hexadecimal
/// bitmap that slurmctld keeps (`0x3FF%2`).
///
/// # Errors
/// `Malformed` where Slurm refuses the text whatever MaxArraySize is. MaxArraySize itself is left to Slurm.
pub fn parse_array(text: &str) -> Result<ArraySpec, ArrayError> {
    // Slurm takes the first `%` of the whole text and ignores what follows the number.
    let at_once = text.find('%').and_then(|percent| positive_u32(leading_number(&text[percent + 1..]).0));
    let tasks = match text.strip_prefix("0x") {
        Some(bitmap) => count_bits(bitmap.split('%').next().unwrap_or(bitmap))?,
        None => count_union(text.split(',').filter(|token| !token.is_empty()).map(parse_token))?,
    };
    if tasks == 0 { Err(ArrayError::Empty) } else { Ok(ArraySpec { tasks, at_once }) }
}

fn positive_u32(number: i64) -> Option<u32> {
    (number > 0).then(|| u32::try_from(number).unwrap_or(u32::MAX))
}

fn count_bits(hex_digits: &str) -> Result<u64, ArrayError> {
    if hex_digits.is_empty() {
        return Err(ArrayError::Malformed);
    }
    hex_digits.chars().try_fold(0, |bits, c| {
        let digit = c.to_digit(16).ok_or(ArrayError::Malformed)?;
        Ok(bits + u64::from(digit.count_ones()))
    })
}

/// `first`, `first + step`, … up to and including `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Progression {
    first: u64,
    last: u64,
    step: u64,
}

impl Progression {
    fn len(self) -> u64 {
        (self.last - self.first) / self.step + 1
    }

    fn contains(self, index: u64) -> bool {
        (self.first..=self.last).contains(&index) && (index - self.first).is_multiple_of(self.step)
    }

    fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// How many members lie in `first..=last`.
    fn len_within(self, first: u64, last: u64) -> u64 {
        let below = |bound: u64| {
            if bound < self.first { 0 } else { (bound.min(self.last) - self.first) / self.step + 1 }
        };
        below(last) - first.checked_sub(1).map_or(0, below)
    }
}

/// One token between commas. Numbers as C's `strtol` reads them, stray brackets dropped, all behind `%` ignored.
fn parse_token(token: &str) -> Result<Progression, ArrayError> {
    let (first, mut rest) = number_and_bracket(token.strip_prefix('[').unwrap_or(token));
    let (mut last, mut step) = (first, 1);
    if let Some(after_dash) = rest.strip_prefix('-') {
        (last, rest) = number_and_bracket(after_dash);
        if let Some(after_colon) = rest.strip_prefix(':') {
            (step, rest) = number_and_bracket(after_colon);
        }
    }
    if rest.starts_with("...") {
        return Err(ArrayError::Truncated);
    }
    if !(rest.is_empty() || rest.starts_with('%')) || first < 0 || last < first || step <= 0 {
        return Err(ArrayError::Malformed);
    }
    let index = |number: i64| u32::try_from(number).map(u64::from).map_err(|_| ArrayError::IndexTooLarge);
    let (first, last, step) = (index(first)?, index(last)?, step.unsigned_abs());
    // The last member instead of the bound, so that two equal sets look equal.
    let last = last - (last - first) % step;
    Ok(Progression { first, last, step: if first == last { 1 } else { step } })
}

fn number_and_bracket(text: &str) -> (i64, &str) {
    let (number, rest) = leading_number(text);
    (number, rest.strip_prefix(']').unwrap_or(rest))
}

/// C's `strtol` in base 10: white space and a sign may lead, the value saturates; without digits it is 0 and nothing
/// is consumed.
fn leading_number(text: &str) -> (i64, &str) {
    let unspaced = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (is_negative, digits) = match unspaced.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, unspaced.strip_prefix('+').unwrap_or(unspaced)),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    if end == 0 {
        return (0, text);
    }
    // Digits alone fail to parse only by being too many.
    let magnitude = digits[..end].parse::<i64>().unwrap_or(i64::MAX);
    (if is_negative { -magnitude } else { magnitude }, &digits[end..])
}

/// Steps of work that overlapping ranges may cost, as many as the largest MaxArraySize that Slurm allows.
const WORK_MAX: u64 = 4_000_001;

/// Different members of all progressions.
fn count_union(
    progressions: impl Iterator<Item = Result<Progression, ArrayError>>,
) -> Result<u64, ArrayError> {
    let (mut solid, mut stepped) = (Vec::new(), Vec::new());
    for progression in progressions {
        let progression = progression?;
        if progression.step == 1 { &mut solid } else { &mut stepped }.push(progression);
    }
    let solid = merge(solid);
    let mut tasks = solid.iter().map(|range| range.len()).sum();
    stepped.sort_unstable();
    stepped.dedup();
    let mut work_left = WORK_MAX;
    for (earlier_count, &progression) in stepped.iter().enumerate() {
        let earlier = &stepped[..earlier_count];
        tasks += count_new(progression, &solid, earlier, &mut work_left)?;
    }
    Ok(tasks)
}

/// Ranges of step 1 in order, none touching another.
fn merge(mut ranges: Vec<Progression>) -> Vec<Progression> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let is_joined = next.first <= kept.last.saturating_add(1);
        if is_joined {
            kept.last = kept.last.max(next.last);
        }
        is_joined
    });
    ranges
}

/// Members of `progression` that are neither in `solid` nor in `earlier`: by arithmetic if no earlier one overlaps,
/// else one by one.
fn count_new(
    progression: Progression,
    solid: &[Progression],
    earlier: &[Progression],
    work_left: &mut u64,
) -> Result<u64, ArrayError> {
    let begin = solid.partition_point(|range| range.last < progression.first);
    let end = solid.partition_point(|range| range.first <= progression.last);
    let solid = &solid[begin..end];
    let rivals: Vec<_> = earlier.iter().filter(|other| other.overlaps(progression)).collect();
    let enumerated = progression.len().saturating_mul(rivals.len() as u64);
    let work = enumerated.saturating_add((earlier.len() + solid.len()) as u64);
    *work_left = work_left.checked_sub(work).ok_or(ArrayError::TooManyOverlaps)?;
    if rivals.is_empty() {
        let covered: u64 = solid.iter().map(|range| progression.len_within(range.first, range.last)).sum();
        return Ok(progression.len() - covered);
    }
    let is_new = |index: &u64| {
        let position = solid.partition_point(|range| range.last < *index);
        let is_solid = solid.get(position).is_some_and(|range| range.first <= *index);
        !is_solid && !rivals.iter().any(|rival| rival.contains(*index))
    };
    let members = (0..progression.len()).map(|k| progression.first + k * progression.step);
    Ok(members.filter(is_new).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(tasks: u64, at_once: Option<u32>) -> Result<ArraySpec, ArrayError> {
        Ok(ArraySpec { tasks, at_once })
    }

    #[test]
    fn different_tasks_are_counted_and_the_limit_is_not_a_count() {
        let table = [
            ("0", 1, None),
            ("7", 1, None),
            ("0-9", 10, None),
            ("0-9%2", 10, Some(2)),
            ("0-99%5", 100, Some(5)),
            ("1,3,5-9:2,7", 5, None),
            ("0-15:4", 4, None),
            ("0-16:4", 5, None),
            ("5-5:3", 1, None),
            ("0-3:100", 1, None),
            ("1-3,2-5,5,5,9", 6, None),
            ("0-10:2,1-11:2", 12, None),
            ("0-30:2,0-30:3", 21, None),
            ("0-30:2,4-8,0-30:3,7", 23, None),
            ("0-10:2,0-10:2", 6, None),
            ("0-4,4-8:2", 7, None),
            ("8-9,4-8:2", 4, None),
            ("0-9,20-30:5%3", 13, Some(3)),
            ("1%2,3%4", 2, Some(2)),
            ("0-9%0", 10, None),
            ("0-9%", 10, None),
            ("0-9%-3", 10, None),
            ("0-9%2x", 10, Some(2)),
            ("0-9%99999999999", 10, Some(u32::MAX)),
            (",1,,2,", 2, None),
            ("[0-9%2]", 10, Some(2)),
            ("[0-9]", 10, None),
            ("[1,3,5-9:2]", 5, None),
            ("0x3FF%2", 10, Some(2)),
            ("0x3ff", 10, None),
            ("0x0000000000000000000000000000000000000001", 1, None),
            ("0-9999999", 10_000_000, None),
            ("0-4294967295", 4_294_967_296, None),
            ("0-4294967295:2,1", 2_147_483_649, None),
            ("0-4000000:2,1-4000000:2", 4_000_001, None),
            ("%5", 1, Some(5)),
        ];
        for (text, tasks, at_once) in table {
            assert_eq!(parse_array(text), spec(tasks, at_once), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        use ArrayError::*;
        let table = [
            ("", Empty),
            (",", Empty),
            ("0x0", Empty),
            ("x", Malformed),
            ("-1", Malformed),
            ("9-0", Malformed),
            ("0-9:0", Malformed),
            ("0-9:-1", Malformed),
            ("0-9:x", Malformed),
            ("0-9;2", Malformed),
            ("1:2", Malformed),
            ("0--9", Malformed),
            ("0x", Malformed),
            ("0x%2", Malformed),
            ("0xFG", Malformed),
            ("0X3", Malformed),
            ("4294967296", IndexTooLarge),
            ("0-99999999999999999999", IndexTooLarge),
            ("1,3,5,7,9,1...", Truncated),
            ("1,3,5,7,9,11,...%5", Truncated),
            ("1,3-...", Truncated),
            ("0-4294967295:2,0-4294967295:3", TooManyOverlaps),
        ];
        for (text, error) in table {
            assert_eq!(parse_array(text), Err(error), "{text}");
        }
    }

    #[test]
    fn hostile_lists_cost_bounded_work() {
        let many_steps: Vec<_> = (2..3_000).map(|step| format!("0-4000000:{step}")).collect();
        assert_eq!(parse_array(&many_steps.join(",")), Err(ArrayError::TooManyOverlaps));
        let apart: Vec<_> = (0..5_000).map(|k| format!("{}-{}:2", 10 * k, 10 * k + 4)).collect();
        assert_eq!(parse_array(&apart.join(",")), Err(ArrayError::TooManyOverlaps));
        assert_eq!(parse_array(&["0-4000000:2"; 10].join(",")), spec(2_000_001, None));
        let odd_tasks: Vec<_> = (0..200_000).map(|k| (2 * k + 1).to_string()).collect();
        assert_eq!(parse_array(&odd_tasks.join(",")), spec(200_000, None));
    }
}
