//! `market.toml`, which stands beside slurm.conf and is read by the daemon, the plugins and sbid alike.
//!
//! Unknown keys and wrong values are errors that name file, line and key. Prices are written as plain numbers
//! (`0.25`) and read as decimals with at most six places; no float ever becomes money.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use market::amount::Price;
use market::order::Tier;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Unexpected};

/// File name beside slurm.conf.
pub const FILE_NAME: &str = "market.toml";
/// Names the file when it does not stand beside slurm.conf.
pub const PATH_VARIABLE: &str = "QUOTAMARKET_CONFIG";
const DEFAULT_SLURM_CONF: &str = "/etc/slurm/slurm.conf";

/// The whole of `market.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub mode: Mode,
    /// Seconds from one round to the next.
    #[serde(deserialize_with = "seconds_1_to_3600")]
    pub quantum_s: u32,
    /// Seconds between two reads of slurmctld; must stay well below Slurm's MinJobAge.
    #[serde(deserialize_with = "seconds_1_to_60")]
    pub poll_s: u32,
    /// Seconds of silence after which the plugins count the daemon as gone.
    #[serde(deserialize_with = "seconds_2_to_600")]
    pub stale_after_s: u32,
    pub when_unavailable: WhenUnavailable,
    pub when_short: WhenShort,
    pub no_bid: NoBid,
    /// The limit of jobs without a bid, with `no_bid = "default_bid"`.
    #[serde(deserialize_with = "some_price_above_zero")]
    pub default_bid: Option<Price>,
    pub array_earmark: ArrayEarmark,
    /// Where the daemon keeps its ledger.
    pub state_dir: PathBuf,
    /// Where the daemon's sockets lie.
    pub socket_dir: PathBuf,
    pub tiers: TierQos,
    pub eviction: Eviction,
    pub factor: Factor,
    /// By GPU model as Slurm writes it, in lower case.
    pub pools: BTreeMap<String, Pool>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::Live,
            quantum_s: 60,
            poll_s: 3,
            stale_after_s: 15,
            when_unavailable: WhenUnavailable::Free,
            when_short: WhenShort::Refuse,
            no_bid: NoBid::Unchanged,
            default_bid: None,
            array_earmark: ArrayEarmark::AtOnce,
            state_dir: "/var/lib/quotamarket".into(),
            socket_dir: "/run/quotamarket".into(),
            tiers: TierQos::default(),
            eviction: Eviction::default(),
            factor: Factor::default(),
            pools: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Live,
}

/// What becomes of a bid while the daemon is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenUnavailable {
    Free,
    Reject,
    Allow,
}

/// What becomes of a bid that exceeds the account's free funds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenShort {
    Refuse,
}

/// What becomes of a job without a bid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoBid {
    Unchanged,
    Free,
    Reject,
    /// As if the user had bid `default_bid`.
    DefaultBid,
}

/// How much of a job array must be covered by funds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayEarmark {
    /// As many tasks as may run at once (`%n`), or all without it.
    AtOnce,
    /// Every task.
    All,
}

/// The QOS that stands for each tier, and the one that holds jobs which wait for money.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TierQos {
    #[serde(deserialize_with = "qos_name")]
    pub urgent: String,
    #[serde(deserialize_with = "qos_name")]
    pub standard: String,
    #[serde(deserialize_with = "qos_name")]
    pub spot: String,
    #[serde(deserialize_with = "qos_name")]
    pub free: String,
    #[serde(deserialize_with = "qos_name")]
    pub parked: String,
}

impl Default for TierQos {
    fn default() -> Self {
        let name = |tier: Tier| tier.name().to_owned();
        Self {
            urgent: name(Tier::Urgent),
            standard: name(Tier::Standard),
            spot: name(Tier::Spot),
            free: name(Tier::Free),
            parked: "parked".into(),
        }
    }
}

