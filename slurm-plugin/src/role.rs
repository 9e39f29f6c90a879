//! The life of a plugin's role inside slurmctld: started by `init`, ended by `fini`, any number of times.
//!
//! `init` never waits for the daemon. `fini` waits a moment for the thread and no longer: Slurm may hold locks that
//! the thread is waiting for. The shared object is never unmapped (`-z nodelete`), so a late thread does no harm.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use market_api::config::{self, Config};
use tokio::sync::Notify;

use crate::feed::{Feed, HintSender};
use crate::guard::{guarded, log_panics};
use crate::host;
use crate::picture::Picture;
use crate::snapshot::{Settings, Snapshot};
use crate::timing::Timing;

/// How long `fini` waits for the thread.
const FINI_WAIT: Duration = Duration::from_millis(200);
/// Pause before a thread that panicked goes on.
const PANIC_PAUSE: Duration = Duration::from_secs(2);

/// What a plugin is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Checks submissions and changes of jobs.
    JobSubmit,
    /// Keeps the site factors of pending jobs.
    Repricer,
}

/// Asks a thread to end. Every start of a role has its own, so that a late thread stays stopped.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    flag: AtomicU32,
    notify: Notify,
}

impl Stop {
    fn set(&self) {
        self.flag.store(1, Ordering::Release);
        self.notify.notify_one();
    }

    pub(crate) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Acquire) != 0
    }

    /// For the C shim, which looks at it under Slurm's lock.
    pub(crate) fn flag(&self) -> &AtomicU32 {
        &self.flag
    }

    /// Comes back once the role is stopped.
    pub(crate) async fn asked(&self) {
        while !self.is_set() {
            self.notify.notified().await;
        }
    }
}

/// The thread of a role that is active.
#[derive(Debug)]
struct Running {
    stop: Arc<Stop>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

/// One role; each shared object has one, as a static.
#[derive(Debug)]
pub(crate) struct Role {
    kind: Kind,
    picture: OnceLock<Picture>,
    hints: HintSender,
    is_active: AtomicBool,
    running: Mutex<Option<Running>>,
    timings: &'static [&'static Timing],
}

impl Role {
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            picture: OnceLock::new(),
            hints: ArcSwapOption::const_empty(),
            is_active: AtomicBool::new(false),
            running: Mutex::new(None),
            timings: &[],
        }
    }

    /// Tells how long callbacks take.
    pub(crate) const fn telling(mut self, timings: &'static [&'static Timing]) -> Self {
        self.timings = timings;
        self
    }

    /// Slurm's `init`: reads market.toml and starts the thread.
    pub(crate) fn init(&'static self) {
        log_panics();
        self.fini();
        let config = read_config();
        let file = Snapshot::of_file(&config);
        let picture = self.picture.get_or_init(|| Picture::new(file.clone()));
        picture.read_file_again(file.clone());
        let stop = Arc::new(Stop::default());
        let feed = Feed {
            kind: self.kind,
            picture,
            hints: &self.hints,
            socket: config.plugin_socket(),
            file: Settings::clone(&file.settings),
            stop: Arc::clone(&stop),
            timings: self.timings,
        };
        // Outside of slurmctld there are no jobs to reprice. Submissions may be checked anywhere.
        if self.kind == Kind::JobSubmit || host::inside_slurmctld() {
            *self.running.lock().unwrap_or_else(PoisonError::into_inner) = start(feed, stop);
        }
        self.is_active.store(true, Ordering::Release);
    }

    /// Slurm's `fini`: from here on callbacks do nothing.
    pub(crate) fn fini(&self) {
        self.is_active.store(false, Ordering::Release);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.stop.set();
            // Nothing is ever sent: this ends when the thread does, or when the time is up.
            let _ = running.ended.recv_timeout(FINI_WAIT);
        }
        self.timings.iter().for_each(|timing| timing.tell());
    }

    /// What callbacks read; `None` before `init` and after `fini`.
    pub(crate) fn picture(&self) -> Option<&Picture> {
        if self.is_active.load(Ordering::Acquire) { self.picture.get() } else { None }
    }

    /// Tells the daemon, if it listens and there is room.
    pub(crate) fn hint(&self, hint: market_api::v1::Hint) {
        if let Some(sender) = &*self.hints.load() {
            let _ = sender.try_send(hint);
        }
    }
}

fn read_config() -> Config {
    let path = config::path(host::slurm_conf_path().as_deref());
    Config::load(&path).unwrap_or_else(|error| {
        host::log_error(&format!("bid: {error}; going on with the defaults"));
        Config::default()
    })
}

fn start(feed: Feed<'static>, stop: Arc<Stop>) -> Option<Running> {
    let name = match feed.kind {
        Kind::JobSubmit => "bid-submit",
        Kind::Repricer => "bid-reprice",
    };
    let (ending, ended) = channel();
    let body = move || {
        run(&feed);
        drop(ending);
    };
    let started = with_signals_blocked(|| std::thread::Builder::new().name(name.to_owned()).spawn(body));
    match started {
        Ok(_detached) => Some(Running { stop, ended }),
        Err(error) => {
            host::log_error(&format!(
                "bid: cannot start a thread: {error}; the market service stays out of reach"
            ));
            None
        }
    }
}

fn run(feed: &Feed<'_>) {
    while !feed.stop.is_set() {
        guarded((), || {
            match tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build() {
                Ok(runtime) => runtime.block_on(feed.run()),
                Err(error) => host::log_error(&format!("bid: cannot watch the market service: {error}")),
            }
        });
        if !feed.stop.is_set() {
            std::thread::sleep(PANIC_PAUSE);
        }
    }
}

/// A thread inherits the mask: signals are for slurmctld's own threads.
fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut former = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid places; `all` is filled before it is used.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), former.as_mut_ptr());
    }
    let spawned = spawn();
    // SAFETY: the call above filled `former`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, former.as_ptr(), std::ptr::null_mut()) };
    spawned
}
