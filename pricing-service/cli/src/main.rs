//! `sbid`: prices, bids and money of the GPU market, from the command line.
//!
//! The daemon decides everything; this program reads the command line, asks once and lays out the answer.

mod client;
mod commands;
mod failure;
mod field;
mod job_id;
mod output;
mod table;

use std::error::Error as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use market_api::config::{self, Config, ConfigError};
use serde_json::Map;

use crate::client::Market;
use crate::commands::Command;
use crate::failure::{EXIT_FAILED, EXIT_USAGE, Failure};
use crate::output::{Outcome, OutputArgs};

/// Prices, bids and money of the GPU market of this Slurm cluster
#[derive(Debug, Parser)]
#[command(name = "sbid", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Accepted as in sacctmgr: sbid never asks before it acts
    #[arg(short = 'i', long, global = true)]
    immediate: bool,
    /// Read where quotamarketd listens from this file
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

const AFTER_HELP: &str = "\
Money is in SU (service units), prices are in SU per GPU-hour, both with up to 6 decimals.
JSON: {\"meta\": {\"schema\", \"as_of\", \"command\"}, \"errors\": [], \"warnings\": [], ROWS: [...]};
money is decimal text in SU, times are whole seconds since 1970 (UTC), what is absent is null.

Exit status: 0 success, 1 failure, 2 wrong usage.";

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return answer_usage(&error),
    };
    let (outcome, mut status) = match run(&cli) {
        Ok(outcome) => (outcome, 0),
        Err(failure) => (outcome_of(&failure, &cli), failure.exit_status()),
    };
    if status == 0 && !outcome.errors.is_empty() {
        status = EXIT_FAILED;
    }
    let printed = print(&outcome.text);
    for warning in &outcome.warnings {
        complain("warning", warning);
    }
    for error in &outcome.errors {
        complain("error", error);
    }
    ExitCode::from(if printed.is_err() { EXIT_FAILED } else { status })
}

fn run(cli: &Cli) -> Result<Outcome, Failure> {
    let Some(names) = cli.command.field_names() else {
        if cli.output.shapes_table() {
            return Err(Failure::NoTable { command: cli.command.name() });
        }
        return ask(cli);
    };
    if cli.output.helpformat {
        return Ok(Outcome { text: field::help_format(&names), ..Outcome::default() });
    }
    ask(cli)
}

fn ask(cli: &Cli) -> Result<Outcome, Failure> {
    let named = cli.config.as_deref();
    let socket = match market_socket(named) {
        Err(_) if cli.command.judges_the_configuration() => Config::default().market_socket(),
        socket => socket?,
    };
    cli.command.run(&Market::at(socket)?, &cli.output, named)
}

/// Where quotamarketd listens. A configuration beside slurm.conf may be absent, or closed to users: then the default
/// holds. One that was named must be readable, lest money go to another market.
fn market_socket(named: Option<&Path>) -> Result<PathBuf, ConfigError> {
    let is_named = named.is_some() || std::env::var_os(config::PATH_VARIABLE).is_some();
    let path = named.map_or_else(|| config::path(None), Path::to_path_buf);
    match Config::load(&path) {
        Err(ConfigError::Unreadable { .. }) if !is_named => Ok(Config::default().market_socket()),
        config => Ok(config?.market_socket()),
    }
}

fn outcome_of(failure: &Failure, cli: &Cli) -> Outcome {
    let errors = vec![failure.to_string()];
    let text = if cli.output.json {
        output::document(cli.command.name(), 0, &errors, &[], Map::new())
    } else {
        String::new()
    };
    Outcome { text, errors, ..Outcome::default() }
}

/// A reader that has seen enough (`| head -1`) is no failure; a full disk is.
fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain("error", &format!("cannot write the output: {error}"));
            Err(error)
        }
        _ => Ok(()),
    }
}

fn complain(kind: &str, sentence: &str) {
    // Nobody is left to be told when standard error is gone.
    let _ = writeln!(io::stderr(), "sbid: {kind}: {sentence}");
}

/// Help and version go to standard output; the rest is a wrong command line.
fn answer_usage(error: &clap::Error) -> ExitCode {
    let rendered = || error.render().to_string();
    let sentence = match (error.kind(), error.source()) {
        (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, _) => {
            return ExitCode::from(if print(&rendered()).is_ok() { 0 } else { EXIT_FAILED });
        }
        (ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, _) => {
            "a command is missing; sbid --help lists them".into()
        }
        // A value that one of our parsers refused says all there is in one sentence.
        (ErrorKind::ValueValidation, Some(refusal)) => refusal.to_string(),
        _ => rendered().trim_start_matches("error: ").trim_end().to_owned(),
    };
    complain("error", &sentence);
    ExitCode::from(EXIT_USAGE)
}
