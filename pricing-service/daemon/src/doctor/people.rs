//! QOS, associations and pools against market.toml.

use market::order::Tier;
use market_api::config::Config;
use market_api::doctor::{Finding, Level};

use crate::facts::{AssociationFacts, ClusterFacts};

/// At most so many are named.
const NAMED: usize = 3;

pub(super) fn findings(cluster: &ClusterFacts, config: &Config) -> Vec<Finding> {
    let market_qos = config.tiers.names();
    let mut findings = vec![qos_exist(cluster, &market_qos)];
    if of_users(cluster).is_empty() {
        findings.push(Finding::new(
            Level::Error,
            "associations",
            "no user has one; nobody may bid.",
            "sacctmgr -i add user NAME account=ACCOUNT",
        ));
    } else {
        let of_tiers = Tier::ALL.into_iter().map(|tier| config.tiers.of(tier));
        findings.extend(of_tiers.map(|qos| may_use(cluster, qos)));
    }
    findings.push(default_qos(cluster, &market_qos));
    findings.push(pools(cluster, config));
    findings
}

fn qos_exist(cluster: &ClusterFacts, market_qos: &[&str]) -> Finding {
    const SUBJECT: &str = "QOS";
    let missing: Vec<&str> =
        market_qos.iter().copied().filter(|qos| !cluster.slurm.qos.contains(*qos)).collect();
    if missing.is_empty() {
        return Finding::ok(SUBJECT, format!("{} exist.", market_qos.join(", ")));
    }
    Finding::new(
        Level::Error,
        SUBJECT,
        format!("of market.toml's tiers there is no {}; bids for it fail.", missing.join(", ")),
        "sbid admin setup --print prints the commands",
    )
}

/// Associations of users whom slurmctld knows.
fn of_users(cluster: &ClusterFacts) -> Vec<&AssociationFacts> {
    cluster.associations.iter().filter(|association| association.uid.is_some()).collect()
}

fn may_use(cluster: &ClusterFacts, qos: &str) -> Finding {
    let subject = format!("QOS {qos}");
    let users = of_users(cluster);
    let without: Vec<&AssociationFacts> = users
        .iter()
        .copied()
        .filter(|association| !association.qos.iter().any(|allowed| allowed == qos))
        .collect();
    let remedy = || format!("sacctmgr -i modify account where cluster={} set qos+={qos}", cluster.name);
    if without.len() == users.len() {
        return Finding::new(Level::Error, &subject, "no association may use it.", remedy());
    }
    if !without.is_empty() {
        let sentence = format!(
            "{} of {} associations may not use it: {}.",
            without.len(),
            users.len(),
            named(cluster, &without)
        );
        return Finding::new(Level::Hint, &subject, sentence, remedy());
    }
    Finding::ok(&subject, format!("may be used by all {} associations.", users.len()))
}

/// A job without a bid would get it.
fn default_qos(cluster: &ClusterFacts, market_qos: &[&str]) -> Finding {
    const SUBJECT: &str = "DefaultQOS";
    let wrong: Vec<&AssociationFacts> = of_users(cluster)
        .into_iter()
        .filter(|association| market_qos.contains(&association.default_qos.as_str()))
        .collect();
    let Some(first) = wrong.first() else {
        return Finding::ok(SUBJECT, "is no QOS of the market for anybody.");
    };
    Finding::new(
        Level::Error,
        SUBJECT,
        format!(
            "is {} for {} associations, whose jobs without a bid are refused: {}.",
            first.default_qos,
            wrong.len(),
            named(cluster, &wrong)
        ),
        format!(
            "sacctmgr -i modify user {} where account={} set defaultqos=normal",
            user(cluster, first),
            first.account
        ),
    )
}

fn user<'a>(cluster: &'a ClusterFacts, association: &AssociationFacts) -> &'a str {
    let known = association.uid.and_then(|uid| cluster.users.get(&uid));
    known.map_or("?", |user| user.name.as_str())
}

/// `vis1 in vision, nlp1 in nlp and 7 more`.
fn named(cluster: &ClusterFacts, associations: &[&AssociationFacts]) -> String {
    let name = |of: &&AssociationFacts| format!("{} in {}", user(cluster, of), of.account);
    let names: Vec<String> = associations.iter().take(NAMED).map(name).collect();
    match associations.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn pools(cluster: &ClusterFacts, config: &Config) -> Finding {
    const SUBJECT: &str = "pools";
    let missing = |of: Vec<&String>| of.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let without_gpus =
        missing(config.pools.keys().filter(|name| !cluster.pools.contains_key(*name)).collect());
    let without_table =
        missing(cluster.pools.keys().filter(|name| !config.pools.contains_key(*name)).collect());
    if cluster.pools.is_empty() {
        let sentence = "no node has GPUs; there is nothing to bid for.";
        return Finding::new(
            Level::Error,
            SUBJECT,
            sentence,
            "GresTypes=gpu and NodeName=... Gres=gpu:MODEL:N",
        );
    }
    if !without_gpus.is_empty() {
        return Finding::new(
            Level::Warning,
            SUBJECT,
            format!("market.toml prices {without_gpus}, and no node has such GPUs."),
            format!("name them as Slurm does: [pools.{}]", missing(cluster.pools.keys().take(1).collect())),
        );
    }
    if !without_table.is_empty() {
        return Finding::new(
            Level::Hint,
            SUBJECT,
            format!("market.toml has no table for {without_table}; the weight is 1."),
            format!(
                "[pools.{}] with weight = N",
                missing(
                    cluster.pools.keys().filter(|name| !config.pools.contains_key(*name)).take(1).collect()
                )
            ),
        );
    }
    Finding::ok(
        SUBJECT,
        format!(
            "each model has GPUs and a table in market.toml: {}.",
            missing(cluster.pools.keys().collect())
        ),
    )
}
