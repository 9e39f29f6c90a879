//! Slurm's configuration against what the market needs of it.

use std::collections::BTreeSet;

use super::{Finding, Level};
use crate::config::Config;

/// Our plugins, as slurm.conf names them.
const JOB_SUBMIT: &str = "bid";
const SITE_FACTOR: &str = "site_factor/bid";
const PRIORITY: &str = "priority/bid";
/// slurmctld must remember an ended job for so many reads of it.
const READS_REMEMBERED: u32 = 10;

/// The file of each of our plugins in PluginDir: job_submit, site factor, priority.
pub const BID_FILES: [&str; 3] = ["job_submit_bid.so", "site_factor_bid.so", "priority_bid.so"];

/// The lines of slurm.conf that matter to the market, as they are in force or as the file has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlurmConf {
    /// Without `job_submit/`.
    pub job_submit_plugins: Vec<String>,
    pub priority_type: String,
    /// Empty: none.
    pub site_factor_plugin: String,
    pub scheduler_parameters: Vec<String>,
    /// `PriorityWeight*` by key, and each TRES of `PriorityWeightTRES`.
    pub weights: Vec<(String, u64)>,
    pub preempt_type: String,
    /// PreemptMode=OFF, which is Slurm's default.
    pub preempts_nothing: bool,
    /// AccountingStoreFlags=job_comment.
    pub stores_job_comment: bool,
    /// AccountingStorageTRES; Slurm's own ones may stand in it.
    pub accounting_tres: Vec<String>,
    /// `associations`, `limits` and `qos`, as far as they are enforced.
    pub enforced: BTreeSet<String>,
    /// PrivateData=jobs.
    pub jobs_are_private: bool,
    /// MinJobAge; 0: ended jobs are never forgotten.
    pub min_job_age_s: u32,
    /// Directories of PluginDir, as it is written.
    pub plugin_dir: String,
    /// SlurmctldHost lines.
    pub controllers: usize,
}

impl SlurmConf {
    /// The plugin files that the configured roles need.
    pub fn files_needed(&self) -> Vec<&'static str> {
        let roles = [
            self.job_submit_plugins.iter().any(|name| name == JOB_SUBMIT),
            self.site_factor_plugin == SITE_FACTOR,
            self.priority_type == PRIORITY,
        ];
        BID_FILES.into_iter().zip(roles).filter(|(_, needed)| *needed).map(|(file, _)| file).collect()
    }
}

/// Judges the configuration. `files` are the names of our plugin files that lie in PluginDir.
pub fn check(conf: &SlurmConf, market: &Config, files: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = vec![
        plugin_files(conf, files),
        job_submit(conf),
        repricer(conf),
        backfill(conf),
        weights(conf, market.factor.per_doubling),
        preemption(conf),
        comment_kept(conf),
        tres(conf, market),
        enforced(conf),
        private_data(conf),
        min_job_age(conf, market.poll_s),
    ];
    findings.extend(controllers(conf));
    findings
}

fn plugin_files(conf: &SlurmConf, files: &BTreeSet<String>) -> Finding {
    const SUBJECT: &str = "PluginDir";
    let needed = conf.files_needed();
    let missing: Vec<&str> = needed.iter().copied().filter(|file| !files.contains(*file)).collect();
    if missing.is_empty() {
        return Finding::ok(SUBJECT, format!("holds {}.", list(&needed)));
    }
    // 22.05 goes on without a site factor plugin, and says so in its log only.
    let so = match missing.as_slice() {
        ["site_factor_bid.so"] => "bids are in no priority",
        _ => "slurmctld will not start",
    };
    let directory = conf.plugin_dir.split(':').next().unwrap_or_default();
    Finding::new(
        Level::Error,
        SUBJECT,
        format!("{} is missing from {}; {so}.", list(&missing), conf.plugin_dir),
        format!("install -m 755 target/release/lib{0} {directory}/{0}", missing[0]),
    )
}

fn job_submit(conf: &SlurmConf) -> Finding {
    const SUBJECT: &str = "JobSubmitPlugins";
    let plugins = &conf.job_submit_plugins;
    let with_bid_last =
        plugins.iter().map(String::as_str).filter(|name| *name != JOB_SUBMIT).chain([JOB_SUBMIT]);
    let remedy = format!("{SUBJECT}={}", with_bid_last.collect::<Vec<_>>().join(","));
    match plugins.iter().position(|name| name == JOB_SUBMIT) {
        None => Finding::new(Level::Error, SUBJECT, "lacks bid; bids are not read.", remedy),
        Some(place) if place + 1 < plugins.len() => Finding::new(
            Level::Warning,
            SUBJECT,
            format!("{} comes after bid and may change what the market has checked.", plugins[place + 1]),
            remedy,
        ),
        Some(_) => Finding::ok(SUBJECT, "has bid as its last plugin."),
    }
}

