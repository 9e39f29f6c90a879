//! The functions of libslurm that this crate calls, declared from the headers by build.rs.

#![allow(clippy::all, unreachable_pub)]

use slurm_sys::*;

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
