//! Slurm as the plugin sees it: the C shim's functions, made safe to call.

use std::borrow::Cow;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_long, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use crate::timing::Timing;

/// The version this plugin was built for, as SLURM_VERSION_STRING has it.
pub(crate) const SLURM_VERSION: &str = env!("SLURM_VERSION");

/// `struct bid_job` of shim.h.
#[repr(C)]
struct RawJob {
    job_id: u32,
    array_job_id: u32,
    user_id: u32,
    pending: u32,
    submit_time: i64,
    time_limit: u32,
    min_nodes: u32,
    max_nodes: u32,
    min_cpus: u32,
    num_tasks: u32,
    whole_nodes: u32,
    array_tasks: u32,
    array_throttle: u32,
    account: *const c_char,
    partition: *const c_char,
    qos: *const c_char,
    comment: *const c_char,
    admin_comment: *const c_char,
    tres_per_job: *const c_char,
    tres_per_node: *const c_char,
    tres_per_socket: *const c_char,
    tres_per_task: *const c_char,
}
const _: () = assert!(size_of::<RawJob>() == 128);

/// The site factor that one pending job is to have; `struct bid_factor` of shim.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct JobFactor {
    pub(crate) job_id: u32,
    /// As in Slurm's record, NICE_OFFSET included.
    pub(crate) site_factor: u32,
    /// Tells this job from an earlier one of the same id; seconds UTC.
    pub(crate) submit_s: i64,
}
const _: () = assert!(size_of::<JobFactor>() == 16);

unsafe extern "C" {
    safe fn bid_inside_slurmctld() -> c_int;
    safe fn bid_slurm_conf_path() -> *const c_char;
    safe fn bid_site_factor_plugin() -> *const c_char;
    safe fn bid_is_federated() -> c_int;
    safe fn bid_requeues_by_default() -> c_int;
    safe fn bid_slurmctld_shuts_down() -> c_int;
    fn bid_log_info(line: *const c_char);
    fn bid_log_error(line: *const c_char);
    safe fn bid_has_xmalloc() -> c_int;
    fn bid_replace(field: *mut *mut c_char, text: *const c_char);
    fn bid_append(field: *mut *mut c_char, text: *const c_char);
    safe fn bid_is_operator(uid: u32) -> c_int;
    fn bid_read_job(record: *mut c_void, out: *mut RawJob) -> c_int;
    fn bid_set_site_factor(record: *mut c_void, site_factor: u32);
    fn bid_reprice(items: *const JobFactor, count: usize, stop: *const u32, held_ns: *mut u64) -> c_long;
    fn bid_announce_repricing();
}

/// Whether this process is slurmctld.
pub(crate) fn inside_slurmctld() -> bool {
    bid_inside_slurmctld() != 0
}

/// Whether slurmctld was told to end; false in any other process.
pub(crate) fn slurmctld_shuts_down() -> bool {
    bid_slurmctld_shuts_down() != 0
}

/// The slurm.conf that this process read; `None` outside of Slurm's daemons.
pub(crate) fn slurm_conf_path() -> Option<PathBuf> {
    let path = bid_slurm_conf_path();
    if path.is_null() {
        return None;
    }
    // SAFETY: a NUL-terminated text that Slurm owns; it changes only at a reconfiguration, which does not run while
    // a plugin is being initialised.
    let path = unsafe { CStr::from_ptr(path) };
    Some(OsStr::from_bytes(path.to_bytes()).into())
}

/// PrioritySiteFactorPlugin of slurm.conf; `None` where none was read.
pub(crate) fn site_factor_plugin() -> Option<String> {
    // SAFETY: NULL or a text that Slurm owns, as for [`slurm_conf_path`].
    unsafe { text(bid_site_factor_plugin()) }.map(Cow::into_owned)
}

/// One line in slurmctld's log.
/// Whether the cluster is in a federation at the moment.
pub(crate) fn is_federated() -> bool {
    bid_is_federated() != 0
}

