//! The stream to slurmdbd.

use std::collections::BTreeMap;
use std::ffi::c_void;

use slurm_sys as sys;

use super::tres::TresNames;
use crate::error::ClientError;
use crate::ffi;
use crate::init::require_init;
use crate::list::OwnedList;
use crate::text::text;

/// One stream to slurmdbd, asking for one cluster.
///
/// It belongs to the thread that opened it: it is neither `Send` nor `Sync`. After an error libslurm
/// opens the stream anew at the next call; opening a new `Connection` does the same.
#[derive(Debug)]
pub struct Connection {
    handle: *mut c_void,
    pub(super) cluster: String,
    pub(super) tres: TresNames,
    pub(super) qos: BTreeMap<u32, String>,
}

impl Connection {
    /// Connects, and reads the names of TRES and QOS, which proves that the connection works.
    /// `cluster` is `ClusterName` of slurm.conf.
    ///
    /// # Errors
    /// [`ClientError::Slurm`] if slurmdbd or its database does not answer;
    /// [`ClientError::NotInitialised`].
    pub fn open(cluster: &str) -> Result<Self, ClientError> {
        require_init()?;
        clear_error();
        // SAFETY: no flags wanted; libslurm keeps what it gives until slurmdb_connection_close.
        let handle = unsafe { ffi::slurmdb_connection_get(std::ptr::null_mut()) };
        if handle.is_null() {
            return Err(ClientError::last("slurmdb_connection_get", sys::ESLURM_DB_CONNECTION));
        }
        let mut connection =
            Self { handle, cluster: cluster.to_owned(), tres: TresNames::default(), qos: BTreeMap::new() };
        connection.refresh_names()?;
        Ok(connection)
    }

    /// Names of the TRES that slurmdbd counts, as of the last look-up that met a new one.
    pub fn tres_names(&self) -> &TresNames {
        &self.tres
    }

    pub(super) fn handle(&self) -> *mut c_void {
        self.handle
    }

    /// Reads the names of TRES and QOS again.
    pub(super) fn refresh_names(&mut self) -> Result<(), ClientError> {
        self.tres = self.load_tres()?;
        self.qos = self.load_qos()?;
        Ok(())
    }

    fn load_tres(&self) -> Result<TresNames, ClientError> {
        let mut condition = sys::slurmdb_tres_cond_t::default();
        // SAFETY: fills the structure with "any"; `false`: nothing in it is to be freed.
        unsafe { ffi::slurmdb_init_tres_cond(&mut condition, false) };
        condition.with_deleted = 1;
        clear_error();
        // SAFETY: an open connection and a filled condition; the list holds TRES records.
        let list = unsafe {
            OwnedList::<sys::slurmdb_tres_rec_t>::new(ffi::slurmdb_tres_get(self.handle, &mut condition))
        };
        let list = list.ok_or_else(|| ClientError::last("slurmdb_tres_get", sys::ESLURM_DB_CONNECTION))?;
        let name = |record: &sys::slurmdb_tres_rec_t| {
            // SAFETY: strings of a valid record.
            let (kind, name) = unsafe { (text(record.type_), text(record.name)) };
            (record.id, kind.unwrap_or_default(), name)
        };
        Ok(TresNames::new(list.iter().map(name)))
    }

    fn load_qos(&self) -> Result<BTreeMap<u32, String>, ClientError> {
        let mut condition = sys::slurmdb_qos_cond_t::default();
        clear_error();
        // SAFETY: an open connection and a condition without lists; the list holds QOS records.
        let list = unsafe {
            OwnedList::<sys::slurmdb_qos_rec_t>::new(ffi::slurmdb_qos_get(self.handle, &mut condition))
        };
        let list = list.ok_or_else(|| ClientError::last("slurmdb_qos_get", sys::ESLURM_DB_CONNECTION))?;
        // SAFETY: strings of valid records.
        Ok(list.iter().filter_map(|qos| Some((qos.id, unsafe { text(qos.name) }?))).collect())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once. What was not committed is rolled back.
        unsafe { ffi::slurmdb_connection_close(&mut self.handle) };
    }
}

/// libslurm reports some failures by NULL and errno alone, so an old errno must not stand in it.
pub(super) fn clear_error() {
    // SAFETY: the thread's own errno. (libslurm's slurm_seterrno does no more, and 24.11 only declares it.)
    unsafe { *libc::__errno_location() = 0 };
}
