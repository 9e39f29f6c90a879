use super::*;

fn market() -> Config {
    let text = "[pools.a100]\nweight = 1\n[pools.h100]\nweight = 2\n";
    Config::parse(text, std::path::Path::new("market.toml")).expect("is good")
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

fn healthy() -> SlurmConf {
    SlurmConf {
        job_submit_plugins: words("lua,bid"),
        priority_type: "priority/multifactor".into(),
        site_factor_plugin: "site_factor/bid".into(),
        scheduler_parameters: words("bf_continue,bf_interval=5"),
        weights: vec![("PriorityWeightAge".into(), 1000), ("PriorityWeightQOS".into(), 1000)],
        preempt_type: "preempt/qos".into(),
        preempts_nothing: false,
        stores_job_comment: true,
        accounting_tres: words("cpu,gres/gpu,gres/gpu:a100,gres/gpu:h100"),
        enforced: ["associations", "limits", "qos"].map(str::to_owned).into(),
        jobs_are_private: true,
        min_job_age_s: 300,
        plugin_dir: "/plugins:/other".into(),
        controllers: 1,
    }
}

fn files() -> BTreeSet<String> {
    BID_FILES.map(str::to_owned).into()
}

fn not_ok(conf: &SlurmConf, files: &BTreeSet<String>) -> Vec<Finding> {
    let findings = check(conf, &market(), files);
    findings.into_iter().filter(|finding| finding.level != Level::Ok).collect()
}

#[test]
fn a_healthy_configuration_has_nothing_to_tell() {
    assert_eq!(not_ok(&healthy(), &files()), []);
    let by_priority = SlurmConf {
        priority_type: "priority/bid".into(),
        site_factor_plugin: String::new(),
        min_job_age_s: 0,
        ..healthy()
    };
    assert_eq!(not_ok(&by_priority, &files()), []);
}

type Break = fn(&mut SlurmConf);

#[test]
fn each_finding_comes_alone_with_its_remedy() {
    let table: &[(Break, Level, &str, &str, &str)] = &[
        (
            |conf| conf.job_submit_plugins = words("lua"),
            Level::Error,
            "JobSubmitPlugins",
            "lacks bid",
            "JobSubmitPlugins=lua,bid",
        ),
        (
            |conf| conf.job_submit_plugins = words("bid,lua"),
            Level::Warning,
            "JobSubmitPlugins",
            "lua comes after bid",
            "JobSubmitPlugins=lua,bid",
        ),
        (
            |conf| conf.site_factor_plugin = String::new(),
            Level::Error,
            "PriorityType",
            "neither site_factor/bid nor priority/bid",
            "PriorityType=priority/multifactor and PrioritySiteFactorPlugin=site_factor/bid",
        ),
        (
            |conf| conf.priority_type = "priority/bid".into(),
            Level::Error,
            "PriorityType",
            "exclude each other",
            "delete the line PrioritySiteFactorPlugin",
        ),
        (
            |conf| conf.priority_type = "priority/basic".into(),
            Level::Error,
            "PriorityType",
            "no effect under priority/basic",
            "PriorityType=priority/multifactor",
        ),
        (
            |conf| conf.scheduler_parameters = words("bf_interval=5"),
            Level::Warning,
            "SchedulerParameters",
            "lacks bf_continue",
            "SchedulerParameters=bf_interval=5,bf_continue",
        ),
        (
            |conf| conf.weights.push(("PriorityWeightFairshare".into(), 100_000)),
            Level::Warning,
            "PriorityWeight",
            "PriorityWeightFairshare=100000 can outvote 6.1 doublings of a bid",
            "PriorityWeightFairshare=1638, or a larger per_doubling in market.toml",
        ),
        (
            |conf| conf.weights = (0..3).map(|_| ("PriorityWeightTRES".into(), 8_192)).collect(),
            Level::Hint,
            "PriorityWeight",
            "weigh 24576 and can outvote 1.5 doublings",
            "smaller PriorityWeight*",
        ),
        (
            |conf| conf.preempt_type = "preempt/none".into(),
            Level::Warning,
            "PreemptType",
            "is not preempt/qos; free jobs keep",
            "PreemptType=preempt/qos and PreemptMode=REQUEUE",
        ),
        (
            |conf| conf.preempts_nothing = true,
            Level::Warning,
            "PreemptType",
            "PreemptMode is OFF",
            "PreemptType=preempt/qos and PreemptMode=REQUEUE",
        ),
        (
            |conf| conf.stores_job_comment = false,
            Level::Warning,
            "AccountingStoreFlags",
            "lacks job_comment",
            "AccountingStoreFlags=job_comment",
        ),
        (
            |conf| conf.accounting_tres = words("cpu,gres/gpu:a100,gres/gpu:h100"),
            Level::Error,
            "AccountingStorageTRES",
            "lacks gres/gpu;",
            "AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:h100",
        ),
        (
            |conf| conf.accounting_tres = words("gres/gpu,gres/gpu:a100"),
            Level::Warning,
            "AccountingStorageTRES",
            "lacks gres/gpu:h100",
            "AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:h100",
        ),
        (
            |conf| conf.enforced.retain(|word| word != "qos"),
            Level::Error,
            "AccountingStorageEnforce",
            "lacks qos; every user",
            "AccountingStorageEnforce=associations,limits,qos",
        ),
        (
            |conf| conf.enforced.retain(|word| word != "limits"),
            Level::Warning,
            "AccountingStorageEnforce",
            "lacks limits",
            "AccountingStorageEnforce=associations,limits,qos",
        ),
        (
            |conf| conf.enforced.clear(),
            Level::Error,
            "AccountingStorageEnforce",
            "lacks associations, limits and qos; jobs may be charged",
            "AccountingStorageEnforce=associations,limits,qos",
        ),
        (
            |conf| conf.jobs_are_private = false,
            Level::Hint,
            "PrivateData",
            "every user sees all bids",
            "PrivateData=jobs",
        ),
        (|conf| conf.min_job_age_s = 20, Level::Warning, "MinJobAge", "is 20 s", "MinJobAge=300"),
        (
            |conf| conf.controllers = 2,
            Level::Hint,
            "SlurmctldHost",
            "names 2 controllers",
            "when_unavailable",
        ),
    ];
    for (break_it, level, subject, sentence, remedy) in table {
        let mut conf = healthy();
        break_it(&mut conf);
        let findings = not_ok(&conf, &files());
        let [finding] = findings.as_slice() else { panic!("{subject}: {findings:?}") };
        assert_eq!((finding.level, finding.subject.as_str()), (*level, *subject), "{finding:?}");
        assert!(finding.sentence.contains(sentence), "{finding:?}");
        assert!(finding.remedy.starts_with(remedy) || finding.remedy.contains(remedy), "{finding:?}");
    }
}

#[test]
fn only_the_files_of_configured_roles_must_be_there() {
    let some: BTreeSet<String> = BID_FILES[..2].iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(not_ok(&healthy(), &some), []);
    let findings = not_ok(&healthy(), &[BID_FILES[0].to_owned()].into());
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!((finding.level, finding.subject.as_str()), (Level::Error, "PluginDir"));
    assert!(
        finding.sentence.ends_with("is missing from /plugins:/other; bids are in no priority."),
        "{finding:?}"
    );
    assert_eq!(
        finding.remedy,
        "install -m 755 target/release/libsite_factor_bid.so /plugins/site_factor_bid.so"
    );
}
