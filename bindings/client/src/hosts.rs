//! Slurm's host lists: `gpu[1-4,7],login`.

use std::ffi::CStr;

use crate::error::ClientError;
use crate::ffi;
use crate::text::c_text;

/// The names that a host list stands for, in its order. The empty list has none.
///
/// # Errors
/// [`ClientError::Slurm`] if Slurm cannot read the list, [`ClientError::NulByte`].
pub fn expand(hostlist: &str) -> Result<Vec<String>, ClientError> {
    let hostlist = c_text(hostlist, "host list")?;
    // SAFETY: a C string that libslurm copies; NULL if it cannot be read.
    let list = unsafe { ffi::slurm_hostlist_create(hostlist.as_ptr()) };
    if list.is_null() {
        return Err(ClientError::with_code("slurm_hostlist_create", libc::EINVAL));
    }
    let mut names = Vec::new();
    loop {
        // SAFETY: a valid list; each name is ours to free with free().
        let name = unsafe { ffi::slurm_hostlist_shift(list) };
        if name.is_null() {
            break;
        }
        // SAFETY: a NUL-terminated string from malloc.
        unsafe {
            names.push(CStr::from_ptr(name).to_string_lossy().into_owned());
            libc::free(name.cast());
        }
    }
    // SAFETY: ours, destroyed once.
    unsafe { ffi::slurm_hostlist_destroy(list) };
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_expanded_in_order() {
        assert_eq!(expand("gpu[2-3,10],login").expect("valid"), ["gpu2", "gpu3", "gpu10", "login"]);
        assert_eq!(expand("rack[0-1]n[1,3]").expect("valid"), ["rack0n1", "rack0n3", "rack1n1", "rack1n3"]);
        assert_eq!(expand("n[08-11]").expect("valid"), ["n08", "n09", "n10", "n11"]);
        assert!(expand("").expect("valid").is_empty());
    }

    #[test]
    fn unreadable_list_is_an_error() {
        assert!(matches!(expand("gpu[3-1]"), Err(ClientError::Slurm { .. })));
    }
}
