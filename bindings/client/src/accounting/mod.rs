//! What slurmdbd keeps: every run of every job, and the receipt in its `AdminComment`.

mod comment;
mod connection;
mod query;
mod run;
mod tres;

pub use connection::Connection;
pub use query::Runs;
pub use run::{Run, RunKey, RunState};
pub use tres::TresNames;
