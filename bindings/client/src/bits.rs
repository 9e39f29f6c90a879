//! Slurm's bit strings: sets of small numbers.

use slurm_sys as sys;

use crate::ffi;

/// The numbers in a set, in order; NULL reads as empty.
///
/// # Safety
/// `set` is NULL or a bit string of libslurm.
pub(crate) unsafe fn bits(set: *mut sys::bitstr_t) -> Vec<u32> {
    if set.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller vouches for the set.
    let size = u32::try_from(unsafe { ffi::slurm_bit_size(set) }).unwrap_or(0);
    // SAFETY: only bits below the size are asked for.
    (0..size).filter(|&bit| unsafe { ffi::slurm_bit_test(set, i64::from(bit)) } != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_set_is_empty() {
        // SAFETY: NULL is allowed.
        assert!(unsafe { bits(std::ptr::null_mut()) }.is_empty());
    }
}
