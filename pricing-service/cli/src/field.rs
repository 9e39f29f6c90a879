//! The fields of a command's rows. One list gives the table, `--format`, `--helpformat` and the JSON document.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use market::amount::Amount;
use serde_json::{Map, Value};
use thiserror::Error;

/// The widest column that may be asked for.
const WIDTH_MAX: usize = 10_000;
/// Fields on a line of `--helpformat`, and the width of each, as in sacct.
const HELP_PER_LINE: usize = 4;
const HELP_WIDTH: usize = 19;

/// What stands in one field of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Text(String),
    /// A whole number; `None`: there is none, as a rank of a job that runs.
    Count(Option<i64>),
    /// µSU, or µSU per GPU-hour; shown in SU without needless zeros.
    Money(Option<i64>),
    /// µSU; shown in SU with all six decimals.
    FixedMoney(i64),
    /// Seconds since the epoch; `None`: not known yet.
    Time(Option<i64>),
    Flag(bool),
}

impl Cell {
    /// For a figure that the contract gives as 0 where there is none.
    pub(crate) fn count_or_none(count: impl Into<i64>) -> Self {
        Self::Count(Some(count.into()).filter(|count| *count != 0))
    }

    /// For money that the contract gives as 0 where there is none.
    pub(crate) fn money_or_none(micros: i64) -> Self {
        Self::Money(Some(micros).filter(|micros| *micros != 0))
    }

    /// For a time that the contract gives as 0 where there is none.
    pub(crate) fn time_or_none(epoch_s: i64) -> Self {
        Self::Time(Some(epoch_s).filter(|epoch_s| *epoch_s != 0))
    }

    /// As it stands in a table. Control characters, which could break a line or command a terminal, become `?`.
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.chars().map(|c| if c.is_control() { '?' } else { c }).collect(),
            Self::Count(count) => count.map_or_else(|| "N/A".into(), |count| count.to_string()),
            Self::Money(micros) => {
                micros.map_or_else(|| "N/A".into(), |micros| Amount::from_micros(micros).to_string())
            }
            Self::FixedMoney(micros) => Amount::from_micros(*micros).fixed6(),
            Self::Time(epoch_s) => epoch_s.and_then(local_time).unwrap_or_else(|| "Unknown".into()),
            Self::Flag(flag) => if *flag { "Yes" } else { "No" }.into(),
        }
    }

    /// As it stands in JSON: money as decimal text in SU, times in epoch seconds.
    fn json(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Count(number) | Self::Time(number) => (*number).into(),
            Self::Money(micros) => micros.map(su_text).into(),
            Self::FixedMoney(micros) => su_text(*micros).into(),
            Self::Flag(flag) => (*flag).into(),
        }
    }
}

/// SU as plain decimal text, the form of money in JSON.
pub(crate) fn su_text(micros: i64) -> String {
    Amount::from_micros(micros).to_string()
}

pub(crate) fn local_time(epoch_s: i64) -> Option<String> {
    let at = Timestamp::from_second(epoch_s).ok()?.to_zoned_datetime(TimeZone::system());
    Some(at.strftime("%Y-%m-%dT%H:%M:%S").to_string())
}

/// One field that rows of `R` have.
#[derive(Debug)]
pub(crate) struct Field<R> {
    /// In headers and in `--format`.
    pub(crate) name: &'static str,
    key: &'static str,
    numeric: bool,
    on_request: bool,
    cell: fn(&R) -> Cell,
}

impl<R> Field<R> {
    /// A left-aligned field; `key` is its name in JSON.
    pub(crate) const fn text(name: &'static str, key: &'static str, cell: fn(&R) -> Cell) -> Self {
        Self { name, key, numeric: false, on_request: false, cell }
    }

    /// A right-aligned field; `key` is its name in JSON.
    pub(crate) const fn number(name: &'static str, key: &'static str, cell: fn(&R) -> Cell) -> Self {
        Self { numeric: true, ..Self::text(name, key, cell) }
    }