/// Slurm's JobRequeue.
pub(crate) fn requeues_by_default() -> bool {
    bid_requeues_by_default() != 0
}

pub(crate) fn log_info(line: &str) {
    let line = c_text(line);
    // SAFETY: the text is NUL-terminated and outlives the call.
    unsafe { bid_log_info(line.as_ptr()) }
}

/// One line in slurmctld's log, marked as an error.
pub(crate) fn log_error(line: &str) {
    let line = c_text(line);
    // SAFETY: the text is NUL-terminated and outlives the call.
    unsafe { bid_log_error(line.as_ptr()) }
}

/// Operator, SlurmUser or root.
pub(crate) fn is_operator(uid: u32) -> bool {
    bid_is_operator(uid) != 0
}

/// Whether texts can be given to Slurm: it frees them itself, so they must come from its own allocator.
pub(crate) fn has_xmalloc() -> bool {
    bid_has_xmalloc() != 0
}

/// Puts `text` in the place of whatever `field` pointed to.
///
/// # Safety
/// `field` is a valid place that holds NULL or a text of Slurm's allocator, and [`has_xmalloc`].
pub(crate) unsafe fn replace(field: *mut *mut c_char, text: &str) {
    let text = c_text(text);
    // SAFETY: as the caller promises; Slurm copies the text.
    unsafe { bid_replace(field, text.as_ptr()) }
}

/// Writes `text` behind whatever `field` points to.
///
/// # Safety
/// As for [`replace`].
pub(crate) unsafe fn append(field: *mut *mut c_char, text: &str) {
    let text = c_text(text);
    // SAFETY: as the caller promises; Slurm copies the text.
    unsafe { bid_append(field, text.as_ptr()) }
}

/// Text for C; a NUL within, which no text of ours has, would end it.
fn c_text(text: &str) -> CString {
    let end = text.bytes().position(|byte| byte == 0).unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// The bytes of a C text; `None` for NULL.
///
/// # Safety
/// NULL, or NUL-terminated and unchanged as long as `'a`.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not NULL, the rest as the caller promises.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// A C text; what is not UTF-8 in it becomes U+FFFD. `None` for NULL.
///
/// # Safety
/// As for [`bytes`].
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<Cow<'a, str>> {
    // SAFETY: as the caller promises.
    unsafe { bytes(text) }.map(String::from_utf8_lossy)
}

/// A job record as Slurm has it now. Its texts belong to the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobRecord<'a> {
    pub(crate) job_id: u32,
    /// The array this record is a task of, or stands for.
    pub(crate) array_job_id: Option<u32>,
    pub(crate) user_id: u32,
    pub(crate) pending: bool,
    pub(crate) submit_s: i64,
    /// Minutes, INFINITE, or NO_VAL for the partition's.
    pub(crate) time_limit: u32,
    pub(crate) min_nodes: u32,
    /// 0: not given.
    pub(crate) max_nodes: u32,
    pub(crate) min_cpus: u32,
    pub(crate) num_tasks: u32,
    /// `--exclusive`, so with all GPUs of its nodes.
    pub(crate) whole_nodes: bool,
    /// Pending tasks of the array that it stands for, else 0.
    pub(crate) array_tasks: u32,
    /// Most tasks at once, 0 for no bound; `None` for what does not stand for an array's pending tasks.
    pub(crate) array_throttle: Option<u32>,
    pub(crate) account: Option<Cow<'a, str>>,
    pub(crate) partition: Option<Cow<'a, str>>,
    pub(crate) qos: Option<Cow<'a, str>>,
    pub(crate) comment: Option<&'a [u8]>,
    pub(crate) admin_comment: Option<Cow<'a, str>>,
    pub(crate) tres_per_job: Option<Cow<'a, str>>,
    pub(crate) tres_per_node: Option<Cow<'a, str>>,
    pub(crate) tres_per_socket: Option<Cow<'a, str>>,
    pub(crate) tres_per_task: Option<Cow<'a, str>>,
}

