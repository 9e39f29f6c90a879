//! What a job asks for, read from Slurm's own spellings: time limits, GPUs, arrays.
//!
//! Nothing here knows prices. Where Slurm could give more or less than the text says, the worst case is taken, since
//! that is what funds must cover. References are to Slurm 22.05.8, whose readings are followed to the letter where
//! they count anything.

mod array;
mod ask;
mod gres;
mod time;

pub use array::{ArrayError, ArraySpec, parse_array};
pub use ask::{Ask, gpus_asked};
pub use gres::{Gpus, GresError, gpus_of_node, gpus_of_request, gpus_of_tres};
pub use time::{TimeError, TimeLimit, parse_time_limit_min};
