//! `sbid admin`: what only those who run the market need.

mod setup;

use clap::{Args, Subcommand};

use crate::client::Market;
use crate::failure::Failure;
use crate::output::{Outcome, OutputArgs};

#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Print the commands that make the market's QOS
    Setup(setup::SetupArgs),
}

impl AdminArgs {
    pub(crate) fn name(&self) -> &'static str {
        match &self.command {
            AdminCommand::Setup(_) => setup::NAME,
        }
    }

    pub(crate) fn run(&self, _market: &Market, _output: &OutputArgs) -> Result<Outcome, Failure> {
        match &self.command {
            AdminCommand::Setup(_) => setup::run(),
        }
    }
}
