//! Associations, users and QOS as slurmctld caches them: who may charge which account.

use slurm_sys as sys;

use super::load;
use crate::bits::bits;
use crate::error::ClientError;
use crate::ffi;
use crate::list::{items, texts_in};
use crate::text::{number, text, texts};

/// slurmctld's cache of one moment. It follows slurmdbd at once when an admin changes something.
#[derive(Debug, Clone)]
pub struct AssociationsReply {
    pub associations: Vec<Association>,
    pub users: Vec<User>,
    pub qos: Vec<Qos>,
    /// Names of the tracked TRES: `cpu`, `mem`, `gres/gpu`, `gres/gpu:a100`.
    pub tres_names: Vec<String>,
}

/// A node of the tree of accounts: an account if it has no user, else a user in an account (and, it
/// may be, in one partition of the cluster).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Association {
    pub id: u32,
    pub cluster: String,
    pub account: String,
    pub user: Option<String>,
    /// `None` for accounts, and for users whom the controller's host does not know.
    pub uid: Option<u32>,
    pub partition: Option<String>,
    /// The account above. Set for accounts; a user's parent is `account` itself.
    pub parent_account: Option<String>,
    /// Id of the association above; `None` at the root.
    pub parent_id: Option<u32>,
    /// The one that charges a user's jobs without `--account`.
    pub is_default: bool,
    /// Raw fair-share shares; `None`: the parent's.
    pub shares: Option<u32>,
    /// Names of the QOS that may be used, in order of their ids.
    pub qos: Vec<String>,
    /// Of jobs without `--qos`.
    pub default_qos: Option<String>,
}

/// A user of the accounting database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    /// `None` if the controller's host does not know the user.
    pub uid: Option<u32>,
    pub admin_level: AdminLevel,
    pub default_account: Option<String>,
    pub coordinates: Vec<Coordinates>,
}

/// An account that a user coordinates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinates {
    pub account: String,
    /// Named coordinator of this very account, not only of one above.
    pub direct: bool,
}

/// Rights over the whole accounting database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminLevel {
    None,
    Operator,
    Administrator,
}

/// A quality of service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qos {
    pub id: u32,
    pub name: String,
    pub description: Option<String>,
    pub priority: u32,
    /// `QOS_FLAG_*` of slurmdb.h.
    pub flags: u32,
    /// Names of the QOS whose jobs this one's may preempt.
    pub preempts: Vec<String>,
    /// `PREEMPT_MODE_*` of slurm.h; 0: as the cluster's.
    pub preempt_mode: u16,
    /// Run time before a job may be preempted; `None`: as the cluster's.
    pub preempt_exempt_time_s: Option<u32>,
    pub grace_time_s: Option<u32>,
    pub max_jobs_per_user: Option<u32>,
    pub max_submit_jobs_per_user: Option<u32>,
}

/// Reads slurmctld's cache whole. Operators and SlurmUser see everything; others, under
/// `PrivateData`, less.
///
/// # Errors
/// [`ClientError::Slurm`] if slurmctld does not answer; [`ClientError::NotInitialised`].
pub fn associations() -> Result<AssociationsReply, ClientError> {
    let mut request = sys::assoc_mgr_info_request_msg_t {
        flags: sys::ASSOC_MGR_INFO_FLAG_ASSOC | sys::ASSOC_MGR_INFO_FLAG_USERS | sys::ASSOC_MGR_INFO_FLAG_QOS,
        ..Default::default()
    };
    // SAFETY: slurm_load_assoc_mgr_info reads the request and leaves a message for
    // slurm_free_assoc_mgr_info_msg.
    let message = unsafe {
        load("slurm_load_assoc_mgr_info", ffi::slurm_free_assoc_mgr_info_msg, |message| {
            ffi::slurm_load_assoc_mgr_info(&mut request, message)
        })
    }?;
    // SAFETY: the message's lists hold what slurm.h says, and live as long as the message.
    unsafe {
        let qos_records: Vec<&sys::slurmdb_qos_rec_t> = items(message.qos_list).collect();
        let names = QosNames::new(&qos_records);
        Ok(AssociationsReply {
            associations: items(message.assoc_list).map(|record| association(record, &names)).collect(),
            users: items(message.user_list).map(|record| user(record)).collect(),
            qos: qos_records.iter().map(|record| qos(record, &names)).collect(),
            tres_names: texts(message.tres_names, message.tres_cnt),
        })
    }
}

/// Names of the QOS by id, in order of id.
#[derive(Debug)]
struct QosNames(Vec<(u32, String)>);

impl QosNames {
    /// # Safety
    /// The names of all records are NULL or valid.
    unsafe fn new(records: &[&sys::slurmdb_qos_rec_t]) -> Self {
        let mut names: Vec<_> = records
            .iter()
            // SAFETY: the caller vouches for the names.
            .filter_map(|record| Some((record.id, unsafe { text(record.name) }?)))
            .collect();
        names.sort_unstable();
        Self(names)
    }

