//! A plain reading of slurm.conf: only what [`SlurmConf`] holds, with what `Include` brings in.
//!
//! The forms are those of Slurm's own parser (src/common/parse_config.c): `Key=Value` in any case, several on a line,
//! `#` begins a comment, a backslash at the end continues a line, of repeated keys the last counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::SlurmConf;

/// Files that include one another would never end.
const INCLUDES_DEEP: usize = 8;
/// MinJobAge where the file says nothing.
const MIN_JOB_AGE_S: u32 = 300;
/// Lines that describe one thing each; keys in them are not the cluster's.
const OF_ONE_THING: [&str; 5] = ["nodename", "partitionname", "nodeset", "frontendname", "downnodes"];
/// The words of PreemptMode that preempt; without one it is OFF.
const PREEMPTS: [&str; 3] = ["suspend", "requeue", "cancel"];
const WEIGHTS: [&str; 6] = ["Age", "Assoc", "Fairshare", "JobSize", "Partition", "QOS"];

/// Why slurm.conf tells nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} includes itself", .0.display())]
    Endless(PathBuf),
}

/// Reads the file and what it includes.
///
/// # Errors
/// [`ReadError`] if one of them cannot be read.
pub fn read(path: &Path) -> Result<SlurmConf, ReadError> {
    let mut keys = Keys::default();
    keys.add_file(path, 0)?;
    Ok(keys.conf())
}

#[derive(Debug, Default)]
struct Keys {
    /// By key in lower case.
    values: BTreeMap<String, String>,
    controllers: usize,
}

impl Keys {
    fn add_file(&mut self, path: &Path, depth: usize) -> Result<(), ReadError> {
        if depth > INCLUDES_DEEP {
            return Err(ReadError::Endless(path.into()));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| ReadError::Unreadable { path: path.into(), source })?;
        for line in whole_lines(&text) {
            match included(&line) {
                Some(name) => {
                    let cluster = self.values.get("clustername").map_or("", String::as_str);
                    let name = name.replace("%c", cluster);
                    self.add_file(&path.parent().unwrap_or(Path::new("")).join(name), depth + 1)?;
                }
                None => self.add_line(&line),
            }
        }
        Ok(())
    }

    fn add_line(&mut self, line: &str) {
        let pairs = pairs(line);
        if pairs.first().is_some_and(|(key, _)| OF_ONE_THING.contains(&key.as_str())) {
            return;
        }
        for (key, value) in pairs {
            self.controllers += usize::from(key == "slurmctldhost");
            self.values.insert(key, value);
        }
    }

    fn value(&self, key: &str) -> &str {
        self.values.get(&key.to_ascii_lowercase()).map_or("", String::as_str)
    }

    fn words(&self, key: &str) -> Vec<String> {
        words(self.value(key)).map(str::to_owned).collect()
    }

    fn conf(&self) -> SlurmConf {
        let submit = words(self.value("JobSubmitPlugins"));
        let named = |key: &str, otherwise: &str| {
            let value = self.value(key);
            if value.is_empty() { otherwise.to_owned() } else { value.to_owned() }
        };
        let has =
            |key: &str, word: &str| words(self.value(key)).any(|found| found.eq_ignore_ascii_case(word));
        let mut weights: Vec<(String, u64)> = Vec::new();
        for name in WEIGHTS {
            let key = format!("PriorityWeight{name}");
            let weight = self.value(&key).parse().unwrap_or(0);
            weights.push((key, weight));
        }
        weights.extend(tres_weights(self.value("PriorityWeightTRES")));
        SlurmConf {
            job_submit_plugins: submit
                .map(|name| name.strip_prefix("job_submit/").unwrap_or(name).to_owned())
                .collect(),
            priority_type: named("PriorityType", "priority/basic"),
            site_factor_plugin: self.value("PrioritySiteFactorPlugin").to_owned(),
            scheduler_parameters: self.words("SchedulerParameters"),
            weights,
            preempt_type: named("PreemptType", "preempt/none"),
            preempts_nothing: !PREEMPTS.iter().any(|word| has("PreemptMode", word)),
            stores_job_comment: has("AccountingStoreFlags", "job_comment"),
            accounting_tres: self.words("AccountingStorageTRES"),
            enforced: enforced(self.value("AccountingStorageEnforce")),
            jobs_are_private: has("PrivateData", "jobs") || has("PrivateData", "all"),
            min_job_age_s: self.value("MinJobAge").parse().unwrap_or(MIN_JOB_AGE_S),
            plugin_dir: self.value("PluginDir").to_owned(),
            controllers: self.controllers,
        }
    }
}