    /// The same field, shown only where `--format` names it.
    pub(crate) const fn on_request(self) -> Self {
        Self { on_request: true, ..self }
    }

    pub(crate) fn shown(&self, row: &R) -> String {
        (self.cell)(row).shown()
    }
}

pub(crate) fn names<R>(fields: &[Field<R>]) -> Vec<&'static str> {
    fields.iter().map(|field| field.name).collect()
}

/// The JSON object of a row, with every field there is.
pub(crate) fn json_object<R>(fields: &[Field<R>], row: &R) -> Value {
    let pairs = fields.iter().map(|field| (field.key.to_owned(), (field.cell)(row).json()));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// What `--helpformat` prints.
pub(crate) fn help_format(names: &[&str]) -> String {
    let line = |names: &[&str]| {
        let padded: Vec<_> = names.iter().map(|name| format!("{name:<HELP_WIDTH$}")).collect();
        format!("{}\n", padded.join(" ").trim_end())
    };
    names.chunks(HELP_PER_LINE).map(line).collect()
}

/// A column of the output: a field, and the width that was asked for.
#[derive(Debug)]
pub(crate) struct Chosen<R: 'static> {
    pub(crate) field: &'static Field<R>,
    pub(crate) width: Option<usize>,
    pub(crate) right_aligned: bool,
}

/// The columns without `--format`.
pub(crate) fn default_columns<R>(fields: &'static [Field<R>]) -> Vec<Chosen<R>> {
    let shown = fields.iter().filter(|field| !field.on_request);
    shown.map(|field| Chosen { field, width: None, right_aligned: field.numeric }).collect()
}

/// Why a `--format` cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum FormatError {
    #[error("{name:?} is no field of this command; --helpformat lists them")]
    UnknownField { name: String },
    #[error("{width:?} is no width of a field; write for example Pool%12, or Pool%-12 for the left edge")]
    BadWidth { width: String },
    #[error("--format names no field; --helpformat lists them")]
    Nothing,
}

/// Reads `Field%20,Field%-8,Field`: names in any case or the beginning of one, a width after `%`, below zero for
/// left-aligned; sacct reads its own option the same way.
///
/// # Errors
/// See [`FormatError`].
pub(crate) fn parse_format<R>(
    format: &str,
    fields: &'static [Field<R>],
) -> Result<Vec<Chosen<R>>, FormatError> {
    let items = format.split(',').map(str::trim).filter(|item| !item.is_empty());
    let chosen = items.map(|item| choose(item, fields)).collect::<Result<Vec<_>, _>>()?;
    if chosen.is_empty() { Err(FormatError::Nothing) } else { Ok(chosen) }
}

