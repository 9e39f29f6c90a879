//! What is neither in Slurm nor in the ledger: plugins on the line, sockets, files, munged, slurmdbd.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use market_api::config::Config;
use market_api::doctor::{self, BID_FILES};
use market_api::v1::{Hello, Role};

use super::EngineFacts;
use crate::accounting::WorkBoard;

/// slurmdbd is waited for no longer than this; sbid waits ten seconds for all of it.
const ACCOUNTING_WAIT: Duration = Duration::from_secs(4);

/// A plugin in slurmctld that has a stream to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttachedPlugin {
    pub(crate) role: Role,
    /// The Slurm that it was built for.
    pub(crate) slurm_version: String,
    pub(crate) version: String,
}

/// All that are attached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attached(Arc<Mutex<(u64, BTreeMap<u64, AttachedPlugin>)>>);

impl Attached {
    /// Counts a plugin as attached as long as the value lives.
    pub(crate) fn add(&self, hello: &Hello) -> OnTheLine {
        let plugin = AttachedPlugin {
            role: hello.role(),
            slurm_version: hello.slurm_version.clone(),
            version: hello.plugin_version.clone(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.0 += 1;
        let number = all.0;
        all.1.insert(number, plugin);
        OnTheLine { all: self.clone(), number }
    }

    fn list(&self) -> Vec<AttachedPlugin> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.values().cloned().collect()
    }
}

#[derive(Debug)]
pub(crate) struct OnTheLine {
    all: Attached,
    number: u64,
}

impl Drop for OnTheLine {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&self.number);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SocketFacts {
    pub(crate) path: PathBuf,
    /// Owner and mode, or why they cannot be told.
    pub(crate) state: Result<(u32, u32), String>,
}

impl SocketFacts {
    fn of(path: PathBuf) -> Self {
        let state = std::fs::metadata(&path)
            .map(|metadata| (metadata.uid(), metadata.permissions().mode() & 0o777))
            .map_err(|error| error.to_string());
        Self { path, state }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// Of the daemon.
    pub(crate) version: String,
    pub(crate) uid: u32,
    /// The Slurm that the daemon was built for.
    pub(crate) built_for: String,
    pub(crate) plugins: Vec<AttachedPlugin>,
    /// By slurm.conf itself; `None` if that cannot be read.
    pub(crate) site_factor_plugin: Option<String>,
    /// Our plugin files that lie in PluginDir.
    pub(crate) plugin_files: BTreeSet<String>,
    pub(crate) plugin_socket: SocketFacts,
    pub(crate) market_socket: SocketFacts,
    pub(crate) socket_dir: SocketFacts,
    /// `None`: where it listens is not known yet.
    pub(crate) munge: Option<Result<(), String>>,
    pub(crate) accounting: Result<(), String>,
}

/// Where to look.
#[derive(Debug)]
pub(crate) struct Probes {
    pub(crate) config: Config,
    pub(crate) attached: Attached,
    pub(crate) board: Arc<WorkBoard>,
}

impl Probes {
    /// Looks at everything. Blocks on disks, on munged and, for some seconds, on slurmdbd.
    pub(crate) fn look(&self, engine: &EngineFacts) -> Host {
        let slurm = engine.read.as_ref().map(|(_, cluster)| &cluster.slurm);
        // SAFETY: geteuid takes nothing and cannot fail.
        let uid = unsafe { libc::geteuid() };
        Host {
            version: env!("CARGO_PKG_VERSION").into(),
            uid,
            built_for: slurm_client::built_for(),
            plugins: self.attached.list(),
            site_factor_plugin: slurm
                .and_then(|slurm| doctor::read(&slurm.conf_file).ok().map(|conf| conf.site_factor_plugin)),
            plugin_files: slurm.map(|slurm| files_in(&slurm.conf.plugin_dir)).unwrap_or_default(),
            plugin_socket: SocketFacts::of(self.config.plugin_socket()),
            market_socket: SocketFacts::of(self.config.market_socket()),
            socket_dir: SocketFacts::of(self.config.socket_dir.clone()),
            munge: slurm.map(|slurm| reach(&slurm.munge_socket)),
            accounting: self.board.probe(ACCOUNTING_WAIT),
        }
    }
}

fn files_in(plugin_dir: &str) -> BTreeSet<String> {
    let is_there =
        |file: &&str| plugin_dir.split(':').any(|directory| Path::new(directory).join(file).is_file());
    BID_FILES.into_iter().filter(is_there).map(str::to_owned).collect()
}

fn reach(socket: &Path) -> Result<(), String> {
    UnixStream::connect(socket).map(|_| ()).map_err(|error| format!("{}: {error}", socket.display()))
}
