//! What `sbid admin doctor` looks at in Slurm's configuration: pure judgements over what is configured. The daemon knows
//! it from slurmctld, sbid, when the daemon cannot be asked, from slurm.conf itself.

mod conf;
mod file;

use std::fmt;

pub use conf::{BID_FILES, SlurmConf, check};
pub use file::{ReadError, read, tres_weights};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ok,
    /// Works; worth knowing.
    Hint,
    /// Works, but not as it should.
    Warning,
    /// Part of the market does not work.
    Error,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Hint => "hint",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    pub subject: String,
    pub sentence: String,
    /// The line or command that cures it; empty if nothing is wrong.
    pub remedy: String,
}

impl Finding {
    pub fn new(level: Level, subject: &str, sentence: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level, subject: subject.into(), sentence: sentence.into(), remedy: remedy.into() }
    }

    pub fn ok(subject: &str, sentence: impl Into<String>) -> Self {
        Self::new(Level::Ok, subject, sentence, "")
    }
}