/// Reads a `job_record_t`; `None` if it is not a whole one.
///
/// # Safety
/// `record` is NULL or points to a job record, and the job lock is held as long as `'a`.
pub(crate) unsafe fn read_job<'a>(record: *mut c_void) -> Option<JobRecord<'a>> {
    let mut raw = std::mem::MaybeUninit::<RawJob>::uninit();
    // SAFETY: a record or NULL, as the caller promises; `raw` has the layout of shim.h.
    if unsafe { bid_read_job(record, raw.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: the shim filled it.
    let raw = unsafe { raw.assume_init() };
    // SAFETY: texts of the record, which the job lock keeps.
    let text = |of| unsafe { text(of) };
    Some(JobRecord {
        job_id: raw.job_id,
        array_job_id: (raw.array_job_id != 0).then_some(raw.array_job_id),
        user_id: raw.user_id,
        pending: raw.pending != 0,
        submit_s: raw.submit_time,
        time_limit: raw.time_limit,
        min_nodes: raw.min_nodes,
        max_nodes: raw.max_nodes,
        min_cpus: raw.min_cpus,
        num_tasks: raw.num_tasks,
        whole_nodes: raw.whole_nodes != 0,
        array_tasks: raw.array_tasks,
        array_throttle: (raw.array_tasks != 0).then_some(raw.array_throttle),
        account: text(raw.account),
        partition: text(raw.partition),
        qos: text(raw.qos),
        // SAFETY: as above.
        comment: unsafe { bytes(raw.comment) },
        admin_comment: text(raw.admin_comment),
        tres_per_job: text(raw.tres_per_job),
        tres_per_node: text(raw.tres_per_node),
        tres_per_socket: text(raw.tres_per_socket),
        tres_per_task: text(raw.tres_per_task),
    })
}

/// Writes the site factor of a job record.
///
/// # Safety
/// [`read_job`] has just read `record`, and the job write lock is held.
pub(crate) unsafe fn set_site_factor(record: *mut c_void, site_factor: u32) {
    // SAFETY: as the caller promises.
    unsafe { bid_set_site_factor(record, site_factor) }
}

/// Gives pending jobs their factors under the job write lock and returns how many changed; 0 outside of slurmctld.
/// Slurm calls `site_factor_p_set` back from within: the caller holds no lock. Ends early when `stop` is not 0. `held`
/// counts how long the lock was held.
pub(crate) fn reprice(piece: &[JobFactor], stop: &AtomicU32, held: &Timing) -> usize {
    if !inside_slurmctld() {
        return 0;
    }
    let mut held_ns = 0;
    // SAFETY: all symbols that repricing needs are there; the slice, the flag and the time outlive the call.
    let changed = unsafe { bid_reprice(piece.as_ptr(), piece.len(), stop.as_ptr(), &raw mut held_ns) };
    held.count(held_ns);
    usize::try_from(changed).unwrap_or(0)
}

/// Makes changed priorities visible to clients and asks for a run of the scheduler, soon.
pub(crate) fn announce_repricing() {
    if inside_slurmctld() {
        // SAFETY: all symbols that repricing needs are there.
        unsafe { bid_announce_repricing() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_process_is_not_slurmctld() {
        assert!(!inside_slurmctld());
        assert!(!slurmctld_shuts_down());
        assert!(!has_xmalloc());
        assert_eq!(slurm_conf_path(), None);
        assert_eq!(site_factor_plugin(), None);
        assert_eq!(reprice(&[], &AtomicU32::new(0), &Timing::new("nothing")), 0);
        announce_repricing();
        assert!(is_operator(0));
        assert!(!is_operator(12_345));
    }

    #[test]
    fn null_and_broken_texts_are_harmless() {
        // SAFETY: NULL is allowed, the other text is NUL-terminated.
        unsafe {
            assert_eq!(text(std::ptr::null()), None);
            assert_eq!(text(c"a\xff".as_ptr()).as_deref(), Some("a\u{fffd}"));
            assert_eq!(read_job(std::ptr::null_mut()), None);
        }
        assert_eq!(c_text("a\0b").as_bytes(), b"a");
    }
}
