//! Why a command failed, and what the shell is told.

use market_api::config::ConfigError;
use thiserror::Error;

use crate::client::CallError;
use crate::field::FormatError;
use crate::job_id::ResolveError;

/// Exit status of a command that was understood and failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// Exit status of a command line that makes no sense; clap uses the same.
pub(crate) const EXIT_USAGE: u8 = 2;

#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error("{command} prints sentences and no table; of the options for output it takes only --json")]
    NoTable { command: &'static str },
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A write whose answer is missing.
    #[error(
        "{call}; whether it has acted is not known: repeat the same command with --idempotency-key {key}, which counts once"
    )]
    Unsure { call: CallError, key: String },
}

impl Failure {
    /// Of a write with this idempotency key.
    pub(crate) fn of_write(call: CallError, key: &str) -> Self {
        match call {
            CallError::NoAnswer { was_sent: true, .. } => Self::Unsure { call, key: key.into() },
            call => Self::Call(call),
        }
    }

    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::NoTable { .. } | Self::Format(_) => EXIT_USAGE,
            Self::Config(_) | Self::Call(_) | Self::Resolve(_) | Self::Unsure { .. } => EXIT_FAILED,
        }
    }
}