/// Each TRES of `gres/gpu=1000,cpu=10` as a weight of its own.
pub fn tres_weights(text: &str) -> impl Iterator<Item = (String, u64)> {
    words(text).filter_map(|entry| {
        let (name, weight) = entry.rsplit_once('=')?;
        let whole = weight.split('.').next()?;
        Some((format!("PriorityWeightTRES={name}"), whole.parse().ok()?))
    })
}

/// What `AccountingStorageEnforce` comes to (src/common/read_config.c: each word brings associations along).
fn enforced(text: &str) -> std::collections::BTreeSet<String> {
    let of = |word: &str| match word.to_ascii_lowercase().as_str() {
        "associations" | "1" | "wckeys" => vec!["associations"],
        "limits" | "2" | "safe" => vec!["associations", "limits"],
        "qos" => vec!["associations", "qos"],
        "all" => vec!["associations", "limits", "qos"],
        _ => Vec::new(),
    };
    words(text).flat_map(of).map(str::to_owned).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// Lines without comments, continued ones as one.
fn whole_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut whole = String::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        match line.strip_suffix('\\') {
            Some(part) => whole.push_str(part),
            None => {
                whole.push_str(line);
                lines.push(std::mem::take(&mut whole));
            }
        }
    }
    lines.push(whole);
    lines
}

/// The file of an `Include` line.
fn included(line: &str) -> Option<&str> {
    let (word, name) = line.trim().split_once(char::is_whitespace)?;
    (word.eq_ignore_ascii_case("include") && !name.trim().is_empty()).then(|| name.trim())
}

/// `Key=Value` pairs, keys in lower case. A value ends at white space unless it is quoted.
fn pairs(line: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = line.trim();
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
        };
        let key = key.trim().trim_end_matches(['+', '-', '*', '/']).to_ascii_lowercase();
        found.push((key, value.to_owned()));
        rest = next.trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(files: &[(&str, &str)]) -> Result<SlurmConf, ReadError> {
        let directory = tempfile::tempdir().expect("temporary directory");
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).expect("writes");
        }
        read(&directory.path().join(files[0].0))
    }

    #[test]
    fn every_form_of_a_line_is_read() {
        let text = "ClusterName=c1 # a comment\n\
            JOBSUBMITPLUGINS = job_submit/lua,\\\nbid\n\
            PriorityType=priority/multifactor PrioritySiteFactorPlugin=site_factor/bid\n\
            SchedulerParameters=\"bf_continue,bf_interval=5\"\n\
            PriorityWeightAge=1\nPriorityWeightAge=1000\nPriorityWeightTRES=cpu=10,gres/gpu=2000.5\n\
            PreemptType=preempt/qos\nPreemptMode=REQUEUE\n\
            AccountingStorageEnforce=safe,qos\nPrivateData=jobs,usage\n\
            NodeName=n1 MinJobAge=3\nSlurmctldHost=a\nSlurmctldHost=b\n#MinJobAge=4\n";
        let conf = conf(&[("slurm.conf", text)]).expect("reads");
        assert_eq!(conf.job_submit_plugins, ["lua", "bid"]);
        assert_eq!(
            (conf.priority_type.as_str(), conf.site_factor_plugin.as_str()),
            ("priority/multifactor", "site_factor/bid")
        );
        assert_eq!(conf.scheduler_parameters, ["bf_continue", "bf_interval=5"]);
        let weights: Vec<_> = conf.weights.iter().filter(|(_, weight)| *weight > 0).collect();
        let weight = |key: &str, weight| (key.to_owned(), weight);
        let expected = [
            weight("PriorityWeightAge", 1000),
            weight("PriorityWeightTRES=cpu", 10),
            weight("PriorityWeightTRES=gres/gpu", 2000),
        ];
        assert_eq!(weights, expected.iter().collect::<Vec<_>>());
        assert_eq!((conf.preempt_type.as_str(), conf.preempts_nothing), ("preempt/qos", false));
        assert_eq!(conf.enforced.len(), 3);
        assert!(conf.jobs_are_private && !conf.stores_job_comment);
        assert_eq!((conf.min_job_age_s, conf.controllers), (300, 2));
    }

    #[test]
    fn included_files_count_as_if_they_stood_there() {
        let files = [
            ("slurm.conf", "ClusterName=c1\nInclude market_%c.conf\nMinJobAge=60\n"),
            ("market_c1.conf", "JobSubmitPlugins=bid\nMinJobAge=30\n"),
        ];
        let conf = conf(&files).expect("reads");
        assert_eq!((conf.job_submit_plugins, conf.min_job_age_s), (vec!["bid".to_owned()], 60));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = conf(&[("slurm.conf", "Include other.conf\n")]).expect_err("it is not there");
        assert!(error.to_string().contains("other.conf"), "{error}");
        let error = conf(&[("slurm.conf", "include slurm.conf\n")]).expect_err("it never ends");
        assert!(matches!(error, ReadError::Endless(_)), "{error}");
    }
}
