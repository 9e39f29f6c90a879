//! Receipts: the `AdminComment` of a run that has ended.

use slurm_sys as sys;

use super::connection::clear_error;
use super::query::Condition;
use super::{Connection, RunKey, Runs};
use crate::error::ClientError;
use crate::ffi;
use crate::list::OwnedList;
use crate::text::c_text;

impl Connection {
    /// Sets the `AdminComment` of the one run that `key` names and reads it back. Needs an operator.
    ///
    /// Only ended runs can have a key: the message that reports the end of a run overwrites the
    /// comment, and it may come late, so write only once
    /// [`Statistics::slurmdbd_queue_len`](crate::controller::Statistics) is 0 or be ready to write
    /// again. Every write adds a row to slurmdbd's transaction table; the comment is therefore left
    /// alone if it is already there.
    ///
    /// # Errors
    /// [`ClientError::NoSuchRun`] if slurmdbd has no such record (yet), [`ClientError::AmbiguousRun`]
    /// if several fit (nothing is written then), [`ClientError::NotKept`] if something else is read
    /// back, [`ClientError::Slurm`] if slurmdbd does not answer or refuses, [`ClientError::NulByte`].
    pub fn set_admin_comment(&mut self, key: &RunKey, comment: &str) -> Result<(), ClientError> {
        let c_comment = c_text(comment, "admin comment")?;
        if self.admin_comment(key)? == comment {
            return Ok(());
        }
        let mut condition = Condition::for_key(&self.cluster, key)?;
        let mut change = sys::slurmdb_job_rec_t {
            admin_comment: c_comment.as_ptr().cast_mut(),
            // 0 would set the exit code that users may change.
            derived_ec: sys::NO_VAL,
            ..Default::default()
        };
        clear_error();
        // SAFETY: an open connection, a condition whose lists live, a record whose string lives; the
        // answer is a list of strings.
        let changed = unsafe {
            OwnedList::<std::ffi::c_char>::new(ffi::slurmdb_job_modify(
                self.handle(),
                condition.as_mut(),
                &mut change,
            ))
        };
        let Some(changed) = changed else {
            let error = ClientError::last("slurmdb_job_modify", sys::ESLURM_DB_CONNECTION);
            // The connection may be what failed, so its answer adds nothing.
            let _ = self.finish(false);
            return Err(error);
        };
        if changed.len() > 1 {
            self.finish(false)?;
            return Err(ClientError::AmbiguousRun { run: key.to_string(), records: changed.len() });
        }
        self.finish(true)?;
        if self.admin_comment(key)? != comment {
            return Err(ClientError::NotKept { run: key.to_string() });
        }
        Ok(())
    }

    /// The present comment of the run that `key` names; none reads as empty.
    fn admin_comment(&mut self, key: &RunKey) -> Result<String, ClientError> {
        let runs = self.runs_of(&[key.job_id], Runs::All)?;
        let run = runs.into_iter().find(|run| key.names(run));
        run.map(|run| run.admin_comment.unwrap_or_default())
            .ok_or_else(|| ClientError::NoSuchRun { run: key.to_string() })
    }

    /// Ends slurmdbd's transaction.
    pub(super) fn finish(&self, keep: bool) -> Result<(), ClientError> {
        clear_error();
        // SAFETY: an open connection.
        match unsafe { ffi::slurmdb_connection_commit(self.handle(), keep) } {
            sys::SLURM_SUCCESS => Ok(()),
            _ => Err(ClientError::last("slurmdb_connection_commit", sys::ESLURM_DB_CONNECTION)),
        }
    }
}
