//! The market inside slurmctld, shared by the plugins of all roles.
//!
//! slurmctld never waits for us: callbacks read an in-memory snapshot ([`picture`]), which a thread of our own keeps
//! in step with the daemon ([`feed`]). Decisions are pure functions ([`submit`], [`change`]); what touches Slurm's
//! private structs and locks is C ([`host`] and csrc). No panic gets out ([`guard`]), and whatever fails, fails open.

mod change;
mod clock;
pub mod export;
mod feed;
pub mod funds;
mod guard;
mod host;
pub mod job_submit;
mod picture;
pub mod priority;
mod reprice;
mod role;
pub mod site_factor;
pub mod snapshot;
mod staging;
pub mod submit;
mod timing;
