//! The one start of libslurm in this process.

use std::env;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use slurm_sys as sys;

use crate::error::ClientError;
use crate::ffi;

/// Where libslurm itself looks when neither a path nor `SLURM_CONF` is given, as Debian and SchedMD
/// build it.
const DEFAULT_CONFIGURATION: &str = "/etc/slurm/slurm.conf";

/// The configuration that libslurm has read; it reads one per process.
static CONFIGURATION: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Starts libslurm with `conf`, else with `SLURM_CONF`, else with `/etc/slurm/slurm.conf`.
///
/// Call it before the process has a second thread: libslurm sets `SLURM_CONF` in the environment.
/// A second call with the same file, or with none, does nothing. The file is read once; a daemon
/// starts anew to learn of a changed slurmdbd host or port.
///
/// # Errors
/// [`ClientError::Configuration`] if the file cannot be opened (libslurm would end the process),
/// [`ClientError::WrongRelease`] if the library found belongs to another release than the headers of the
/// build, [`ClientError::OtherConfiguration`] after an earlier call with another file,
/// [`ClientError::NulByte`].
pub fn init(conf: Option<&Path>) -> Result<(), ClientError> {
    let mut current = CONFIGURATION.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = &*current {
        return match conf {
            Some(other) if other != path => Err(ClientError::OtherConfiguration { path: path.clone() }),
            _ => Ok(()),
        };
    }
    check_release()?;
    let path = conf.map_or_else(configuration_from_environment, Path::to_path_buf);
    let unreadable = |source| ClientError::Configuration { path: path.clone(), source };
    if !File::open(&path).and_then(|file| file.metadata()).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::from(io::ErrorKind::InvalidInput)));
    }
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| ClientError::NulByte { field: "path of slurm.conf" })?;
    // SAFETY: a valid C string that libslurm copies; the mutex keeps other calls out.
    unsafe { ffi::slurm_init(name.as_ptr()) };
    *current = Some(path);
    Ok(())
}

/// Fails before [`init`]: libslurm would then look for a slurm.conf by itself and end the process if
/// it finds none.
pub(crate) fn require_init() -> Result<(), ClientError> {
    let current = CONFIGURATION.lock().unwrap_or_else(PoisonError::into_inner);
    current.as_ref().map(|_| ()).ok_or(ClientError::NotInitialised)
}

/// The Slurm that this crate was built for, as Slurm writes versions: `22.05.8`.
pub fn built_for() -> String {
    let number = sys::SLURM_VERSION_NUMBER;
    format!("{}.{:02}.{}", number >> 16 & 0xff, number >> 8 & 0xff, number & 0xff)
}

fn configuration_from_environment() -> PathBuf {
    env::var_os("SLURM_CONF").map_or_else(|| PathBuf::from(DEFAULT_CONFIGURATION), PathBuf::from)
}

/// Major API number of libslurm for each release, by `SLURM_VERSION_NUMBER` without the micro number
/// (`make_ref.include`/META of each release). Layouts differ between releases, not within one.
const API_OF_RELEASE: [(u32, i64); 8] = [
    (0x1605, 38),
    (0x1702, 39),
    (0x170b, 40),
    (0x1805, 41),
    (0x180b, 42),
    (0x1905, 43),
    (0x190b, 44),
    (0x1a05, 45),
];

/// libslurmfull.so has no version in its name, so the loader takes any.
fn check_release() -> Result<(), ClientError> {
    // SAFETY: no arguments, gives a constant of the library.
    let loaded = unsafe { ffi::slurm_api_version() } >> 16;
    check_api(sys::SLURM_VERSION_NUMBER, loaded)
}

/// A release that is not in the table passes.
fn check_api(built: u32, loaded: i64) -> Result<(), ClientError> {
    let expected = API_OF_RELEASE.iter().find(|(release, _)| *release == built >> 8);
    match expected {
        Some(&(_, api)) if api != loaded => Err(ClientError::WrongRelease {
            built: format!("{}.{:02}", built >> 16 & 0xff, built >> 8 & 0xff),
            expected: api,
            loaded,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_configuration_is_an_error_and_not_the_end_of_the_process() {
        let missing = Path::new("/nonexistent/slurm.conf");
        let error = init(Some(missing)).expect_err("the file does not exist");
        assert!(matches!(error, ClientError::Configuration { path, .. } if path == missing));
        let error = init(Some(Path::new("/"))).expect_err("a folder");
        assert!(matches!(error, ClientError::Configuration { .. }));
        assert!(matches!(require_init(), Err(ClientError::NotInitialised)));
    }

    #[test]
    fn library_of_another_release_is_refused() {
        assert!(check_release().is_ok());
        assert!(check_api(0x16_05_08, 38).is_ok());
        let error = check_api(0x18_0b_05, 38).expect_err("22.05's library under 24.11's headers");
        assert_eq!(error.to_string(), "built for Slurm 24.11 (client library 42), but library 38 was found");
        assert!(check_api(0x30_05_00, 99).is_ok());
    }
}
