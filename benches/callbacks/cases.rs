//! The calls that are measured. Making a job and looking at the answer is outside of the time taken.

use std::ffi::{CString, c_char, c_void};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::host::{Host, JobSubmit, SiteFactorSet};
use crate::market::{FIRST_UID, PARTITIONS, PENDING_JOBS, USERS, account, partition};
use crate::slurm::{Job, Slurm};

/// Variables of a user's shell with some modules loaded, which sbatch sends along.
const VARIABLES: usize = 80;

/// One kind of call; each time it is run with the next of many jobs.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    call: Box<dyn FnMut() -> Duration + Send>,
}

impl Case {
    /// Makes one call and says how long it took.
    pub(crate) fn run(&mut self) -> Duration {
        (self.call)()
    }

    /// The same as slurmctld makes it: each request has a thread of its own, and much else was in the caches before.
    pub(crate) fn run_cold(&mut self) -> Duration {
        let cold = || {
            std::hint::black_box(
                CACHE_FILL.iter().step_by(64).map(|byte| byte.load(Ordering::Relaxed)).max(),
            );
            self.run()
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(SLURM_STACK_BYTES).spawn_scoped(scope, cold);
            thread.expect("a thread").join().expect("no panic")
        })
    }
}

/// More than a core's own caches hold.
static CACHE_FILL: [AtomicU8; 4 << 20] = [const { AtomicU8::new(0) }; 4 << 20];
/// Of slurmctld's threads.
const SLURM_STACK_BYTES: usize = 1 << 20;

pub(crate) const BID: &str = "job_submit/bid: bid on 8 GPUs";
pub(crate) const EMPTY_LUA: &str = "job_submit/lua: empty function";

pub(crate) fn cases(host: &Host) -> Vec<Case> {
    let environment = environment();
    let submissions = |name, job_submit, gres, comment, expected| {
        let jobs = jobs(host.slurm, gres, comment, environment);
        let mut submissions = Submissions { slurm: host.slurm, job_submit, jobs, next: 0, expected };
        Case { name, call: Box::new(move || submissions.submit_next()) }
    };
    let (bid, lua) = (host.job_submit_bid, host.job_submit_lua);
    let gpus = "gres:gpu:h100:8";
    let mut factors = Factors {
        set: host.site_factor_set,
        records: (1..=PENDING_JOBS).map(|job_id| host.pending_job(job_id, "bid:3.5")).collect(),
        next: 0,
    };
    vec![
        submissions(BID, bid, gpus, "train 7; bid:3.5", Expected::Standard),
        submissions("job_submit/bid: bid refused", bid, gpus, "train 7; bid:0.2", Expected::Refused),
        submissions("job_submit/bid: GPUs, no bid", bid, gpus, "train 7", Expected::Untouched),
        submissions("job_submit/bid: no GPU, no bid", bid, "", "analysis 7", Expected::Untouched),
        submissions(EMPTY_LUA, lua, gpus, "train 7; bid:3.5", Expected::Untouched),
        Case { name: "site_factor/bid: site_factor_p_set", call: Box::new(move || factors.set_next()) },
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Standard,
    Refused,
    Untouched,
}

// SAFETY: whose pointers these are, nobody else uses; threads take turns.
unsafe impl Send for Submissions {}

struct Submissions {
    slurm: Slurm,
    job_submit: JobSubmit,
    jobs: Vec<Job>,
    next: usize,
    expected: Expected,
}

impl Submissions {
    fn submit_next(&mut self) -> Duration {
        loop {
            self.next = (self.next + 1) % self.jobs.len();
            let (took, answer) = submit(self.slurm, self.job_submit, &mut self.jobs[self.next]);
            match answer {
                Ok(answer) if answer == self.expected => return took,
                // The snapshots come too slowly for us: this one does not count.
                Err(sentence) if sentence.contains("in flight") => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(_) if self.expected == Expected::Refused => return took,
                other => panic!("{:?} was expected, but it was {other:?}", self.expected),
            }
        }
    }
}

/// Submits a job and leaves it as it was before.
fn submit(slurm: Slurm, job_submit: JobSubmit, job: &mut Job) -> (Duration, Result<Expected, String>) {
    let mut err_msg: *mut c_char = std::ptr::null_mut();
    let uid = job.desc.user_id;
    job.desc.site_factor = slurm_sys::NO_VAL;
    let began = Instant::now();
    // SAFETY: a whole descriptor with texts of Slurm's allocator, and a place for a message.
    let rc = unsafe { job_submit(&raw mut job.desc, uid, &raw mut err_msg) };
    let took = began.elapsed();
    let [qos, stamp, sentence] =
        [&mut job.desc.qos, &mut job.desc.admin_comment, &mut err_msg].map(|text| slurm.take(text));
    let answer = match (rc, qos.as_deref(), stamp) {
        (0, Some("standard"), Some(_)) => Ok(Expected::Standard),
        (0, None, None) => Ok(Expected::Untouched),
        _ => Err(sentence.unwrap_or_default()),
    };
    (took, answer)
}

/// One job of each user.
fn jobs(slurm: Slurm, gres: &str, comment: &str, environment: &'static [*mut c_char]) -> Vec<Job> {
    let job = |number: u32| {
        let mut job = slurm.job(gres, comment).account(&account(number)).name("train-resnet");
        job.desc.user_id = FIRST_UID + number;
        job.desc.time_limit = 240;
        // Every other job names its partition; all have the GPU that is asked for.
        if number % 2 == 1 {
            job.desc.partition = leaked(&partition(4 * number % PARTITIONS + 3));
        }
        if gres.is_empty() {
            job.desc.tres_per_node = std::ptr::null_mut();
        }
        job.desc.environment = environment.as_ptr().cast_mut();
        job.desc.env_size = u32::try_from(environment.len()).expect("few variables");
        job
    };
    (0..USERS).map(job).collect()
}

/// As long as usual: a path or two among short ones.
fn environment() -> &'static [*mut c_char] {
    let variable = |number: usize| match number % 8 {
        0 => format!("LMOD_PATH_{number}={}", "/opt/software/modules/all/lib64:".repeat(20)),
        _ => format!("VARIABLE_{number}=a value of usual length"),
    };
    (0..VARIABLES).map(|number| leaked(&variable(number))).collect::<Vec<_>>().leak()
}

/// The plugins only read it; it lives as long as the process.
fn leaked(text: &str) -> *mut c_char {
    CString::new(text).expect("no NUL").into_raw()
}

// SAFETY: as above.
unsafe impl Send for Factors {}

struct Factors {
    set: SiteFactorSet,
    records: Vec<*mut c_void>,
    next: usize,
}

impl Factors {
    fn set_next(&mut self) -> Duration {
        self.next = (self.next + 1) % self.records.len();
        let record = self.records[self.next];
        let began = Instant::now();
        // SAFETY: a record of Slurm's layout; nobody else has it.
        unsafe { (self.set)(record) };
        began.elapsed()
    }
}
