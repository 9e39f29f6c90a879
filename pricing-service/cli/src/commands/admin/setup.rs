//! `sbid admin setup --print`

use std::fmt::Write as _;

use clap::Args;
use market_api::config::{self, Config, TierQos};

use crate::failure::Failure;
use crate::output::Outcome;

pub(crate) const NAME: &str = "admin setup";

/// The one list of the market's QOS; contrib/cluster reads it too.
const QOS_TABLE: &str = include_str!("../../../../../contrib/qos.table");

#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// Print the commands; nothing is run
    #[arg(long, required = true)]
    print: bool,
}

pub(crate) fn run() -> Result<Outcome, Failure> {
    // Before market.toml is there, its defaults hold.
    let tiers = Config::load(&config::path(None)).map_or_else(|_| TierQos::default(), |config| config.tiers);
    Ok(Outcome { text: script(&tiers), ..Outcome::default() })
}

/// A line of the table.
struct Qos<'a> {
    name: &'a str,
    priority: &'a str,
    preempts: Option<&'a str>,
    settings: Vec<&'a str>,
}

impl<'a> Qos<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut words = line.split('#').next()?.split_whitespace();
        Some(Self {
            name: words.next()?,
            priority: words.next()?,
            preempts: words.next().filter(|word| *word != "-"),
            settings: words.collect(),
        })
    }
}

/// For `sh`: the QOS, in an order in which each finds what it refers to, and who may use them.
fn script(tiers: &TierQos) -> String {
    let name_of = |tier: &str| named(tiers, tier).to_owned();
    let table: Vec<Qos<'_>> = QOS_TABLE.lines().filter_map(Qos::read).collect();
    let names: Vec<String> = table.iter().map(|qos| name_of(qos.name)).collect();
    let names = names.join(",");
    let mut script = String::from(
        "# The market's QOS, to be run by a Slurm administrator after AccountingStorageTRES is in slurm.conf and\n\
         # slurmctld has been restarted. Choose the cap on free jobs of one user (MaxTRESPerUser) for your cluster.\n\
         cluster=$(scontrol show config | awk '$1 == \"ClusterName\" { print $3 }')\n",
    );
    let mut command = |words: String| writeln!(script, "sacctmgr -i {words}").unwrap_or_default();
    command(format!("add qos {names}"));
    for qos in &table {
        let preempts = qos.preempts.map(|tier| format!("Preempt={}", name_of(tier)));
        let words = [format!("modify qos {} set Priority={}", name_of(qos.name), qos.priority)];
        let settings = qos.settings.iter().map(|setting| (*setting).to_owned());
        let words: Vec<String> = words.into_iter().chain(preempts).chain(settings).collect();
        command(words.join(" "));
    }
    command(format!("modify account where cluster=\"$cluster\" set qos+={names}"));
    script
}

/// The site's name for a tier of the table, or for the parked jobs.
fn named<'a>(tiers: &'a TierQos, in_table: &'a str) -> &'a str {
    match in_table.parse() {
        Ok(tier) => tiers.of(tier),
        Err(_) if in_table == "parked" => &tiers.parked,
        Err(_) => in_table,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_has_each_qos_of_the_market_once() {
        let in_table: Vec<&str> = QOS_TABLE.lines().filter_map(Qos::read).map(|qos| qos.name).collect();
        let wanted = TierQos::default();
        assert_eq!(in_table.len(), wanted.names().len());
        assert_eq!(in_table.into_iter().collect::<BTreeSet<_>>(), wanted.names().into_iter().collect());
    }

    #[test]
    fn only_free_jobs_are_preempted_and_only_by_tiers_that_pay() {
        for qos in QOS_TABLE.lines().filter_map(Qos::read) {
            let pays = qos.name.parse::<market::order::Tier>().is_ok_and(|tier| tier.is_paid());
            assert_eq!(qos.preempts, pays.then_some("free"), "{}", qos.name);
        }
    }

    #[test]
    fn the_script_uses_the_sites_names() {
        let tiers = TierQos { spot: "cheap".into(), free: "scavenger".into(), ..TierQos::default() };
        let script = script(&tiers);
        assert!(script.contains("sacctmgr -i add qos scavenger,cheap,standard,urgent,parked\n"), "{script}");
        assert!(script.contains("modify qos cheap set Priority=10 Preempt=scavenger\n"), "{script}");
        assert!(script.contains("modify qos parked set Priority=0 GrpTRES=gres/gpu=0\n"), "{script}");
    }
}
