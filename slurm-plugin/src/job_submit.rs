//! The job_submit role: from Slurm's job descriptors to decisions and back. Called under Slurm's locks, so nothing
//! here waits, and with no lock of Slurm taken.

use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use market::stamp::{CheckpointSignal, Stamp};
use market_api::v1::{self, hint};
use slurm_sys::{CRON_JOB, INFINITE, KILL_JOB_BATCH, NO_VAL, NO_VAL16, SLURM_SUCCESS, job_desc_msg_t};
use uuid::Uuid;

use crate::change::{self, Change};
use crate::clock::monotonic_ns;
use crate::funds;
use crate::guard::{guarded, guarded_and_timed};
use crate::host;
use crate::picture::Picture;
use crate::reprice::site_factor;
use crate::role::{Kind, Role};
use crate::submit::{Accepted, Ask, Component, Decision, Refusal, Submission, Walltime, decide};
use crate::timing::Timing;

static ROLE: Role = Role::new(Kind::JobSubmit).telling(&[&SUBMIT_TIMES, &MODIFY_TIMES]);
static SUBMIT_TIMES: Timing = Timing::new("job_submit");
static MODIFY_TIMES: Timing = Timing::new("job_modify");

/// `sbatch` sends the environment along; salloc and srun do not.
const BID_VARIABLE: &[u8] = b"SBATCH_BID=";

/// Slurm's `init`.
pub fn init() -> c_int {
    guarded(SLURM_SUCCESS, || {
        ROLE.init();
        SLURM_SUCCESS
    })
}

/// Slurm's `fini`.
pub fn fini() {
    guarded((), || ROLE.fini());
}

/// Slurm's `job_submit`.
///
/// # Safety
/// As Slurm calls it: `job_desc` is NULL or a job descriptor nobody else uses, `err_msg` is NULL or holds NULL or a
/// text of Slurm's allocator.
pub unsafe fn job_submit(job_desc: *mut job_desc_msg_t, err_msg: *mut *mut c_char) -> c_int {
    guarded_and_timed(&SUBMIT_TIMES, SLURM_SUCCESS, || {
        // SAFETY: not NULL, the rest as the caller promises.
        let Some(job_desc) = (unsafe { job_desc.as_mut() }) else { return SLURM_SUCCESS };
        let Some(picture) = ROLE.picture() else { return SLURM_SUCCESS };
        if is_federated() {
            return SLURM_SUCCESS;
        }
        #[cfg(feature = "force-panic")]
        {
            // SAFETY: a text of the descriptor.
            let name = unsafe { host::bytes(job_desc.name) };
            assert_ne!(name, Some(&b"force-panic"[..]), "asked for by the job's name");
        }
        // SAFETY: the descriptor is whole and not changed until the decision is made.
        match unsafe { decide_on(picture, job_desc) } {
            Outcome::Untouched => SLURM_SUCCESS,
            Outcome::WithoutBid(sentence) => {
                // SAFETY: as the caller promises.
                unsafe { tell(err_msg, sentence) };
                SLURM_SUCCESS
            }
            Outcome::Refused(refusal) => {
                // SAFETY: as the caller promises.
                unsafe { tell(err_msg, &refusal.sentence) };
                error_code(refusal.code)
            }
            Outcome::Accepted(accepted, uuid) => {
                // SAFETY: as above; the decision borrows nothing from the descriptor.
                unsafe { apply(job_desc, &accepted, uuid) };
                if let Some(notice) = accepted.notice {
                    // SAFETY: as the caller promises.
                    unsafe { tell(err_msg, notice) };
                }
                let submitted = v1::Submitted { uuid: uuid.to_string() };
                ROLE.hint(v1::Hint { hint: Some(hint::Hint::Submitted(submitted)) });
                SLURM_SUCCESS
            }
        }
    })
}

/// In a federation each cluster holds a sibling of a job, which is submitted anew by root (fed_mgr.c:
/// `_submit_sibling_jobs`): nobody could say which of them pays. Jobs are left without a bid then, and the log says so
/// once for each federation.
fn is_federated() -> bool {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let is_federated = host::is_federated();
    if TOLD.swap(is_federated, Ordering::Relaxed) != is_federated && is_federated {
        host::log_info(
            "bid: this cluster is in a federation, where bids are not supported: jobs are accepted without them",
        );
    }
    is_federated
}

