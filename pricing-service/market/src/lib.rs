//! The market: pure rules of bids, prices and money.
//!
//! No IO, no clock, no randomness, no float and no iteration in hash order: time enters as an argument,
//! the same input gives the same bytes. Money is whole micro-SU, prices micro-SU per GPU-hour, GPUs milli-GPUs.

pub mod amount;
pub mod bid;
pub mod clearing;
pub mod fixed;
pub mod index;
pub mod ledger;
pub mod metering;
pub mod order;
pub mod pool;
pub mod request;
pub mod stamp;
