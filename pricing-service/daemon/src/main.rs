//! quotamarketd, the daemon beside slurmctld: it keeps the ledger, clears the market and tells slurmctld's plugins.

mod accounting;
mod charge;
mod clock;
mod controller;
mod doctor;
mod engine;
mod eviction;
mod facts;
mod grpc;
mod model;
mod patience;
mod publication;
mod query;
mod store;
mod translate;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, mpsc};

use clap::Parser;
use market_api::config::{self, Config, ConfigError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::accounting::WorkBoard;
use crate::doctor::{Attached, Probes};
use crate::engine::{Engine, EngineError, Event};
use crate::grpc::{MarketService, PluginService, ServeError};
use crate::publication::Publication;
use crate::store::{Store, StoreError};

/// Exit status for a configuration that cannot be used, as in sysexits.h.
const EXIT_CONFIG: u8 = 78;
const LOCK_FILE: &str = "quotamarketd.lock";

/// The market's daemon; runs on the controller host as SlurmUser.
#[derive(Debug, Parser)]
#[command(version, disable_version_flag = false)]
struct Options {
    /// market.toml; else $QUOTAMARKET_CONFIG, else beside slurm.conf
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// slurm.conf; else $SLURM_CONF, else Slurm's default
    #[arg(long, value_name = "FILE")]
    slurm_conf: Option<PathBuf>,
    /// Check the configuration and end
    #[arg(long)]
    check: bool,
}

#[derive(Debug, thiserror::Error)]
enum DaemonError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Slurm(#[from] slurm_client::ClientError),
    #[error("{what} {}: {source}{}", path.display(), remedy(source))]
    File { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("another quotamarketd uses {}; stop it first", .0.display())]
    AlreadyRuns(PathBuf),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("cannot start a thread or runtime: {0}")]
    Start(std::io::Error),
    #[error("the ledger's thread ended unexpectedly")]
    EngineEnded,
}

/// What helps where the system says only what is forbidden.
pub(crate) fn remedy(error: &std::io::Error) -> String {
    if error.kind() != std::io::ErrorKind::PermissionDenied {
        return String::new();
    }
    // SAFETY: geteuid takes nothing and cannot fail.
    let uid = unsafe { libc::geteuid() };
    format!("; it must belong to uid {uid}, as whom quotamarketd runs: SlurmUser")
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("QUOTAMARKET_LOG").unwrap_or_else(|_| "info".into()),
        )
        .init();
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            match error {
                DaemonError::Config(_) => ExitCode::from(EXIT_CONFIG),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(options: &Options) -> Result<(), DaemonError> {
    let path = options.config.clone().unwrap_or_else(|| config::path(options.slurm_conf.as_deref()));
    let config = Config::load(&path)?;
    if options.check {
        println!("{} is good", path.display());
        return Ok(());
    }
    // While there is one thread only: libslurm writes to the environment.
    slurm_client::init(options.slurm_conf.as_deref())?;
    make_directory(&config.state_dir)?;
    make_directory(&config.socket_dir)?;
    let _lock = lock(&config.state_dir)?;
    let store = Store::open(&config.state_dir.join(store::FILE_NAME))?;
    let ended = start(config, store)?;
    // libslurm may still wait in the other threads; the ledger is closed, so nothing is lost by not waiting for them.
    std::process::exit(match ended {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!("{error}");
            1
        }
    })
}

/// Makes the directory if it is not there, and sees to it that files can be made in it: SQLite's own words for that
/// help nobody.
fn make_directory(path: &Path) -> Result<(), DaemonError> {
    let error = |what| move |source| DaemonError::File { what, path: path.into(), source };
    std::fs::create_dir_all(path).map_err(error("cannot make directory"))?;
    let probe = path.join(format!(".quotamarketd.{}", std::process::id()));
    File::create(&probe).and_then(|_| std::fs::remove_file(&probe)).map_err(error("cannot write in"))
}

/// Held while the process lives: two daemons on one ledger would both publish prices.
fn lock(state_dir: &Path) -> Result<File, DaemonError> {
    let path = state_dir.join(LOCK_FILE);
    let file = File::create(&path).map_err(|source| DaemonError::File {
        what: "cannot write",
        path: path.clone(),
        source,
    })?;
    file.try_lock().map_err(|_| DaemonError::AlreadyRuns(state_dir.into()))?;
    Ok(file)
}

/// Starts all threads and serves until a signal or a broken ledger ends it.
fn start(config: Config, store: Store) -> Result<Result<(), DaemonError>, DaemonError> {
    let (events, inbox) = mpsc::channel::<Event>();
    let (publications, published) = watch::channel(Arc::new(Publication::default()));
    let board = Arc::new(WorkBoard::default());
    let cluster_name = Arc::new(Mutex::new(None));
    let (port, controller_inbox) = controller::port();
    let (plugin_socket, market_socket) = (config.plugin_socket(), config.market_socket());
    let poll = config.poll();

    let attached = Attached::default();
    let probes = Probes { config: config.clone(), attached: attached.clone(), board: Arc::clone(&board) };

    let engine = Engine::new(config, store, clock::now_s, publications, Arc::clone(&board), port.clone())?;
    let (engine_ended, engine_end) = tokio::sync::oneshot::channel();
    let engine_thread = std::thread::Builder::new()
        .name("ledger".into())
        .spawn(move || {
            let ended = engine.run(&inbox);
            // Gone only if the main thread is.
            let _ = engine_ended.send(());
            ended
        })
        .map_err(DaemonError::Start)?;
    controller::spawn(controller_inbox, events.clone(), Arc::clone(&cluster_name), poll)
        .map_err(DaemonError::Start)?;
    accounting::spawn(board, events.clone(), cluster_name).map_err(DaemonError::Start)?;

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(DaemonError::Start)?;
    let served = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(DaemonError::Start)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(DaemonError::Start)?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("stopping: SIGTERM"),
                _ = interrupt.recv() => tracing::info!("stopping: SIGINT"),
                _ = engine_end => {}
            }
        };
        tracing::info!("listening on {} and {}", plugin_socket.display(), market_socket.display());
        let plugins = PluginService::new(published, port, events.clone(), attached);
        let market = MarketService::new(events.clone(), probes);
        grpc::serve(&plugin_socket, &market_socket, plugins, market, stop).await?;
        Ok(())
    });
    // A pass that is under way is finished; the queue behind it is not.
    let _ = events.send(Event::Stop);
    let engine = engine_thread.join().map_err(|_| DaemonError::EngineEnded)?;
    for socket in [&plugin_socket, &market_socket] {
        // Left behind it would only be replaced at the next start.
        let _ = std::fs::remove_file(socket);
    }
    Ok(served.and(engine.map_err(DaemonError::from)))
}