/// Slurm's `job_modify`; where there is an `err_msg`, the user reads the sentence, else only the log does.
///
/// # Safety
/// As Slurm calls it: under the job write lock, `job_desc` and `job_ptr` NULL or whole, `err_msg` as for
/// [`job_submit`].
pub unsafe fn job_modify(
    job_desc: *const job_desc_msg_t,
    job_ptr: *mut c_void,
    submit_uid: u32,
    err_msg: *mut *mut c_char,
) -> c_int {
    guarded_and_timed(&MODIFY_TIMES, SLURM_SUCCESS, || {
        // SAFETY: not NULL, the rest as the caller promises.
        let Some(job_desc) = (unsafe { job_desc.as_ref() }) else { return SLURM_SUCCESS };
        let Some(picture) = ROLE.picture() else { return SLURM_SUCCESS };
        // SAFETY: as the caller promises.
        let Some(job) = (unsafe { host::read_job(job_ptr) }) else { return SLURM_SUCCESS };
        // SAFETY: the descriptor is whole and nobody changes it meanwhile.
        let change = unsafe { change_of(job_desc, submit_uid) };
        match judge_and_count(picture, &job, &change) {
            Ok(()) => SLURM_SUCCESS,
            Err(refusal) => {
                host::log_info(&format!("{} (uid {submit_uid})", refusal.sentence));
                let refused = v1::ChangeRefused {
                    job_id: job.job_id,
                    submit_s: job.submit_s,
                    sentence: refusal.sentence.clone(),
                };
                ROLE.hint(v1::Hint { hint: Some(hint::Hint::ChangeRefused(refused)) });
                // SAFETY: as the caller promises.
                unsafe { tell(err_msg, &refusal.sentence) };
                error_code(refusal.code)
            }
        }
    })
}

/// Judges a change, and counts what it needs until the daemon has read slurmctld well after it. If Slurm refuses it in
/// the end, that much is held back for half a minute.
fn judge_and_count(picture: &Picture, job: &host::JobRecord<'_>, change: &Change<'_>) -> Result<(), Refusal> {
    let now_ns = monotonic_ns();
    let snapshot = picture.snapshot();
    let Some(increase) = change::judge(&snapshot, job, change, picture.is_available(now_ns))? else {
        return Ok(());
    };
    let ask = funds::Ask {
        uuid: Uuid::new_v4(),
        uid: job.user_id,
        account: &increase.account,
        amount: increase.amount,
        at_ns: now_ns,
    };
    picture.funds.check_and_add(&ask).map_err(|refusal| match refusal {
        funds::Refusal::Short { free } => change::short(&snapshot, job, change, &increase, free),
        funds::Refusal::TooManyInFlight => Refusal::in_flight(),
    })
}

