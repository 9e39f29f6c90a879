//! The stream from the daemon: attached, read, and attached again for as long as the role lives.

use std::cell::RefCell;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use hyper_util::rt::TokioIo;
use market_api::v1::plugin_client::PluginClient;
use market_api::v1::{self, hint};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use crate::clock::monotonic_ns;
use crate::host;
use crate::picture::{Picture, Retired};
use crate::reprice;
use crate::role::{Kind, Stop};
use crate::snapshot::Settings;
use crate::staging::Staging;
use crate::timing::Timing;

const BACK_OFF_MIN: Duration = Duration::from_millis(200);
const BACK_OFF_MAX: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Silence of an open stream after which it is given up: the daemon behind it hangs, or is another one by now.
const STREAM_SILENCE_MAX: Duration = Duration::from_secs(20);
/// How often the age of the last message is looked at.
const OUTAGE_TICK: Duration = Duration::from_millis(250);
/// How often the times of callbacks are logged, and how often is looked whether slurmctld ends, which it does without
/// a word to a job_submit plugin.
const TIMES_EVERY: Duration = Duration::from_secs(3_600);
const TIMES_TICK: Duration = Duration::from_millis(250);
/// Hints that may wait for the stream; more are dropped, which costs the daemon at most a poll interval each.
const HINTS_MAX: usize = 1_024;
/// How often hints are fetched. A callback that woke the thread would pay for that with a system call, more than for
/// all else it does.
const HINTS_EVERY: Duration = Duration::from_millis(100);
/// The daemon bounds its messages far below.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Where callbacks leave hints; empty while no stream is attached.
pub(crate) type HintSender = ArcSwapOption<SyncSender<v1::Hint>>;

/// All that the thread of a role works with.
#[derive(Debug)]
pub(crate) struct Feed<'a> {
    pub(crate) kind: Kind,
    pub(crate) picture: &'a Picture,
    pub(crate) hints: &'a HintSender,
    pub(crate) socket: PathBuf,
    /// What market.toml says.
    pub(crate) file: Settings,
    pub(crate) stop: Arc<Stop>,
    pub(crate) timings: &'static [&'static Timing],
}

