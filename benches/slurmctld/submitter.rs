//! One process with four threads that submits batch jobs through libslurm, as sbatch does but without its start.
//!
//! It runs inside the cluster, as root, who may submit for others: the plugin bounds what one user has in flight.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::{Duration, Instant};

use benches::quantile;
use slurm_sys::job_desc_msg_t;

use crate::slurm::{Library, Slurm};

pub(crate) const WORD: &str = "submit";
/// Jobs that are not held, but may not start before tomorrow.
pub(crate) const WAITING: &str = "waiting";
const DAY_S: i64 = 86_400;
const ACCOUNTS: u32 = 20;
const USERS_EACH: u32 = 10;
const FIRST_UID: u32 = 62_000;
const SCRIPT: &CStr = c"#!/bin/sh\n#SBATCH --job-name=train\nexec true\n";

/// Lines for `contrib/cluster --teams`; vis1 is whom the tests' library sends to look at prices.
pub(crate) fn teams() -> String {
    let users = (0..ACCOUNTS * USERS_EACH).map(|user| {
        let uid = FIRST_UID + user;
        format!("{} user{user} {uid}\n", account(user))
    });
    format!("vision vis1 61001\n{}", users.collect::<String>())
}

pub(crate) fn accounts() -> impl Iterator<Item = String> {
    (0..ACCOUNTS).map(account)
}

fn account(user: u32) -> String {
    format!("team{}", user % ACCOUNTS)
}

/// What the submitter writes to its standard output, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) elapsed: Duration,
    pub(crate) p50: Duration,
}

impl Answer {
    pub(crate) fn parse(text: &str) -> Self {
        let mut numbers = text.split_whitespace().map(|word| word.parse().expect("microseconds"));
        let mut next = || Duration::from_micros(numbers.next().expect("two numbers"));
        Self { elapsed: next(), p50: next() }
    }
}

/// Submits so many jobs, held or waiting, and prints an [`Answer`].
pub(crate) fn run(jobs: u32, waiting: bool) {
    let client = Client::start();
    let began = Instant::now();
    let mut times: Vec<u64> = std::thread::scope(|scope| {
        let client = &client;
        let threads = [0, 1, 2, 3].map(|thread| {
            let mine = (thread..jobs).step_by(4);
            scope.spawn(move || mine.map(|job| client.submit(job, waiting)).collect::<Vec<u64>>())
        });
        threads.into_iter().flat_map(|thread| thread.join().expect("every job is accepted")).collect()
    });
    let elapsed = began.elapsed();
    times.sort_unstable();
    println!("{} {}", elapsed.as_micros(), quantile(&times, 0.5));
}

/// libslurm, started.
struct Client {
    slurm: Slurm,
    submit: unsafe extern "C" fn(*mut job_desc_msg_t, *mut *mut c_void) -> c_int,
    free: unsafe extern "C" fn(*mut c_void),
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    errno: unsafe extern "C" fn() -> c_int,
}

impl Client {
    fn start() -> Self {
        let slurm = Slurm::load();
        let path = Slurm::plugin_dir().join("libslurmfull.so");
        let library = Library::open(&path, libc::RTLD_NOW | libc::RTLD_GLOBAL);
        // SAFETY: the types in slurm.h; the answer's is not looked into. NULL: the slurm.conf of the environment.
        unsafe {
            library.function::<unsafe extern "C" fn(*const c_char)>(c"slurm_init")(std::ptr::null());
            Self {
                slurm,
                submit: library.function(c"slurm_submit_batch_job"),
                free: library.function(c"slurm_free_submit_response_response_msg"),
                strerror: library.function(c"slurm_strerror"),
                errno: library.function(c"slurm_get_errno"),
            }
        }
    }

    /// Submits one job and returns how long that took, in microseconds.
    fn submit(&self, number: u32, waiting: bool) -> u64 {
        let user = number % (ACCOUNTS * USERS_EACH);
        let account = CString::new(account(user)).expect("no NUL");
        let mut environment = [c"PATH=/bin:/usr/bin".as_ptr().cast_mut(), c"HOME=/tmp".as_ptr().cast_mut()];
        let mut desc = job_desc_msg_t {
            user_id: FIRST_UID + user,
            group_id: FIRST_UID + user,
            account: account.as_ptr().cast_mut(),
            name: c"train".as_ptr().cast_mut(),
            comment: c"train 7; bid:3.5".as_ptr().cast_mut(),
            partition: c"h100".as_ptr().cast_mut(),
            tres_per_node: c"gres:gpu:h100:8".as_ptr().cast_mut(),
            script: SCRIPT.as_ptr().cast_mut(),
            work_dir: c"/tmp".as_ptr().cast_mut(),
            std_out: c"/dev/null".as_ptr().cast_mut(),
            environment: environment.as_mut_ptr(),
            env_size: 2,
            time_limit: 60,
            min_nodes: 1,
            ..self.slurm.change()
        };
        if waiting {
            desc.begin_time = tomorrow();
        } else {
            // Held.
            desc.priority = 0;
        }
        let mut answer = std::ptr::null_mut();
        let began = Instant::now();
        // SAFETY: a whole descriptor, whose texts outlive the call and are only read.
        let rc = unsafe { (self.submit)(&raw mut desc, &raw mut answer) };
        let took = began.elapsed();
        // SAFETY: the text is constant; the answer is libslurm's, or NULL, which it takes too.
        unsafe {
            assert_eq!(rc, 0, "refused: {:?}", CStr::from_ptr((self.strerror)((self.errno)())));
            (self.free)(answer);
        }
        u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
    }
}

fn tomorrow() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_secs()).expect("in range") + DAY_S
}