    fn name(&self, id: u32) -> Option<String> {
        let at = self.0.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.0[at].1.clone())
    }

    /// The names of a list of ids. slurmctld has worked out additions and removals against the
    /// parent, but a `+` can stay in front; a `-` takes the QOS away.
    fn of_list(&self, ids: &[String]) -> Vec<String> {
        let listed =
            |id: u32| ids.iter().any(|listed| listed.strip_prefix('+').unwrap_or(listed).parse() == Ok(id));
        self.0.iter().filter(|(id, _)| listed(*id)).map(|(_, name)| name.clone()).collect()
    }
}

/// # Safety
/// All pointers of `record` are NULL or valid.
unsafe fn association(record: &sys::slurmdb_assoc_rec_t, qos: &QosNames) -> Association {
    // SAFETY: the caller vouches for strings and lists.
    unsafe {
        let user = text(record.user);
        Association {
            id: record.id,
            cluster: text(record.cluster).unwrap_or_default(),
            account: text(record.acct).unwrap_or_default(),
            uid: number(record.uid).filter(|_| user.is_some()),
            user,
            partition: text(record.partition),
            parent_account: text(record.parent_acct),
            parent_id: number(record.parent_id).filter(|&id| id != 0),
            is_default: record.is_def == 1,
            shares: number(record.shares_raw).filter(|&shares| shares != sys::SLURMDB_FS_USE_PARENT),
            qos: qos.of_list(&texts_in(record.qos_list)),
            default_qos: number(record.def_qos_id).and_then(|id| qos.name(id)),
        }
    }
}

/// # Safety
/// All pointers of `record` are NULL or valid.
unsafe fn user(record: &sys::slurmdb_user_rec_t) -> User {
    // SAFETY: the caller vouches for strings and lists.
    unsafe {
        User {
            name: text(record.name).unwrap_or_default(),
            uid: number(record.uid),
            admin_level: AdminLevel::new(record.admin_level),
            default_account: text(record.default_acct),
            coordinates: items(record.coord_accts)
                .map(|coordinator: &sys::slurmdb_coord_rec_t| Coordinates {
                    account: text(coordinator.name).unwrap_or_default(),
                    direct: coordinator.direct != 0,
                })
                .collect(),
        }
    }
}

/// # Safety
/// All pointers of `record` are NULL or valid.
unsafe fn qos(record: &sys::slurmdb_qos_rec_t, names: &QosNames) -> Qos {
    // SAFETY: the caller vouches for strings and bit strings.
    unsafe {
        Qos {
            id: record.id,
            name: text(record.name).unwrap_or_default(),
            description: text(record.description),
            priority: number(record.priority).unwrap_or(0),
            flags: record.flags & sys::QOS_FLAG_BASE,
            preempts: bits(record.preempt_bitstr).into_iter().filter_map(|id| names.name(id)).collect(),
            preempt_mode: if record.preempt_mode == sys::NO_VAL16 { 0 } else { record.preempt_mode },
            preempt_exempt_time_s: number(record.preempt_exempt_time),
            grace_time_s: number(record.grace_time),
            max_jobs_per_user: number(record.max_jobs_pu),
            max_submit_jobs_per_user: number(record.max_submit_jobs_pu),
        }
    }
}

impl AdminLevel {
    fn new(level: u16) -> Self {
        match u32::from(level) {
            sys::SLURMDB_ADMIN_OPERATOR => Self::Operator,
            sys::SLURMDB_ADMIN_SUPER_USER => Self::Administrator,
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::RequestList;

    fn names() -> QosNames {
        QosNames(vec![(1, "normal".into()), (2, "spot".into()), (3, "standard".into())])
    }

    #[test]
    fn association_resolves_qos_ids() {
        let ids = ["1", "+3", "-2", "77"].map(|id| std::ffi::CString::new(id).expect("no NUL"));
        let ids = RequestList::of_texts(ids.to_vec());
        let record = sys::slurmdb_assoc_rec_t {
            id: 7,
            acct: c"vision".as_ptr().cast_mut(),
            user: c"ada".as_ptr().cast_mut(),
            uid: sys::NO_VAL,
            parent_id: 3,
            is_def: 1,
            shares_raw: sys::SLURMDB_FS_USE_PARENT,
            def_qos_id: 3,
            qos_list: ids.as_ptr(),
            ..Default::default()
        };
        // SAFETY: C string literals, a list of C strings, and NULL.
        let association = unsafe { association(&record, &names()) };
        assert_eq!(association.qos, ["normal", "standard"]);
        assert_eq!(association.default_qos.as_deref(), Some("standard"));
        assert_eq!((association.uid, association.shares, association.parent_id), (None, None, Some(3)));
        assert!(association.is_default);
    }

    #[test]
    fn account_has_no_uid() {
        let record = sys::slurmdb_assoc_rec_t {
            acct: c"root".as_ptr().cast_mut(),
            shares_raw: 1,
            ..Default::default()
        };
        // SAFETY: a C string literal and NULL.
        let account = unsafe { association(&record, &names()) };
        assert_eq!(
            (account.user, account.uid, account.parent_id, account.shares),
            (None, None, None, Some(1))
        );
    }

    #[test]
    fn admin_levels_are_ordered() {
        assert_eq!(AdminLevel::new(sys::SLURMDB_ADMIN_NOTSET as u16), AdminLevel::None);
        assert!(AdminLevel::new(sys::SLURMDB_ADMIN_SUPER_USER as u16) > AdminLevel::Operator);
    }
}
