//! Slurm's public headers (`slurm.h`, `slurm_errno.h`, `slurmdb.h`) in Rust: types and constants
//! only. This crate links nothing and declares no function, so a plugin that runs inside slurmctld
//! can use it without pulling a second libslurm into that process.
//!
//! The layouts are those of the headers found at build time; [`SLURM_VERSION_NUMBER`] says which.
//! Integer macros are `u32` unless the value or the name (`NO_VAL16`, `INFINITE64`) asks for another width.

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/slurm.rs"));
}

pub use generated::*;

#[cfg(test)]
mod tests {
    use super::*;

    /// Sentinels have the width of the fields they stand in, as their names say.
    #[test]
    fn sentinels_have_their_width() {
        let job = job_desc_msg_t {
            time_limit: NO_VAL,
            shared: NO_VAL16,
            pn_min_memory: NO_VAL64,
            ..Default::default()
        };
        assert_eq!(job.time_limit, u32::MAX - 1);
        assert_eq!(job.shared, u16::MAX - 1);
        assert_eq!(job.pn_min_memory, u64::MAX - 1);
        assert_eq!((INFINITE, INFINITE16, INFINITE64), (u32::MAX, u16::MAX, u64::MAX));
    }

    /// Macros with a cast in them (`SLURM_BIT`) and plain ones come out with the values of slurm.h.
    #[test]
    fn macros_are_evaluated() {
        assert_eq!(NICE_OFFSET, 0x8000_0000);
        assert_eq!(JOB_STATE_BASE, 0xff);
        assert_eq!(JOB_COMPLETING, 1 << 15);
        assert_eq!(NODE_STATE_DRAIN, 1 << 9);
        assert_eq!(MEM_PER_CPU, 1 << 63);
        assert_eq!((SLURM_SUCCESS, SLURM_ERROR), (0, -1));
    }
}