impl Feed<'_> {
    /// Runs until the role is stopped. Outages are told once each, and once when they end.
    pub(crate) async fn run(&self) {
        let trouble = RefCell::new(String::new());
        tokio::select! {
            () = self.stop.asked() => {}
            () = self.stay_attached(&trouble) => {}
            () = self.tell_outages(&trouble) => {}
            () = self.tell_times() => {}
        }
        self.hints.store(None);
    }

    async fn stay_attached(&self, trouble: &RefCell<String>) {
        let mut back_off = BACK_OFF_MIN;
        let mut retired = Retired::default();
        loop {
            let before_ns = monotonic_ns();
            let outcome = self.attach(&mut retired).await;
            self.hints.store(None);
            if let Err(why) = outcome {
                trouble.replace(why);
            }
            let now_ns = monotonic_ns();
            let attached_for = Duration::from_nanos(now_ns - before_ns);
            if self.picture.silence(now_ns).is_some_and(|silence| silence < attached_for) {
                back_off = BACK_OFF_MIN;
            }
            sleep(back_off).await;
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    }

    /// One stream, from its hello to its end.
    async fn attach(&self, retired: &mut Retired) -> Result<(), String> {
        let channel = timeout(CONNECT_TIMEOUT, connect(&self.socket))
            .await
            .map_err(|_| format!("{} does not answer", self.socket.display()))??;
        let mut client = PluginClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let (sender, receiver) = mpsc::channel(HINTS_MAX);
        sender.try_send(self.hello()).map_err(|error| error.to_string())?;
        let attach = client.attach(ReceiverStream::new(receiver));
        let stream = timeout(CONNECT_TIMEOUT, attach)
            .await
            .map_err(|_| format!("{} does not answer", self.socket.display()))?
            .map_err(|status| status.message().to_owned())?
            .into_inner();
        let (hints, waiting) = sync_channel(HINTS_MAX);
        self.hints.store(Some(Arc::new(hints)));
        tokio::select! {
            outcome = self.listen(stream, retired) => outcome,
            never = forward(waiting, sender) => match never {},
        }
    }

    async fn listen(&self, mut stream: Streaming<v1::Update>, retired: &mut Retired) -> Result<(), String> {
        let mut staging = Staging::new(self.file.clone());
        let mut was_bad = false;
        loop {
            let message = timeout(STREAM_SILENCE_MAX, stream.message())
                .await
                .map_err(|_| "its stream fell silent".to_owned())?
                .map_err(|status| status.message().to_owned())?;
            let Some(update) = message else {
                return Err("it closed the stream".to_owned());
            };
            self.picture.heard(monotonic_ns());
            let (commit, told) = staging.apply(update);
            if let (Err(bad_row), false) = (told, was_bad) {
                was_bad = true;
                host::log_error(&format!("bid: {bad_row}; such rows are left out"));
            }
            if let Some(commit) = commit {
                self.picture.take_up(&commit, monotonic_ns(), retired);
                if self.kind == Kind::Repricer {
                    reprice::round(&commit.changed, &self.stop);
                }
            }
            retired.drop_unused(monotonic_ns());
        }
    }

    fn hello(&self) -> v1::Hint {
        let role = match self.kind {
            Kind::JobSubmit => v1::Role::JobSubmit,
            Kind::Repricer => v1::Role::Repricer,
        };
        v1::Hint {
            hint: Some(hint::Hint::Hello(v1::Hello {
                role: role.into(),
                slurm_version: host::SLURM_VERSION.to_owned(),
                plugin_version: env!("CARGO_PKG_VERSION").to_owned(),
            })),
        }
    }

    async fn tell_outages(&self, trouble: &RefCell<String>) {
        let began_ns = monotonic_ns();
        let mut outage_since_ns = None;
        loop {
            sleep(OUTAGE_TICK).await;
            let now_ns = monotonic_ns();
            let since_start = Duration::from_nanos(now_ns - began_ns);
            let silence =
                self.picture.silence(now_ns).map_or(since_start, |silence| silence.min(since_start));
            let is_out = silence > self.picture.snapshot().settings.stale_after;
            match (outage_since_ns, is_out) {
                (None, true) => {
                    outage_since_ns =
                        Some(now_ns.saturating_sub(u64::try_from(silence.as_nanos()).unwrap_or(0)));
                    host::log_error(&self.outage_line(silence, &trouble.borrow()));
                }
                (Some(since_ns), false) => {
                    let lasted = Duration::from_nanos(now_ns - since_ns).as_secs();
                    outage_since_ns = None;
                    host::log_info(&format!("bid: the market service is back after {lasted} s"));
                }
                _ => {}
            }
        }
    }

    async fn tell_times(&self) {
        let mut told = Instant::now();
        loop {
            sleep(TIMES_TICK).await;
            if told.elapsed() >= TIMES_EVERY || host::slurmctld_shuts_down() {
                self.timings.iter().for_each(|timing| timing.tell());
                told = Instant::now();
            }
        }
    }

    fn outage_line(&self, silence: Duration, trouble: &str) -> String {
        let why = if trouble.is_empty() { String::new() } else { format!(" ({trouble})") };
        let so = match self.kind {
            Kind::JobSubmit => "when_unavailable of market.toml holds for new bids",
            Kind::Repricer => "priorities stay as they are",
        };
        format!(
            "bid: no word from the market service for {} s{why}; {so} until it is back",
            silence.as_secs()
        )
    }
}

/// Hands hints on. If the other side takes no more of them, they are nobody's; what it says still counts.
async fn forward(waiting: Receiver<v1::Hint>, stream: mpsc::Sender<v1::Hint>) -> Infallible {
    loop {
        sleep(HINTS_EVERY).await;
        while let Ok(hint) = waiting.try_recv() {
            let _ = stream.send(hint).await;
        }
    }
}

async fn connect(socket: &Path) -> Result<Channel, String> {
    let path = socket.to_path_buf();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    // The URI is only a form: the connector goes to the socket.
    Endpoint::from_static("http://quotamarket")
        .connect_with_connector(connector)
        .await
        .map_err(|error| format!("{}: {}", socket.display(), root_cause(&error)))
}

/// tonic wraps what the system says in general words.
fn root_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => root_cause(source),
        None => error.to_string(),
    }
}