impl TierQos {
    #[must_use]
    pub fn of(&self, tier: Tier) -> &str {
        match tier {
            Tier::Urgent => &self.urgent,
            Tier::Standard => &self.standard,
            Tier::Spot => &self.spot,
            Tier::Free => &self.free,
        }
    }

    /// The tier that a QOS stands for, if it does. Slurm's QOS names are lower case, whatever the user typed.
    #[must_use]
    pub fn tier_of(&self, qos: &str) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| self.of(*tier).eq_ignore_ascii_case(qos))
    }

    /// Whether a QOS is one of the market's: that of a tier, or the one for parked jobs.
    #[must_use]
    pub fn is_market(&self, qos: &str) -> bool {
        self.names().iter().any(|name| name.eq_ignore_ascii_case(qos))
    }

    /// All of them.
    #[must_use]
    pub fn names(&self) -> [&str; 5] {
        [&self.urgent, &self.standard, &self.spot, &self.free, &self.parked]
    }
}

/// How a running spot job gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Eviction {
    /// Seconds from the warning until the GPUs are taken.
    #[serde(deserialize_with = "seconds_1_to_3600")]
    pub grace_s: u32,
    /// A job that asked for its signal earlier than that gets the time it asked for, up to this.
    #[serde(deserialize_with = "seconds_1_to_3600")]
    pub grace_most_s: u32,
}

impl Default for Eviction {
    fn default() -> Self {
        Self { grace_s: 60, grace_most_s: 600 }
    }
}

/// How a rank becomes priority: units for each doubling, rounded down to a multiple of `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Factor {
    #[serde(deserialize_with = "factor_units")]
    pub per_doubling: u32,
    #[serde(deserialize_with = "factor_units")]
    pub step: u32,
}

impl Default for Factor {
    fn default() -> Self {
        Self { per_doubling: 16_384, step: 64 }
    }
}

/// All GPUs of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Worth of a GPU-hour of this model in SU; the default reserve is a quarter of it.
    #[serde(deserialize_with = "price_above_zero")]
    pub weight: Price,
    /// Least price in SU per GPU-hour before the tier's multiple.
    #[serde(default, deserialize_with = "some_price_above_zero")]
    pub reserve_price: Option<Price>,
}

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}: {source}; create it or name another with {PATH_VARIABLE}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{path}:{line}: {key}: {problem}")]
    Invalid { path: PathBuf, line: usize, key: String, problem: String },
}

/// Where `market.toml` is: `$QUOTAMARKET_CONFIG`, else beside the given slurm.conf, else beside `$SLURM_CONF`,
/// else beside Slurm's default.
pub fn path(slurm_conf: Option<&Path>) -> PathBuf {
    if let Some(path) = std::env::var_os(PATH_VARIABLE) {
        return path.into();
    }
    let slurm_conf = slurm_conf
        .map(Path::to_path_buf)
        .or_else(|| std::env::var_os("SLURM_CONF").map(PathBuf::from))
        .unwrap_or_else(|| DEFAULT_SLURM_CONF.into());
    slurm_conf.with_file_name(FILE_NAME)
}