enum Outcome {
    Untouched,
    WithoutBid(&'static str),
    Refused(Refusal),
    Accepted(Accepted, Uuid),
}

/// Decides, and counts what must be covered by funds.
///
/// # Safety
/// The descriptor's texts are valid and unchanged for the call.
unsafe fn decide_on(picture: &Picture, job_desc: &job_desc_msg_t) -> Outcome {
    let now_ns = monotonic_ns();
    // SAFETY: as the caller promises.
    let texts = unsafe { Texts::of(job_desc) };
    let submission = texts.submission(job_desc);
    let decision = decide(&picture.snapshot(), &submission, picture.is_available(now_ns));
    if let Some(component) = submission.component {
        component.remember(&submission, &decision);
    }
    let accepted = match decision {
        Decision::Untouched => return Outcome::Untouched,
        Decision::WithoutBid(sentence) => return Outcome::WithoutBid(sentence),
        Decision::Refuse(refusal) => return Outcome::Refused(refusal),
        // Without Slurm's allocator nothing can be handed back: then this is not slurmctld either.
        Decision::Accept(_) if !host::has_xmalloc() => return Outcome::Untouched,
        Decision::Accept(accepted) => accepted,
    };
    let uuid = Uuid::new_v4();
    if let Some(worst_case) = &accepted.worst_case {
        let ask = funds::Ask {
            uuid,
            uid: submission.uid,
            account: &worst_case.account,
            amount: worst_case.amount,
            at_ns: now_ns,
        };
        match picture.funds.check_and_add(&ask) {
            Ok(()) => {}
            Err(funds::Refusal::Short { free }) => return Outcome::Refused(Refusal::short(worst_case, free)),
            Err(funds::Refusal::TooManyInFlight) => return Outcome::Refused(Refusal::in_flight()),
        }
    }
    Outcome::Accepted(accepted, uuid)
}

/// Writes an accepted bid into the descriptor.
///
/// # Safety
/// The descriptor's texts are of Slurm's allocator, which [`host::has_xmalloc`] has found.
unsafe fn apply(job_desc: &mut job_desc_msg_t, accepted: &Accepted, uuid: Uuid) {
    let Accepted { limit, tier, unavailable, qos, factor, .. } = accepted;
    let stamp = Stamp {
        uuid: uuid.to_string(),
        limit: *limit,
        tier: *tier,
        signal: signal(job_desc),
        unavailable: *unavailable,
    };
    // SAFETY: a text of the descriptor.
    let has_text = unsafe { host::bytes(job_desc.admin_comment) }.is_some_and(|text| !text.is_empty());
    let separator = if has_text { "; " } else { "" };
    // SAFETY: as the caller promises.
    unsafe {
        host::replace(&raw mut job_desc.qos, qos);
        host::append(&raw mut job_desc.admin_comment, &format!("{separator}{stamp}"));
    }
    job_desc.site_factor = site_factor(*factor);
}

/// `--signal`, as the user gave it.
fn signal(job_desc: &job_desc_msg_t) -> Option<CheckpointSignal> {
    let given = |value: u16| (value != 0 && value != NO_VAL16).then_some(value);
    Some(CheckpointSignal {
        number: given(job_desc.warn_signal)?,
        batch_only: u32::from(job_desc.warn_flags) & KILL_JOB_BATCH != 0,
        lead_s: given(job_desc.warn_time).unwrap_or(0),
    })
}

/// Adds a line to what the user will read.
///
/// # Safety
/// `err_msg` is NULL or holds NULL or a text of Slurm's allocator.
unsafe fn tell(err_msg: *mut *mut c_char, sentence: &str) {
    if err_msg.is_null() || !host::has_xmalloc() {
        return;
    }
    // SAFETY: as the caller promises.
    let others = unsafe { host::bytes(*err_msg) };
    let new_line =
        if others.is_some_and(|text| !text.is_empty() && !text.ends_with(b"\n")) { "\n" } else { "" };
    // SAFETY: as the caller promises.
    unsafe { host::append(err_msg, &format!("{new_line}{sentence}")) };
}

fn error_code(code: u32) -> c_int {
    c_int::try_from(code).unwrap_or(slurm_sys::SLURM_ERROR)
}

/// The texts of a descriptor that the market reads.
struct Texts<'a> {
    comment: Option<&'a [u8]>,
    bid_variable: Option<Cow<'a, str>>,
    account: Option<Cow<'a, str>>,
    partition: Option<Cow<'a, str>>,
    qos: Option<Cow<'a, str>>,
    array: Option<Cow<'a, str>>,
    req_nodes: Option<Cow<'a, str>>,
    tres_per_job: Option<Cow<'a, str>>,
    tres_per_node: Option<Cow<'a, str>>,
    tres_per_socket: Option<Cow<'a, str>>,
    tres_per_task: Option<Cow<'a, str>>,
}

impl<'a> Texts<'a> {
    /// # Safety
    /// The descriptor's texts are valid and unchanged as long as `'a`.
    unsafe fn of(job_desc: &'a job_desc_msg_t) -> Self {
        // SAFETY: as the caller promises.
        let text = |of| unsafe { host::text(of) };
        Self {
            // SAFETY: as the caller promises.
            comment: unsafe { host::bytes(job_desc.comment) },
            // SAFETY: as the caller promises.
            bid_variable: unsafe { bid_variable(job_desc) },
            account: text(job_desc.account),
            partition: text(job_desc.partition),
            qos: text(job_desc.qos),
            array: text(job_desc.array_inx),
            req_nodes: text(job_desc.req_nodes),
            tres_per_job: text(job_desc.tres_per_job),
            tres_per_node: text(job_desc.tres_per_node),
            tres_per_socket: text(job_desc.tres_per_socket),
            tres_per_task: text(job_desc.tres_per_task),
        }
    }