fn repricer(conf: &SlurmConf) -> Finding {
    const SUBJECT: &str = "PriorityType";
    let (by_site_factor, by_priority) =
        (conf.site_factor_plugin == SITE_FACTOR, conf.priority_type == PRIORITY);
    let none = matches!(conf.site_factor_plugin.as_str(), "" | "site_factor/none");
    match (by_site_factor, by_priority) {
        (true, false) if conf.priority_type == "priority/multifactor" => {
            Finding::ok(SUBJECT, "bids are in the priorities through site_factor/bid.")
        }
        (false, true) if none => Finding::ok(SUBJECT, "bids are in the priorities through priority/bid."),
        (_, true) => Finding::new(
            Level::Error,
            SUBJECT,
            format!(
                "priority/bid and PrioritySiteFactorPlugin={} exclude each other; slurmctld will not start.",
                conf.site_factor_plugin
            ),
            "delete the line PrioritySiteFactorPlugin",
        ),
        (true, false) => Finding::new(
            Level::Error,
            SUBJECT,
            format!("site_factor/bid has no effect under {}.", conf.priority_type),
            "PriorityType=priority/multifactor",
        ),
        (false, false) => Finding::new(
            Level::Error,
            SUBJECT,
            "neither site_factor/bid nor priority/bid is configured; bids are in no priority.",
            "PriorityType=priority/multifactor and PrioritySiteFactorPlugin=site_factor/bid",
        ),
    }
}

fn backfill(conf: &SlurmConf) -> Finding {
    const SUBJECT: &str = "SchedulerParameters";
    if conf.scheduler_parameters.iter().any(|parameter| parameter == "bf_continue") {
        return Finding::ok(SUBJECT, "has bf_continue.");
    }
    let present = conf.scheduler_parameters.iter().map(String::as_str).chain(["bf_continue"]);
    Finding::new(
        Level::Warning,
        SUBJECT,
        "lacks bf_continue; each change of prices ends the backfill scheduler's cycle.",
        format!("{SUBJECT}={}", present.collect::<Vec<_>>().join(",")),
    )
}

/// Each factor of Slurm's lies between 0 and 1, so that its weight is the most it can add.
fn weights(conf: &SlurmConf, per_doubling: u32) -> Finding {
    const SUBJECT: &str = "PriorityWeight";
    let m = u64::from(per_doubling.max(1));
    let tenths = |weight: u64| weight.saturating_mul(10) / m;
    let text = |weight: u64| format!("{}.{}", tenths(weight) / 10, tenths(weight) % 10);
    let sum = conf.weights.iter().fold(0, |sum: u64, (_, weight)| sum.saturating_add(*weight));
    let strong = conf.weights.iter().filter(|(_, weight)| *weight >= m);
    let told: Vec<String> = strong
        .clone()
        .map(|(key, weight)| format!("{key}={weight} can outvote {} doublings of a bid", text(*weight)))
        .collect();
    if let Some((key, _)) = strong.max_by_key(|(_, weight)| *weight) {
        return Finding::new(
            Level::Warning,
            SUBJECT,
            format!("{}; a doubling counts {m}.", told.join(", ")),
            format!("{key}={}, or a larger per_doubling in market.toml", m / 10),
        );
    }
    if sum >= m {
        return Finding::new(
            Level::Hint,
            SUBJECT,
            format!(
                "together the other factors weigh {sum} and can outvote {} doublings of a bid.",
                text(sum)
            ),
            "smaller PriorityWeight*, or a larger per_doubling in market.toml",
        );
    }
    Finding::ok(SUBJECT, format!("together the other factors weigh {sum}; a doubling of the bid counts {m}."))
}

fn preemption(conf: &SlurmConf) -> Finding {
    const SUBJECT: &str = "PreemptType";
    if conf.preempt_type == "preempt/qos" && !conf.preempts_nothing {
        return Finding::ok(SUBJECT, "is preempt/qos: free jobs give way to paid ones.");
    }
    let why = if conf.preempts_nothing { "PreemptMode is OFF" } else { "is not preempt/qos" };
    Finding::new(
        Level::Warning,
        SUBJECT,
        format!("{why}; free jobs keep their GPUs while paid ones wait."),
        "PreemptType=preempt/qos and PreemptMode=REQUEUE",
    )
}