impl Config {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// [`ConfigError`] with file, line and key of the first thing that is wrong.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
        Self::parse(&text, path)
    }

    /// As [`Config::load`], of a text already read; `path` only names it in errors.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            invalid(text, path, at, error.message())
        })?;
        config.check(text, path)?;
        Ok(config)
    }

    fn check(&self, text: &str, path: &Path) -> Result<(), ConfigError> {
        let fail = |key: &str, problem: &str| Err(invalid_key(text, path, key, problem));
        let qos = self.tiers.names();
        if let Some(twice) = qos.iter().find(|name| qos.iter().filter(|other| other == name).count() > 1) {
            return fail("tiers", &format!("QOS {twice} is named twice; give each tier its own"));
        }
        if (self.no_bid == NoBid::DefaultBid) != self.default_bid.is_some() {
            return fail(
                "no_bid",
                "\"default_bid\" and a price default_bid go together; write both or neither",
            );
        }
        if self.stale_after_s <= self.poll_s {
            return fail("stale_after_s", "must be greater than poll_s");
        }
        if self.eviction.grace_most_s < self.eviction.grace_s {
            return fail("grace_most_s", "must not be less than grace_s");
        }
        if self.factor.step > self.factor.per_doubling {
            return fail("step", "must not be greater than per_doubling");
        }
        if let Some(name) = self.pools.keys().find(|name| !is_model_name(name)) {
            return fail(
                name,
                "is no GPU model as Slurm writes it; use lower-case letters, digits, and . _ -",
            );
        }
        Ok(())
    }

    pub fn plugin_socket(&self) -> PathBuf {
        self.socket_dir.join("plugin.sock")
    }

    pub fn market_socket(&self) -> PathBuf {
        self.socket_dir.join("market.sock")
    }

    pub fn quantum(&self) -> Duration {
        Duration::from_secs(self.quantum_s.into())
    }

    pub fn poll(&self) -> Duration {
        Duration::from_secs(self.poll_s.into())
    }

    pub fn stale_after(&self) -> Duration {
        Duration::from_secs(self.stale_after_s.into())
    }
}

fn is_model_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
}

fn invalid(text: &str, path: &Path, at: usize, problem: &str) -> ConfigError {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let key = text.lines().nth(line - 1).unwrap_or_default();
    let key = key.split('=').next().unwrap_or_default().trim().trim_matches(['[', ']', '"']);
    ConfigError::Invalid { path: path.into(), line, key: key.into(), problem: problem.trim().into() }
}

fn invalid_key(text: &str, path: &Path, key: &str, problem: &str) -> ConfigError {
    let names_key = |line: &str| {
        let name = line.split('=').next().unwrap_or_default().trim().trim_matches(['[', ']', '"']);
        name == key || name.rsplit('.').next() == Some(key)
    };
    let line = text.lines().position(names_key).map_or(1, |index| index + 1);
    ConfigError::Invalid { path: path.into(), line, key: key.into(), problem: problem.into() }
}

fn integer_within<'de, D: Deserializer<'de>>(from: D, least: u32, most: u32) -> Result<u32, D::Error> {
    let value = i64::deserialize(from)?;
    u32::try_from(value)
        .ok()
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| D::Error::custom(format!("{value} is out of range; write {least} to {most}")))
}

fn seconds_1_to_60<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    integer_within(from, 1, 60)
}

fn seconds_1_to_3600<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    integer_within(from, 1, 3600)
}

fn seconds_2_to_600<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    integer_within(from, 2, 600)
}

fn factor_units<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    integer_within(from, 1, 1 << 20)
}

fn qos_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    let well_formed = !name.is_empty() && !name.contains(|c: char| c == ',' || c.is_whitespace());
    well_formed
        .then(|| name.to_lowercase())
        .ok_or_else(|| D::Error::custom(format!("{name:?} is no QOS name")))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Integer(i64),
    Float(f64),
    Other(toml::Value),
}

fn price_above_zero<'de, D: Deserializer<'de>>(from: D) -> Result<Price, D::Error> {
    // The shortest decimal that names a float is what the admin wrote, as long as it has at most 15 digits; the
    // parser takes at most six places, so nothing is rounded unseen.
    let written = match Number::deserialize(from)? {
        Number::Integer(value) => value.to_string(),
        Number::Float(value) => value.to_string(),
        Number::Other(value) => {
            return Err(D::Error::invalid_type(Unexpected::Other(value.type_str()), &"a number like 0.25"));
        }
    };
    match Price::parse(&written) {
        Ok(price) if price > Price::ZERO => Ok(price),
        _ => Err(D::Error::custom(format!(
            "{written} is no price; write a number above 0 like 0.25, with at most 6 decimals"
        ))),
    }
}

fn some_price_above_zero<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Price>, D::Error> {
    price_above_zero(from).map(Some)
}

#[cfg(test)]
mod tests;
