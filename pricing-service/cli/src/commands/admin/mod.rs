//! `sbid admin`: what only those who run the market need.

mod evict;
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
    /// Have a running spot job give way to a waiting job
    Evict(evict::EvictArgs),
    /// Print the commands that make the market's QOS
    Setup(setup::SetupArgs),
}

impl AdminArgs {
    pub(crate) fn name(&self) -> &'static str {
        match &self.command {
            AdminCommand::Evict(_) => evict::NAME,
            AdminCommand::Setup(_) => setup::NAME,
        }
    }

    pub(crate) fn run(&self, market: &Market, output: &OutputArgs) -> Result<Outcome, Failure> {
        match &self.command {
            AdminCommand::Evict(args) => evict::run(args, market, output),
            AdminCommand::Setup(_) => setup::run(),
        }
    }
}
