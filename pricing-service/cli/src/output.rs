//! What a command found, turned into the text that was asked for: a table for a person or a program, or JSON.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::field::{self, Chosen, Field, FormatError};
use crate::table::{self, ColumnShape, Delimited};

/// Version of the JSON documents; a change that breaks readers raises it.
const SCHEMA: u32 = 1;

/// The options of sacct's family that shape output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tables (price, balance, jobs, ledger, admin doctor)")]
pub(crate) struct OutputArgs {
    /// Print only the rows: no header, no sentences around the table
    #[arg(short = 'n', long, global = true)]
    noheader: bool,
    /// Separate fields by '|', also at the end of a line; nothing is cut
    #[arg(short = 'p', long, global = true, overrides_with = "parsable2")]
    parsable: bool,
    /// Separate fields by '|', without one at the end of a line; nothing is cut
    #[arg(short = 'P', long, global = true, overrides_with = "parsable")]
    parsable2: bool,
    /// Separate fields by this text instead of '|', with -p or -P
    #[arg(long, global = true, value_name = "TEXT", default_value = "|", hide_default_value = true)]
    delimiter: String,
    /// Show these fields; %N sets a width, %-N also the left edge
    #[arg(short = 'o', long, global = true, value_name = "FIELD[%N],...")]
    format: Vec<String>,
    /// Print a JSON document with every field instead
    #[arg(long, global = true, help_heading = None)]
    pub(crate) json: bool,
    /// List the fields that --format takes
    #[arg(long, global = true)]
    pub(crate) helpformat: bool,
}

impl OutputArgs {
    /// Whether an option is given that means something only for a table.
    pub(crate) fn shapes_table(&self) -> bool {
        self.noheader || self.parsable || self.parsable2 || self.helpformat || !self.format.is_empty()
    }

    /// How to lay out rows with these fields.
    ///
    /// # Errors
    /// [`FormatError`] of `--format`.
    pub(crate) fn layout<R>(&self, fields: &'static [Field<R>]) -> Result<Layout<R>, FormatError> {
        let columns = if self.format.is_empty() {
            field::default_columns(fields)
        } else {
            field::parse_format(&self.format.join(","), fields)?
        };
        let delimited = self.parsable || self.parsable2;
        Ok(Layout {
            fields,
            columns,
            header: !self.noheader,
            delimited: delimited
                .then(|| Delimited { delimiter: self.delimiter.clone(), at_end: self.parsable }),
            json: self.json,
        })
    }
}

/// Text for standard output and what is to be said beside it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) text: String,
    /// For standard error; in a JSON document already.
    pub(crate) warnings: Vec<String>,
    /// As `warnings`; the command has failed if there are any.
    pub(crate) errors: Vec<String>,
}

/// How rows of `R` are to be laid out.
#[derive(Debug)]
pub(crate) struct Layout<R: 'static> {
    fields: &'static [Field<R>],
    columns: Vec<Chosen<R>>,
    header: bool,
    delimited: Option<Delimited>,
    json: bool,
}

/// Rows and what belongs to them.
#[derive(Debug)]
pub(crate) struct Report<R> {
    pub(crate) command: &'static str,
    /// Name of the rows in the JSON document.
    pub(crate) plural: &'static str,
    pub(crate) as_of_s: i64,
    pub(crate) rows: Vec<R>,
    /// Lines before and after the table, for a person.
    pub(crate) before: Vec<String>,
    pub(crate) after: Vec<String>,
    /// Further members of the JSON document.
    pub(crate) members: Vec<(&'static str, Value)>,
    pub(crate) warnings: Vec<String>,
    pub(crate) errors: Vec<String>,
}

impl<R> Report<R> {
    pub(crate) fn new(command: &'static str, plural: &'static str, as_of_s: i64, rows: Vec<R>) -> Self {
        Self {
            command,
            plural,
            as_of_s,
            rows,
            before: Vec::new(),
            after: Vec::new(),
            members: Vec::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
        }
    }
}

impl<R> Layout<R> {
    pub(crate) fn lay_out(&self, report: Report<R>) -> Outcome {
        let text = if self.json {
            self.json_document(&report)
        } else if let Some(delimited) = &self.delimited {
            let names: Vec<_> = self.columns.iter().map(|column| column.field.name).collect();
            delimited.lay_out(&names, &self.shown(&report.rows), self.header)
        } else {
            self.human_table(&report)
        };
        Outcome { text, warnings: report.warnings, errors: report.errors }
    }

    fn shown(&self, rows: &[R]) -> Vec<Vec<String>> {
        let row = |row| self.columns.iter().map(|column| column.field.shown(row)).collect();
        rows.iter().map(row).collect()
    }

    fn human_table(&self, report: &Report<R>) -> String {
        let shape = |column: &Chosen<R>| ColumnShape {
            name: column.field.name,
            right_aligned: column.right_aligned,
            width: column.width,
        };
        let shapes: Vec<_> = self.columns.iter().map(shape).collect();
        let table = table::aligned(&shapes, &self.shown(&report.rows), self.header);
        if !self.header {
            return table;
        }
        let lines = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        lines(&report.before) + &table + &lines(&report.after)
    }

    fn json_document(&self, report: &Report<R>) -> String {
        let rows = report.rows.iter().map(|row| field::json_object(self.fields, row));
        let mut body = Map::new();
        body.insert(report.plural.into(), rows.collect());
        body.extend(report.members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        document(report.command, report.as_of_s, &report.errors, &report.warnings, body)
    }
}

/// A whole JSON document: what Slurm's own have in front, then the body. `as_of_s` is 0 where there is none: before
/// the first round, for writes and for failures.
pub(crate) fn document(
    command: &str,
    as_of_s: i64,
    errors: &[String],
    warnings: &[String],
    body: Map<String, Value>,
) -> String {
    let as_of = Some(as_of_s).filter(|as_of_s| *as_of_s != 0);
    let mut document = Map::new();
    let meta = json!({"schema": SCHEMA, "as_of": as_of, "command": command});
    document.insert("meta".into(), meta);
    document.insert("errors".into(), errors.into());
    document.insert("warnings".into(), warnings.into());
    document.extend(body);
    format!("{:#}\n", Value::Object(document))
}