    fn submission(&'a self, job_desc: &job_desc_msg_t) -> Submission<'a> {
        let is_scrontab = job_desc.bitflags & u64::from(CRON_JOB) != 0;
        let may_requeue =
            given16(job_desc.requeue).map_or_else(host::requeues_by_default, |given| given != 0);
        Submission {
            uid: job_desc.user_id,
            comment: self.comment,
            bid_variable: self.bid_variable.clone(),
            account: self.account.clone(),
            partition: self.partition.clone(),
            qos: self.qos.clone(),
            array: self.array.clone(),
            walltime: match job_desc.time_limit {
                NO_VAL => Walltime::OfPartition,
                // sbatch turns -t 0 into INFINITE; other clients may not.
                0 | INFINITE => Walltime::Unlimited,
                minutes => Walltime::Minutes(minutes),
            },
            // slurmctld leaves the offset of scrontab jobs at 0.
            component: given(job_desc.het_job_offset)
                .filter(|_| !is_scrontab)
                .map(|offset| Component::at(offset, job_desc.user_id)),
            is_scrontab,
            can_be_requeued: !job_desc.script.is_null() && may_requeue,
            is_interactive: job_desc.script.is_null(),
            req_nodes: self.req_nodes.clone(),
            min_cpus: given(job_desc.min_cpus),
            cpus_per_task: given16(job_desc.cpus_per_task),
            ask: Ask {
                tres_per_job: self.tres_per_job.as_deref(),
                tres_per_node: self.tres_per_node.as_deref(),
                tres_per_socket: self.tres_per_socket.as_deref(),
                tres_per_task: self.tres_per_task.as_deref(),
                min_nodes: given(job_desc.min_nodes),
                max_nodes: given(job_desc.max_nodes),
                num_tasks: given(job_desc.num_tasks),
                ntasks_per_node: given16(job_desc.ntasks_per_node),
                ntasks_per_tres: given16(job_desc.ntasks_per_tres),
                sockets_per_node: given16(job_desc.sockets_per_node),
                // Core specialisation takes whole nodes as well.
                exclusive: job_desc.shared == 0 || job_desc.core_spec != NO_VAL16,
                ..Ask::default()
            },
        }
    }
}

/// # Safety
/// The environment is NULL or has `env_size` entries, each NULL or a text, unchanged as long as `'a`.
unsafe fn bid_variable<'a>(job_desc: &'a job_desc_msg_t) -> Option<Cow<'a, str>> {
    if job_desc.environment.is_null() {
        return None;
    }
    let count = usize::try_from(job_desc.env_size).unwrap_or(0);
    // SAFETY: as the caller promises.
    let entries = unsafe { std::slice::from_raw_parts(job_desc.environment, count) };
    // SAFETY: as the caller promises.
    let values =
        entries.iter().filter_map(|entry| unsafe { host::bytes(*entry) }?.strip_prefix(BID_VARIABLE));
    values.map(String::from_utf8_lossy).find(|value| !value.trim().is_empty())
}

/// # Safety
/// The descriptor's texts are valid and unchanged as long as `'a`.
unsafe fn change_of<'a>(job_desc: &'a job_desc_msg_t, uid: u32) -> Change<'a> {
    // SAFETY: as the caller promises.
    let texts = unsafe { Texts::of(job_desc) };
    Change {
        by_operator: host::is_operator(uid),
        by_uid: uid,
        comment: texts.comment,
        // SAFETY: as the caller promises.
        admin_comment: unsafe { host::text(job_desc.admin_comment) },
        account: texts.account,
        partition: texts.partition,
        qos: texts.qos,
        time_limit: given(job_desc.time_limit),
        min_nodes: given(job_desc.min_nodes),
        max_nodes: given(job_desc.max_nodes),
        req_nodes: texts.req_nodes,
        min_cpus: given(job_desc.min_cpus),
        num_tasks: given(job_desc.num_tasks),
        array_throttle: texts.array.and_then(|throttle| throttle.trim().parse().ok()),
        tres_per_job: texts.tres_per_job,
        tres_per_node: texts.tres_per_node,
        tres_per_socket: texts.tres_per_socket,
        tres_per_task: texts.tres_per_task,
    }
}

fn given(value: u32) -> Option<u32> {
    (value != NO_VAL).then_some(value)
}

fn given16(value: u16) -> Option<u32> {
    (value != NO_VAL16).then_some(value.into())
}
