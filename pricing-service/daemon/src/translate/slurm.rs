//! Slurm's configuration, as doctor looks at it.

use std::collections::BTreeSet;

use market_api::doctor::{SlurmConf, tres_weights};
use slurm_client::controller::{AssociationsReply, Config, Enforce};

use crate::facts::SlurmFacts;

/// Where munged listens if AuthInfo says nothing.
const MUNGE_SOCKET: &str = "/run/munge/munge.socket.2";
/// slurm.h: `PREEMPT_MODE_SUSPEND`, `_REQUEUE` and `_CANCEL`; further bits say how.
const PREEMPTS: u16 = 0x1 | 0x2 | 0x8;

pub(super) fn facts(config: &Config, people: &AssociationsReply) -> SlurmFacts {
    SlurmFacts {
        version: config.version.clone(),
        conf: conf(config),
        conf_file: config.conf_file.clone().unwrap_or_default().into(),
        munge_socket: munge_socket(config.auth_info.as_deref()).into(),
        qos: people.qos.iter().map(|qos| qos.name.clone()).collect(),
    }
}

fn munge_socket(auth_info: Option<&str>) -> &str {
    words(auth_info).find_map(|word| word.strip_prefix("socket=")).unwrap_or(MUNGE_SOCKET)
}

fn conf(config: &Config) -> SlurmConf {
    let owned = |text: &Option<String>| text.clone().unwrap_or_default();
    let list = |text: &Option<String>| words(text.as_deref()).map(str::to_owned).collect();
    let weights = &config.priority_weights;
    let weight = |name: &str, weight: u32| (format!("PriorityWeight{name}"), u64::from(weight));
    SlurmConf {
        job_submit_plugins: words(config.job_submit_plugins.as_deref())
            .map(|name| name.strip_prefix("job_submit/").unwrap_or(name).to_owned())
            .collect(),
        priority_type: owned(&config.priority_type),
        site_factor_plugin: owned(&config.site_factor_plugin),
        scheduler_parameters: list(&config.sched_params),
        weights: [
            weight("Age", weights.age),
            weight("Assoc", weights.association),
            weight("Fairshare", weights.fair_share),
            weight("JobSize", weights.job_size),
            weight("Partition", weights.partition),
            weight("QOS", weights.qos),
        ]
        .into_iter()
        .chain(tres_weights(config.priority_weight_tres.as_deref().unwrap_or_default()))
        .collect(),
        preempt_type: owned(&config.preempt_type),
        preempts_nothing: config.preempt_mode & PREEMPTS == 0,
        stores_job_comment: config.stores_job_comment,
        accounting_tres: list(&config.accounting_storage_tres),
        enforced: enforced(config.enforce),
        jobs_are_private: config.jobs_are_private(),
        min_job_age_s: config.min_job_age_s,
        plugin_dir: owned(&config.plugin_dir),
        controllers: config.controllers.len(),
    }
}

fn enforced(enforce: Enforce) -> BTreeSet<String> {
    let words = [("associations", enforce.associations), ("limits", enforce.limits), ("qos", enforce.qos)];
    words.into_iter().filter(|(_, is_enforced)| *is_enforced).map(|(word, _)| word.to_owned()).collect()
}

fn words(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mungeds_socket_is_where_auth_info_says() {
        assert_eq!(munge_socket(Some("socket=/tmp/munge,cred_expire=5")), "/tmp/munge");
        assert_eq!(munge_socket(Some("ttl=5")), MUNGE_SOCKET);
        assert_eq!(munge_socket(None), MUNGE_SOCKET);
    }
}
