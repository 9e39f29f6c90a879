//! Whole-system tests: each starts a private cluster of its own with a real slurmctld, slurmdbd and slurmd, and the
//! built plugins, daemon and `sbid` in it. They need root and what `contrib/setup` installs; `contrib/test` runs them.

mod cluster;
mod slurm;
mod wait;

pub use cluster::{Cluster, Outcome, Role, Setting, built_dir};
pub use slurm::Slurm;
pub use wait::{eventually, holds_for};
