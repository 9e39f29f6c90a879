//! The Slurm that the tests run on: the one place that knows what differs by version.

use std::process::Command;

/// A version of Slurm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slurm {
    major: u32,
    minor: u32,
}

impl Slurm {
    /// The installed one.
    pub fn installed() -> Self {
        let output = Command::new("slurmctld").arg("-V").output().expect("slurmctld is installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned(); // "slurm-wlm 24.11.5"
        let mut numbers = text.trim().rsplit(' ').next().unwrap_or_default().split('.');
        let mut number = || numbers.next().and_then(|number| number.parse().ok()).expect("slurmctld -V");
        Self { major: number(), minor: number() }
    }

    fn is_at_least(self, major: u32, minor: u32) -> bool {
        self >= Self { major, minor }
    }

    /// The user reads why a change of a job is refused; before, what the error code stands for.
    pub fn says_why_a_change_is_refused(self) -> bool {
        self.is_at_least(23, 2)
    }

    /// slurmctld goes on without a site factor plugin that it cannot find; since then it ends.
    pub fn runs_without_its_site_factor_plugin(self) -> bool {
        !self.is_at_least(24, 11)
    }

    /// A job may ask for several QOS, `--qos=a,b`; before, that is the name of one.
    pub fn takes_several_qos(self) -> bool {
        self.is_at_least(24, 11)
    }

    /// Where a request says how many tasks but not how many nodes, a job's record gives the least number for the most
    /// as well, until the scheduler has planned it.
    pub fn hides_that_nodes_are_not_bounded(self) -> bool {
        self.is_at_least(24, 11)
    }
}