fn choose<R>(item: &str, fields: &'static [Field<R>]) -> Result<Chosen<R>, FormatError> {
    let (name, width) = match item.split_once('%') {
        Some((name, width)) => (name, Some(width)),
        None => (item, None),
    };
    let wanted = name.to_ascii_lowercase();
    let is_exact = |field: &&Field<R>| field.name.eq_ignore_ascii_case(&wanted);
    let begins_so =
        |field: &&Field<R>| !wanted.is_empty() && field.name.to_ascii_lowercase().starts_with(&wanted);
    let field = fields
        .iter()
        .find(is_exact)
        .or_else(|| fields.iter().find(begins_so))
        .ok_or_else(|| FormatError::UnknownField { name: name.into() })?;
    let Some(width) = width else {
        return Ok(Chosen { field, width: None, right_aligned: field.numeric });
    };
    let (digits, right_aligned) = match width.strip_prefix('-') {
        Some(digits) => (digits, false),
        None => (width, true),
    };
    let chars = digits.parse().ok().filter(|chars| (1..=WIDTH_MAX).contains(chars));
    let chars = chars.ok_or_else(|| FormatError::BadWidth { width: width.into() })?;
    Ok(Chosen { field, width: Some(chars), right_aligned })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row {
        pool: &'static str,
        gpus: u32,
    }

    const FIELDS: &[Field<Row>] = &[
        Field::text("Pool", "pool", |row: &Row| Cell::Text(row.pool.into())),
        Field::number("GPUs", "gpus", |row: &Row| Cell::Count(Some(row.gpus.into()))),
        Field::text("PoolNote", "pool_note", |_: &Row| Cell::Text("none".into())).on_request(),
    ];

    fn chosen(format: &str) -> Vec<(&'static str, Option<usize>, bool)> {
        let columns = parse_format(format, FIELDS).expect(format);
        columns.iter().map(|column| (column.field.name, column.width, column.right_aligned)).collect()
    }

    #[test]
    fn formats_name_fields_in_any_case_with_widths() {
        assert_eq!(chosen("Pool,GPUs"), [("Pool", None, false), ("GPUs", None, true)]);
        assert_eq!(chosen("gpus%20, POOL%-8,"), [("GPUs", Some(20), true), ("Pool", Some(8), false)]);
        assert_eq!(chosen("pool%5"), [("Pool", Some(5), true)]);
        assert_eq!(chosen("g"), [("GPUs", None, true)]);
        assert_eq!(chosen("pooln,pool"), [("PoolNote", None, false), ("Pool", None, false)]);
    }

    #[test]
    fn wrong_formats_are_named() {
        let unknown = |name: &str| FormatError::UnknownField { name: name.into() };
        let bad_width = |width: &str| FormatError::BadWidth { width: width.into() };
        let table = [
            ("", FormatError::Nothing),
            (" ,,", FormatError::Nothing),
            ("Price", unknown("Price")),
            ("%5", unknown("")),
            ("Pool%", bad_width("")),
            ("Pool%0", bad_width("0")),
            ("Pool%-0", bad_width("-0")),
            ("Pool%x", bad_width("x")),
            ("Pool%--5", bad_width("--5")),
            ("Pool%10001", bad_width("10001")),
            ("Pool%99999999999999999999", bad_width("99999999999999999999")),
        ];
        for (format, error) in table {
            assert_eq!(parse_format(format, FIELDS).map(|_| ()), Err(error), "{format:?}");
        }
    }

    #[test]
    fn fields_on_request_stay_out_of_the_default() {
        let columns = default_columns(FIELDS);
        assert_eq!(columns.iter().map(|column| column.field.name).collect::<Vec<_>>(), ["Pool", "GPUs"]);
        let row = Row { pool: "a100", gpus: 2 };
        let expected = serde_json::json!({"pool": "a100", "gpus": 2, "pool_note": "none"});
        assert_eq!(json_object(FIELDS, &row), expected);
    }

    #[test]
    fn cells_are_shown_and_written_as_json() {
        let table = [
            (Cell::Text("a\tb\u{1b}[1m".into()), "a?b?[1m", r#""a\tb\u001b[1m""#),
            (Cell::Count(Some(-3)), "-3", "-3"),
            (Cell::count_or_none(0_u32), "N/A", "null"),
            (Cell::Money(Some(3_500_000)), "3.5", r#""3.5""#),
            (Cell::Money(Some(0)), "0", r#""0""#),
            (Cell::money_or_none(0), "N/A", "null"),
            (Cell::FixedMoney(-3_500_000), "-3.500000", r#""-3.5""#),
            (Cell::time_or_none(0), "Unknown", "null"),
            (Cell::Time(Some(i64::MAX)), "Unknown", "9223372036854775807"),
            (Cell::Flag(true), "Yes", "true"),
            (Cell::Flag(false), "No", "false"),
        ];
        for (cell, shown, json) in table {
            assert_eq!(cell.shown(), shown);
            assert_eq!(cell.json().to_string(), json);
        }
    }

    #[test]
    fn help_lists_four_fields_a_line() {
        assert_eq!(
            help_format(&["Pool", "GPUs", "Free", "Waiting", "Why"]),
            "Pool                GPUs                Free                Waiting\nWhy\n"
        );
    }
}
