//! Safe access to Slurm's client library for a daemon: what slurmctld knows ([`controller`]) and what
//! slurmdbd keeps ([`accounting`]).
//!
//! Every message is copied into plain Rust values and freed at once; text is decoded as UTF-8 with
//! replacement characters. Slurm's sentinels (`NO_VAL`, `INFINITE`, a time of 0) become `None` or a
//! variant with a name.
//!
//! # Blocking and threads
//! All calls block: with slurmctld frozen or down about as long as `MessageTimeout`, with slurmdbd
//! frozen up to a quarter of an hour. A daemon keeps a thread of its own for each of the two.
//! - [`init`] first, while the process has one thread: libslurm sets `SLURM_CONF` in the environment.
//! - The functions of [`controller`] open a connection per call and may be called from any thread.
//! - A [`accounting::Connection`] is one stream to slurmdbd; it can neither be sent to another thread
//!   nor shared.
//!
//! # Linking
//! The library is `libslurmfull.so`, as with Slurm's own commands; build.rs tells why and what a
//! dependent's build.rs has to do. It belongs to one exact version of Slurm: the package of the daemon
//! depends on that version.
//!
//! libslurm writes its own error lines to standard error, and it **exits the process** for a broken
//! slurm.conf or a missing authentication plugin; [`init`] catches the common case, a missing file.

pub mod accounting;
mod bits;
pub mod controller;
mod error;
mod ffi;
pub mod hosts;
mod init;
mod list;
mod state;
mod text;

pub use error::ClientError;
pub use init::{built_for, init};
pub use state::{BaseState, TimeLimit};
