//! What the benchmarks share: the product as it is shipped, and how figures are told.

mod figures;
mod product;

pub use figures::{Spread, quantile};
pub use product::{build, copy_plugin};
