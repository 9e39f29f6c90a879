//! One module for each command.

mod admin;
mod arguments;
mod balance;
mod bid;
mod deposit;
mod explain;
mod jobs;
mod ledger;
mod price;

use std::path::Path;

use clap::Subcommand;

use crate::client::Market;
use crate::failure::Failure;
use crate::field;
use crate::output::{Outcome, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a GPU-hour costs in each pool, and why
    Price,
    /// Show the money of accounts
    Balance(balance::BalanceArgs),
    /// Show the jobs in the market: their bids, prices and ranks
    Jobs(jobs::JobsArgs),
    /// Say why a job waits or what it pays, and what would help
    Explain(explain::ExplainArgs),
    /// Show the movements of money, oldest first
    Ledger(ledger::LedgerArgs),
    /// Give money to an account (operators)
    Deposit(deposit::DepositArgs),
    /// Change the bid of a job that waits, or give it one
    Bid(bid::BidArgs),
    /// Set the market up, run it and take it down (operators)
    #[command(subcommand)]
    Admin(admin::AdminCommand),
}

impl Command {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Price => price::NAME,
            Self::Balance(_) => balance::NAME,
            Self::Jobs(_) => jobs::NAME,
            Self::Explain(_) => explain::NAME,
            Self::Ledger(_) => ledger::NAME,
            Self::Deposit(_) => deposit::NAME,
            Self::Bid(_) => bid::NAME,
            Self::Admin(command) => command.name(),
        }
    }

    /// Names of the fields of the command's table; `None` for commands that print sentences.
    pub(crate) fn field_names(&self) -> Option<Vec<&'static str>> {
        match self {
            Self::Price => Some(field::names(price::FIELDS)),
            Self::Balance(_) => Some(field::names(balance::FIELDS)),
            Self::Jobs(_) => Some(field::names(jobs::FIELDS)),
            Self::Ledger(_) => Some(field::names(ledger::FIELDS)),
            Self::Explain(_) | Self::Deposit(_) | Self::Bid(_) => None,
            Self::Admin(command) => command.field_names(),
        }
    }

    /// A wrong market.toml is what it is there to tell.
    pub(crate) fn judges_the_configuration(&self) -> bool {
        matches!(self, Self::Admin(admin::AdminCommand::Doctor))
    }

    /// `config` is the file that the command line names.
    pub(crate) fn run(
        &self,
        market: &Market,
        output: &OutputArgs,
        config: Option<&Path>,
    ) -> Result<Outcome, Failure> {
        match self {
            Self::Price => price::run(market, output),
            Self::Balance(args) => balance::run(args, market, output),
            Self::Jobs(args) => jobs::run(args, market, output),
            Self::Explain(args) => explain::run(args, market, output),
            Self::Ledger(args) => ledger::run(args, market, output),
            Self::Deposit(args) => deposit::run(args, market, output),
            Self::Bid(args) => bid::run(args, market, output),
            Self::Admin(command) => command.run(market, output, config),
        }
    }
}