fn comment_kept(conf: &SlurmConf) -> Finding {
    const SUBJECT: &str = "AccountingStoreFlags";
    if conf.stores_job_comment {
        return Finding::ok(SUBJECT, "has job_comment: sacct shows what was bid.");
    }
    Finding::new(
        Level::Warning,
        SUBJECT,
        "lacks job_comment; sacct does not show what was bid.",
        "AccountingStoreFlags=job_comment",
    )
}

fn tres(conf: &SlurmConf, market: &Config) -> Finding {
    const SUBJECT: &str = "AccountingStorageTRES";
    let has = |name: &str| conf.accounting_tres.iter().any(|tres| tres.eq_ignore_ascii_case(name));
    let models = market.pools.keys().map(|model| format!("gres/gpu:{model}"));
    let needed: Vec<String> = ["gres/gpu".to_owned()].into_iter().chain(models).collect();
    let missing: Vec<&str> = needed.iter().map(String::as_str).filter(|name| !has(name)).collect();
    let remedy = format!("{SUBJECT}={}", needed.join(","));
    if !has("gres/gpu") {
        let sentence = "lacks gres/gpu; slurmctld does not count GPUs, and nothing is charged.";
        return Finding::new(Level::Error, SUBJECT, sentence, remedy);
    }
    if !missing.is_empty() {
        return Finding::new(
            Level::Warning,
            SUBJECT,
            format!("lacks {}; on nodes with several models the wrong one may be charged.", list(&missing)),
            remedy,
        );
    }
    Finding::ok(SUBJECT, "has gres/gpu and each model of market.toml.")
}

fn enforced(conf: &SlurmConf) -> Finding {
    const SUBJECT: &str = "AccountingStorageEnforce";
    const WANTED: [&str; 3] = ["associations", "limits", "qos"];
    let missing: Vec<&str> = WANTED.into_iter().filter(|name| !conf.enforced.contains(*name)).collect();
    let remedy = format!("{SUBJECT}={}", WANTED.join(","));
    let why = match missing.as_slice() {
        [] => return Finding::ok(SUBJECT, "has associations, limits and qos."),
        ["limits"] => {
            let sentence = "lacks limits; Slurm's own limits of accounts and QOS do not hold.";
            return Finding::new(Level::Warning, SUBJECT, sentence, remedy);
        }
        missing if missing.contains(&"associations") => "jobs may be charged to accounts that nobody allowed",
        _ => "every user may take a QOS of the market without a bid",
    };
    Finding::new(Level::Error, SUBJECT, format!("lacks {}; {why}.", list(&missing)), remedy)
}

fn private_data(conf: &SlurmConf) -> Finding {
    const SUBJECT: &str = "PrivateData";
    if conf.jobs_are_private {
        return Finding::ok(SUBJECT, "has jobs: users see their own bids only.");
    }
    let sentence = "lacks jobs; every user sees all bids in squeue.";
    Finding::new(Level::Hint, SUBJECT, sentence, "PrivateData=jobs, if bids are to be secret")
}

fn min_job_age(conf: &SlurmConf, poll_s: u32) -> Finding {
    const SUBJECT: &str = "MinJobAge";
    let least_s = poll_s.saturating_mul(READS_REMEMBERED);
    let age_s = conf.min_job_age_s;
    if age_s == 0 || age_s >= least_s {
        return Finding::ok(SUBJECT, format!("is {age_s} s; slurmctld is read every {poll_s} s."));
    }
    Finding::new(
        Level::Warning,
        SUBJECT,
        format!(
            "is {age_s} s; slurmctld forgets ended jobs before their end is surely seen, every {poll_s} s."
        ),
        format!("MinJobAge={}", least_s.max(300)),
    )
}

/// Socket and ledger lie on one host.
fn controllers(conf: &SlurmConf) -> Option<Finding> {
    (conf.controllers > 1).then(|| {
        Finding::new(
            Level::Hint,
            "SlurmctldHost",
            format!(
                "names {} controllers; the plugins of a backup find no quotamarketd there.",
                conf.controllers
            ),
            "choose when_unavailable in market.toml for that time",
        )
    })
}

/// `a`, `a and b`, `a, b and c`.
fn list(names: &[&str]) -> String {
    match names {
        [] => "nothing".into(),
        [one] => (*one).into(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests;
