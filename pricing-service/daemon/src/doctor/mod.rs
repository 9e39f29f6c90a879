//! `sbid admin doctor`: what is wrong with this cluster, and what cures it. The judgements are plain functions over what
//! was found; [`host`] finds what is neither in Slurm nor in the ledger.

mod host;
mod people;
mod service;

use market_api::config::Config;
use market_api::doctor::{self, Finding, SlurmConf};

pub(crate) use self::host::{Attached, AttachedPlugin, Host, Probes};
use crate::facts::ClusterFacts;

/// What the engine knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngineFacts {
    pub(crate) now_s: i64,
    /// When slurmctld was read, and what it said; `None` until it was.
    pub(crate) read: Option<(i64, ClusterFacts)>,
    /// slurmctld holds back nothing from slurmdbd.
    pub(crate) accounting_queue_is_empty: bool,
    pub(crate) sum_usu: i64,
    /// A write has failed, and none has succeeded since.
    pub(crate) in_doubt: bool,
    pub(crate) drains_since_s: Option<i64>,
}

/// Everything there is to say, what is wrong and what is well.
pub(crate) fn findings(engine: &EngineFacts, host: &Host, config: &Config) -> Vec<Finding> {
    let mut findings = service::findings(engine, host, config);
    if let Some((_, cluster)) = &engine.read {
        let told = &cluster.slurm.conf;
        let in_file = host.site_factor_plugin.as_ref().filter(|_| told.site_factor_plugin.is_empty());
        let site_factor_plugin = in_file.unwrap_or(&told.site_factor_plugin).clone();
        let conf = SlurmConf { site_factor_plugin, ..told.clone() };
        findings.extend(doctor::check(&conf, config, &host.plugin_files));
        findings.extend(people::findings(cluster, config));
    }
    findings
}

#[cfg(test)]
mod tests;
