//! From C's values with sentinels to Rust's.

use std::ffi::{CStr, CString, c_char};

use slurm_sys as sys;

use crate::error::ClientError;

/// A copy of a C string; `None` for NULL and for the empty string, which Slurm uses alike.
///
/// # Safety
/// `text` is NULL or a NUL-terminated string.
pub(crate) unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    (!copy.is_empty()).then_some(copy)
}

/// Copies `count` C strings, the NULL and empty ones as empty text so that positions stay.
///
/// # Safety
/// `texts` is NULL or points to `count` pointers, each NULL or a NUL-terminated string.
pub(crate) unsafe fn texts(texts: *const *mut c_char, count: u32) -> Vec<String> {
    if texts.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller vouches for the array.
    let pointers = unsafe { std::slice::from_raw_parts(texts, count as usize) };
    pointers
        .iter()
        // SAFETY: and for each string in it.
        .map(|&pointer| unsafe { text(pointer) }.unwrap_or_default())
        .collect()
}

/// A C string for Slurm to copy.
pub(crate) fn c_text(text: &str, field: &'static str) -> Result<CString, ClientError> {
    CString::new(text).map_err(|_| ClientError::NulByte { field })
}

/// A time in seconds since the epoch; Slurm's 0 means "none".
pub(crate) fn seconds(time: sys::time_t) -> Option<i64> {
    (time != 0).then_some(time)
}

/// `None` for `NO_VAL` and `INFINITE`, which both mean "not set" where this is used.
pub(crate) fn number(value: u32) -> Option<u32> {
    (value != sys::NO_VAL && value != sys::INFINITE).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_text_and_sentinels_are_none() {
        // SAFETY: NULL and C string literals.
        unsafe {
            assert_eq!(text(std::ptr::null()), None);
            assert_eq!(text(c"".as_ptr()), None);
            assert_eq!(text(c"gpu".as_ptr()).as_deref(), Some("gpu"));
            assert_eq!(text(c"caf\xe9".as_ptr()).as_deref(), Some("caf\u{fffd}"));
        }
        assert_eq!(seconds(0), None);
        assert_eq!(number(sys::NO_VAL), None);
        assert_eq!(number(sys::INFINITE), None);
        assert_eq!(number(0), Some(0));
    }

    #[test]
    fn nul_byte_is_refused() {
        assert!(matches!(c_text("a\0b", "comment"), Err(ClientError::NulByte { field: "comment" })));
    }
}
