//! What sbid can tell by itself: whether market.toml is good, why quotamarketd cannot be asked, and what slurm.conf says.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use market_api::config::{Config, ConfigError};
use market_api::doctor::{self, BID_FILES};
use market_api::v1::{Finding, Level};

use crate::client::CallError;

/// PluginDir where slurm.conf names none, as Debian builds Slurm.
const DEBIANS_PLUGIN_DIR: &str = "/usr/lib/x86_64-linux-gnu/slurm-wlm";
const DEFAULT_SLURM_CONF: &str = "/etc/slurm/slurm.conf";

/// Whether market.toml is good, and what it says; the defaults hold where there is none.
pub(super) fn market(path: &Path) -> (Finding, Option<Config>) {
    let error = match Config::load(path) {
        Ok(config) => {
            let sentence = format!("{} is good.", path.display());
            return (finding(Level::Ok, "market.toml", &sentence, ""), Some(config));
        }
        Err(error) => error,
    };
    let (remedy, config) = match error {
        ConfigError::Unreadable { .. } => {
            ("install -m 644 contrib/market.toml beside slurm.conf", Some(Config::default()))
        }
        ConfigError::Invalid { .. } => ("correct the line, then: quotamarketd --check", None),
    };
    (finding(Level::Error, "market.toml", &format!("{error}."), remedy), config)
}

/// Why nobody answers, by what the socket says to another try.
pub(super) fn daemon(socket: &Path, error: &CallError) -> Finding {
    let path = socket.display();
    let (sentence, remedy) = match UnixStream::connect(socket).map_err(|error| error.kind()) {
        Err(ErrorKind::NotFound) => (
            format!("does not run: there is no socket {path}."),
            "systemctl enable --now quotamarketd; journalctl -u quotamarketd says why it ended".into(),
        ),
        Err(ErrorKind::PermissionDenied) => (
            format!("cannot be reached: {path}: permission denied."),
            format!("chmod 666 {path}; chmod 755 {}", socket.parent().unwrap_or(socket).display()),
        ),
        Err(ErrorKind::ConnectionRefused) => (
            format!("does not run: it left {path} behind, and nobody listens there."),
            "systemctl restart quotamarketd; journalctl -u quotamarketd says why it ended".into(),
        ),
        _ => (
            format!("does not answer: {error}."),
            "systemctl restart quotamarketd, and tell its authors if that helps".into(),
        ),
    };
    finding(Level::Error, "quotamarketd", &sentence, &remedy)
}

/// What slurm.conf and PluginDir say by themselves.
pub(super) fn slurm_conf(market: &Config) -> Vec<Finding> {
    let path =
        std::env::var_os("SLURM_CONF").map_or_else(|| PathBuf::from(DEFAULT_SLURM_CONF), PathBuf::from);
    let mut conf = match doctor::read(&path) {
        Ok(conf) => conf,
        Err(error) => {
            let remedy = "run this on the controller host, with SLURM_CONF as slurmctld has it";
            return vec![finding(Level::Error, "slurm.conf", &format!("{error}."), remedy)];
        }
    };
    if conf.plugin_dir.is_empty() {
        conf.plugin_dir = DEBIANS_PLUGIN_DIR.into();
    }
    let is_there =
        |file: &&str| conf.plugin_dir.split(':').any(|directory| Path::new(directory).join(file).is_file());
    let files: BTreeSet<String> = BID_FILES.into_iter().filter(is_there).map(str::to_owned).collect();
    doctor::check(&conf, market, &files).into_iter().map(wire).collect()
}

fn wire(found: doctor::Finding) -> Finding {
    let level = match found.level {
        doctor::Level::Ok => Level::Ok,
        doctor::Level::Hint => Level::Hint,
        doctor::Level::Warning => Level::Warning,
        doctor::Level::Error => Level::Error,
    };
    finding(level, &found.subject, &found.sentence, &found.remedy)
}

fn finding(level: Level, subject: &str, sentence: &str, remedy: &str) -> Finding {
    Finding { level: level.into(), subject: subject.into(), sentence: sentence.into(), remedy: remedy.into() }
}
