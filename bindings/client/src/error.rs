//! What can go wrong between this crate and Slurm.

use std::ffi::CStr;
use std::io;
use std::path::PathBuf;

use slurm_sys as sys;

use crate::ffi;

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file named, or the default one, cannot be read. libslurm would end the process for it.
    #[error("cannot read Slurm's configuration {}: {source}", path.display())]
    Configuration { path: PathBuf, source: io::Error },
    /// [`init`](crate::init) has already run with another file; libslurm reads its configuration once.
    #[error("Slurm's client library already uses {}", path.display())]
    OtherConfiguration { path: PathBuf },
    /// A call before [`init`](crate::init).
    #[error("Slurm's client library is not initialised")]
    NotInitialised,
    /// The library found at run time belongs to another release than the headers of the build.
    #[error("built for Slurm {built} (client library {expected}), but library {loaded} was found")]
    WrongRelease { built: String, expected: i64, loaded: i64 },
    /// Slurm refused or could not be reached. `code` is Slurm's error number (or the system's, below
    /// 1000), `text` Slurm's own words for it.
    #[error("{call}: {text} (error {code})")]
    Slurm { call: &'static str, code: i32, text: String },
    /// C strings cannot hold a NUL byte.
    #[error("the {field} has a NUL byte in it")]
    NulByte { field: &'static str },
    /// slurmdbd has no such run, or the run has not ended there yet. Nothing was written.
    #[error("slurmdbd has no ended record of {run}")]
    NoSuchRun { run: String },
    /// The key fits several records, so nothing was written.
    #[error("{run} fits {records} records in slurmdbd")]
    AmbiguousRun { run: String, records: usize },
    /// The comment was written and committed, but another one is read back.
    #[error("slurmdbd did not keep the comment of {run}")]
    NotKept { run: String },
}

impl ClientError {
    /// The error that libslurm left behind for `call` on this thread. `fallback` stands in when it
    /// left none, which happens where a connection to slurmdbd breaks.
    pub(crate) fn last(call: &'static str, fallback: sys::slurm_err_t) -> Self {
        let code = match io::Error::last_os_error().raw_os_error().unwrap_or(0) {
            0 | sys::SLURM_ERROR => code_of(fallback),
            code => code,
        };
        Self::with_code(call, code)
    }

    pub(crate) fn with_code(call: &'static str, code: i32) -> Self {
        // SAFETY: slurm_strerror gives a static or library-owned string, or NULL, for any number.
        let text = unsafe {
            let text = ffi::slurm_strerror(code);
            if text.is_null() {
                String::from("unknown error")
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        Self::Slurm { call, code, text }
    }

    /// Whether the same call can succeed later without anyone changing the request: Slurm was not
    /// reached, is starting, is a standby, or has no database at the moment.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Slurm { code, .. } => is_transient_code(*code),
            // slurmdbd gets the end of a job late when slurmctld's queue to it is long.
            Self::NoSuchRun { .. } | Self::NotKept { .. } => true,
            Self::Configuration { .. }
            | Self::OtherConfiguration { .. }
            | Self::NotInitialised
            | Self::NulByte { .. }
            | Self::WrongRelease { .. }
            | Self::AmbiguousRun { .. } => false,
        }
    }

    /// Whether Slurm knows no such job (any more).
    pub fn is_unknown_job(&self) -> bool {
        self.has_code(sys::ESLURM_INVALID_JOB_ID)
    }

    /// Whether Slurm has the job but can no longer change it, since it has ended.
    pub fn is_finished_job(&self) -> bool {
        self.has_code(sys::ESLURM_JOB_FINISHED)
    }

    pub(crate) fn has_code(&self, wanted: sys::slurm_err_t) -> bool {
        matches!(self, Self::Slurm { code, .. } if *code == code_of(wanted))
    }
}

/// Slurm's error numbers are small and positive; the enum is unsigned only by C's choice.
pub(crate) fn code_of(error: sys::slurm_err_t) -> i32 {
    i32::try_from(error).unwrap_or(sys::SLURM_ERROR)
}

/// "Socket-specific" errors of slurm_errno.h, whose names differ between releases.
const SOCKET_FIRST: u32 = 5000;
const SOCKET_LAST: u32 = sys::SLURM_PROTOCOL_SOCKET_ZERO_BYTES_SENT;

/// `ESLURM_JOB_SETTING_DB_INX`, which 24.11 no longer has.
const JOB_SETTING_DB_INX: u32 = 2103;

fn is_transient_code(code: i32) -> bool {
    let Ok(code) = u32::try_from(code) else {
        // -1, "Unspecified error": the call did not get as far as an answer.
        return true;
    };
    matches!(
        code,
        sys::SLURM_UNEXPECTED_MSG_ERROR
            | sys::SLURM_COMMUNICATIONS_CONNECTION_ERROR
            | sys::SLURM_COMMUNICATIONS_SEND_ERROR
            | sys::SLURM_COMMUNICATIONS_RECEIVE_ERROR
            | sys::SLURM_COMMUNICATIONS_SHUTDOWN_ERROR
            | sys::SLURM_COMMUNICATIONS_MISSING_SOCKET_ERROR
            | sys::SLURM_PROTOCOL_AUTHENTICATION_ERROR
            | sys::SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR
            | sys::SLURMCTLD_COMMUNICATIONS_SEND_ERROR
            | sys::SLURMCTLD_COMMUNICATIONS_RECEIVE_ERROR
            | sys::SLURMCTLD_COMMUNICATIONS_SHUTDOWN_ERROR
            | SOCKET_FIRST
            ..=SOCKET_LAST
                | sys::ESLURM_IN_STANDBY_MODE
                | sys::ESLURM_IN_STANDBY_USE_BACKUP
                | sys::ESLURM_TRANSITION_STATE_NO_UPDATE
                | JOB_SETTING_DB_INX
                | sys::ESLURM_DB_CONNECTION
    ) || is_transient_system_error(code)
}

/// Numbers of the operating system, which libslurm hands through when a socket fails.
fn is_transient_system_error(code: u32) -> bool {
    matches!(
        i32::try_from(code),
        Ok(libc::EINTR
            | libc::EAGAIN
            | libc::EPIPE
            | libc::ENOENT
            | libc::ECONNREFUSED
            | libc::ECONNRESET
            | libc::ECONNABORTED
            | libc::ENOTCONN
            | libc::ETIMEDOUT
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::ENETDOWN
            | libc::EINPROGRESS)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_is_what_waiting_can_cure() {
        let transient = |code: u32| ClientError::with_code("call", code_of(code)).is_transient();
        assert!(transient(sys::SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR));
        assert!(transient(sys::ESLURM_IN_STANDBY_MODE));
        assert!(transient(sys::ESLURM_DB_CONNECTION));
        // "Socket timed out on send/recv operation", from a frozen slurmctld.
        assert!(transient(5004));
        assert!(ClientError::with_code("call", libc::ECONNREFUSED).is_transient());
        assert!(!transient(sys::ESLURM_ACCESS_DENIED));
        assert!(!transient(sys::ESLURM_INVALID_JOB_ID));
        assert!(!transient(sys::SLURM_PROTOCOL_VERSION_ERROR));
        assert!(!ClientError::NotInitialised.is_transient());
    }

    #[test]
    fn error_carries_slurms_own_words() {
        let error = ClientError::with_code("slurm_update_job", code_of(sys::ESLURM_INVALID_JOB_ID));
        assert_eq!(error.to_string(), "slurm_update_job: Invalid job id specified (error 2017)");
        assert!(error.is_unknown_job());
        assert!(!error.is_finished_job());
    }
}
