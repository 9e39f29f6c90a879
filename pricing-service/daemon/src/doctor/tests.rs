use std::collections::BTreeSet;

use market_api::doctor::{BID_FILES, Level, SlurmConf};
use market_api::v1::Role;

use super::host::SocketFacts;
use super::*;
use crate::facts::{AssociationFacts, NodeGpus, PoolFacts, SlurmFacts, UserFacts};

const NOW_S: i64 = 1_000_000;
const SLURMQ: u32 = 61_000;

/// A cluster, a daemon and its surroundings in which nothing is wrong.
#[derive(Debug, Clone)]
struct Site {
    engine: EngineFacts,
    host: Host,
    config: Config,
}

impl Site {
    fn cluster(&mut self) -> &mut ClusterFacts {
        &mut self.engine.read.as_mut().expect("was read").1
    }

    fn association(&mut self, of: usize) -> &mut AssociationFacts {
        &mut self.cluster().associations[of]
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

fn conf() -> SlurmConf {
    SlurmConf {
        job_submit_plugins: words("bid"),
        priority_type: "priority/multifactor".into(),
        site_factor_plugin: String::new(),
        scheduler_parameters: words("bf_continue"),
        weights: vec![("PriorityWeightAge".into(), 1000)],
        preempt_type: "preempt/qos".into(),
        preempts_nothing: false,
        stores_job_comment: true,
        accounting_tres: words("gres/gpu,gres/gpu:a100"),
        enforced: ["associations", "limits", "qos"].map(str::to_owned).into(),
        jobs_are_private: true,
        min_job_age_s: 300,
        plugin_dir: "/plugins".into(),
        controllers: 1,
    }
}

fn cluster() -> ClusterFacts {
    let user = |name: &str| UserFacts {
        name: name.into(),
        default_account: "vision".into(),
        is_operator: false,
        coordinates: BTreeSet::new(),
    };
    let association = |uid| AssociationFacts {
        account: "vision".into(),
        uid,
        partition: None,
        default_qos: "normal".into(),
        qos: words("normal,urgent,standard,spot,free"),
    };
    let gpus = NodeGpus { installed: 8, in_use: 0, in_supply: true };
    let pool = PoolFacts { nodes: [("gpu1".to_owned(), gpus)].into() };
    ClusterFacts {
        name: "market".into(),
        pools: [("a100".to_owned(), pool)].into(),
        users: [(1, user("ada")), (2, user("bob"))].into(),
        associations: vec![association(None), association(Some(1)), association(Some(2))],
        slurm: SlurmFacts {
            version: "22.05.8".into(),
            conf: conf(),
            conf_file: "/etc/slurm/slurm.conf".into(),
            munge_socket: "/munge".into(),
            qos: ["normal", "urgent", "standard", "spot", "free", "parked"].map(str::to_owned).into(),
        },
        ..ClusterFacts::default()
    }
}

fn healthy() -> Site {
    let plugin = |role| AttachedPlugin { role, slurm_version: "22.05.8".into(), version: "0.1.0".into() };
    let socket = |path: &str, mode| SocketFacts { path: path.into(), state: Ok((SLURMQ, mode)) };
    let text = "[pools.a100]\nweight = 1\n";
    Site {
        engine: EngineFacts {
            now_s: NOW_S,
            read: Some((NOW_S - 2, cluster())),
            accounting_queue_is_empty: true,
            sum_usu: 0,
            in_doubt: false,
            drains_since_s: None,
        },
        host: Host {
            version: "0.1.0".into(),
            uid: SLURMQ,
            built_for: "22.05.8".into(),
            plugins: vec![plugin(Role::JobSubmit), plugin(Role::Repricer)],
            site_factor_plugin: Some("site_factor/bid".into()),
            plugin_files: BID_FILES.map(str::to_owned).into(),
            plugin_socket: socket("/run/plugin.sock", 0o600),
            market_socket: socket("/run/market.sock", 0o666),
            socket_dir: socket("/run", 0o755),
            munge: Some(Ok(())),
            accounting: Ok(()),
        },
        config: Config::parse(text, std::path::Path::new("market.toml")).expect("is good"),
    }
}

fn not_ok(site: &Site) -> Vec<Finding> {
    let findings = findings(&site.engine, &site.host, &site.config);
    findings.into_iter().filter(|finding| finding.level != Level::Ok).collect()
}

#[test]
fn a_healthy_site_has_nothing_to_tell() {
    let site = healthy();
    assert_eq!(not_ok(&site), []);
    let subjects: Vec<String> =
        findings(&site.engine, &site.host, &site.config).into_iter().map(|finding| finding.subject).collect();
    let distinct: BTreeSet<&String> = subjects.iter().collect();
    assert_eq!(distinct.len(), subjects.len(), "{subjects:?}");
}

type Break = fn(&mut Site);

#[test]
fn each_finding_comes_alone_with_its_remedy() {
    let table: &[(Break, Level, &str, &str, &str)] = &[
        (
            |site| site.engine.now_s += 500,
            Level::Error,
            "slurmctld",
            "has not answered for 502 s",
            "systemctl status slurmctld",
        ),
        (
            |site| site.host.built_for = "22.05.9".into(),
            Level::Error,
            "versions",
            "slurmctld is Slurm 22.05.8, quotamarketd is built for 22.05.9",
            "build and install again",
        ),
        (
            |site| site.host.plugins[1].slurm_version = "24.11.5".into(),
            Level::Error,
            "versions",
            "is built for 24.11.5",
            "build and install again",
        ),
        (
            |site| site.host.plugins[0].version = "0.0.9".into(),
            Level::Warning,
            "versions",
            "quotamarketd is 0.1.0, the plugin job_submit/bid in slurmctld is 0.0.9",
            "systemctl restart quotamarketd slurmctld",
        ),
        (
            |site| drop(site.host.plugins.remove(0)),
            Level::Error,
            "plugin job_submit",
            "is not attached",
            "systemctl restart slurmctld",
        ),
        (
            |site| drop(site.host.plugins.remove(1)),
            Level::Error,
            "plugin priority",
            "site_factor/bid or priority/bid is not attached",
            "systemctl restart slurmctld",
        ),
        (
            |site| site.host.plugin_socket.state = Err("not found".into()),
            Level::Error,
            "plugin.sock",
            "/run/plugin.sock is gone (not found); slurmctld's plugins cannot connect",
            "systemctl restart quotamarketd",
        ),
        (
            |site| site.host.plugin_socket.state = Ok((0, 0o600)),
            Level::Error,
            "plugin.sock",
            "belongs to uid 0, and not to quotamarketd's uid 61000",
            "systemctl restart quotamarketd",
        ),
        (
            |site| site.host.market_socket.state = Ok((SLURMQ, 0o600)),
            Level::Error,
            "market.sock",
            "has mode 600 instead of 666",
            "chmod 666 /run/market.sock",
        ),
        (
            |site| site.host.socket_dir.state = Ok((SLURMQ, 0o700)),
            Level::Error,
            "socket_dir",
            "/run has mode 700: users cannot reach",
            "chmod 755 /run",
        ),
        (
            |site| site.host.socket_dir.state = Ok((SLURMQ, 0o777)),
            Level::Warning,
            "socket_dir",
            "others could put a socket",
            "chmod 755 /run",
        ),
        (
            |site| site.host.socket_dir.state = Err("gone".into()),
            Level::Error,
            "socket_dir",
            "cannot be looked at (gone)",
            "systemctl restart quotamarketd",
        ),
        (
            |site| site.host.munge = Some(Err("/munge: refused".into())),
            Level::Error,
            "munge",
            "munged cannot be reached: /munge: refused",
            "systemctl restart munge",
        ),
        (
            |site| site.host.accounting = Err("timed out".into()),
            Level::Error,
            "slurmdbd",
            "does not answer (timed out); receipts wait",
            "systemctl status slurmdbd",
        ),
        (
            |site| site.engine.accounting_queue_is_empty = false,
            Level::Hint,
            "slurmdbd",
            "has not handed it everything",
            "sdiag",
        ),
        (
            |site| site.engine.sum_usu = -1,
            Level::Error,
            "ledger",
            "sum to -0.000001 SU and not to 0",
            "restore a backup",
        ),
        (
            |site| site.engine.in_doubt = true,
            Level::Error,
            "ledger",
            "cannot be written",
            "journalctl -u quotamarketd",
        ),
        (
            |site| site.engine.drains_since_s = Some(NOW_S - 600),
            Level::Hint,
            "drain",
            "for 10 min now",
            "sbid admin drain --undo",
        ),
        (
            |site| site.host.plugin_files.clear(),
            Level::Error,
            "PluginDir",
            "job_submit_bid.so and site_factor_bid.so is missing from /plugins",
            "install -m 755",
        ),
        (
            |site| site.cluster().slurm.qos.retain(|qos| qos != "free"),
            Level::Error,
            "QOS",
            "of market.toml's tiers there is no free",
            "sbid admin setup --print",
        ),
        (
            |site| site.association(1).qos = words("normal,urgent,spot,free"),
            Level::Hint,
            "QOS standard",
            "1 of 2 associations may not use it: ada in vision",
            "sacctmgr -i modify account where cluster=market set qos+=standard",
        ),
        (
            |site| (1..3).for_each(|of| site.association(of).qos = words("urgent,standard,spot")),
            Level::Error,
            "QOS free",
            "no association may use it",
            "sacctmgr -i modify account where cluster=market set qos+=free",
        ),
        (
            |site| site.association(2).default_qos = "standard".into(),
            Level::Error,
            "DefaultQOS",
            "is standard for 1 associations, whose jobs without a bid are refused: bob in vision",
            "sacctmgr -i modify user bob where account=vision set defaultqos=normal",
        ),
        (
            |site| site.config.pools.clear(),
            Level::Hint,
            "pools",
            "no table for a100; the weight is 1",
            "[pools.a100] with weight = N",
        ),
        (
            |site| {
                let pool = site.config.pools["a100"];
                site.config.pools.insert("h100".into(), pool);
                site.cluster().slurm.conf.accounting_tres.push("gres/gpu:h100".into());
            },
            Level::Warning,
            "pools",
            "prices h100, and no node has such GPUs",
            "name them as Slurm does: [pools.a100]",
        ),
        (
            |site| site.cluster().slurm.conf.stores_job_comment = false,
            Level::Warning,
            "AccountingStoreFlags",
            "lacks job_comment",
            "AccountingStoreFlags=job_comment",
        ),
    ];
    for (break_it, level, subject, sentence, remedy) in table {
        let mut site = healthy();
        break_it(&mut site);
        let findings = not_ok(&site);
        let [finding] = findings.as_slice() else { panic!("{subject}: {findings:?}") };
        assert_eq!((finding.level, finding.subject.as_str()), (*level, *subject), "{finding:?}");
        assert!(finding.sentence.contains(sentence), "{finding:?}");
        assert!(finding.remedy.contains(remedy), "{finding:?}");
    }
}

#[test]
fn before_slurmctld_was_read_all_else_is_told() {
    let mut site = healthy();
    site.engine.read = None;
    let findings = not_ok(&site);
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!((finding.level, finding.subject.as_str()), (Level::Error, "slurmctld"));
}

#[test]
fn users_without_any_association_cannot_bid() {
    let mut site = healthy();
    site.cluster().associations.truncate(1);
    let findings = not_ok(&site);
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!((finding.level, finding.subject.as_str()), (Level::Error, "associations"));
}
