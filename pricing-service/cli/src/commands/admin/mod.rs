//! `sbid admin`: what only those who run the market need.

mod doctor;
mod drain;
mod evict;
mod setup;

use std::path::Path;

use clap::Subcommand;

use crate::client::Market;
use crate::failure::Failure;
use crate::field;
use crate::output::{Outcome, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Say what is wrong with Slurm's configuration, the daemon and the plugins, and what cures it
    Doctor,
    /// Take the market out of service: before its removal
    Drain(drain::DrainArgs),
    /// Have a running spot job give way to a waiting job
    Evict(evict::EvictArgs),
    /// Print the commands that make the market's QOS
    Setup(setup::SetupArgs),
}

impl AdminCommand {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Doctor => doctor::NAME,
            Self::Drain(_) => drain::NAME,
            Self::Evict(_) => evict::NAME,
            Self::Setup(_) => setup::NAME,
        }
    }

    /// Names of the fields of the command's table; `None` for commands that print sentences.
    pub(crate) fn field_names(&self) -> Option<Vec<&'static str>> {
        match self {
            Self::Doctor => Some(field::names(doctor::FIELDS)),
            Self::Drain(_) | Self::Evict(_) | Self::Setup(_) => None,
        }
    }

    pub(crate) fn run(
        &self,
        market: &Market,
        output: &OutputArgs,
        config: Option<&Path>,
    ) -> Result<Outcome, Failure> {
        match self {
            Self::Doctor => doctor::run(market, output, config),
            Self::Drain(args) => drain::run(args, market, output),
            Self::Evict(args) => evict::run(args, market, output),
            Self::Setup(_) => setup::run(),
        }
    }
}
