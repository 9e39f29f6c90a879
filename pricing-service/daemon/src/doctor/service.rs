//! The daemon, the plugins and what they need around them.

use market::amount::Amount;
use market_api::config::Config;
use market_api::doctor::{Finding, Level};
use market_api::v1::Role;

use super::host::{Host, SocketFacts};
use super::{AttachedPlugin, EngineFacts};

/// slurmctld may be busy for so long.
const SILENCE_MOST_S: i64 = 60;

pub(super) fn findings(engine: &EngineFacts, host: &Host, config: &Config) -> Vec<Finding> {
    let mut findings = vec![
        Finding::ok("quotamarketd", format!("{} runs as uid {}.", host.version, host.uid)),
        slurmctld(engine, config),
        versions(engine, host),
        attached(host, Role::JobSubmit, "job_submit/bid"),
        attached(host, Role::Repricer, "site_factor/bid or priority/bid"),
        socket(&host.plugin_socket, host.uid, 0o600, "slurmctld's plugins"),
        socket(&host.market_socket, host.uid, 0o666, "every user"),
        directory(&host.socket_dir),
        accounting(engine, host),
        ledger(engine),
    ];
    findings.extend(host.munge.as_ref().map(munge));
    if let Some(since_s) = engine.drains_since_s {
        let minutes = (engine.now_s - since_s).max(0) / 60;
        let sentence =
            format!("the market is being taken out of service, for {minutes} min now; no bid counts.");
        findings.push(Finding::new(Level::Hint, "drain", sentence, "sbid admin drain --undo"));
    }
    findings
}

fn slurmctld(engine: &EngineFacts, config: &Config) -> Finding {
    const SUBJECT: &str = "slurmctld";
    let remedy = "systemctl status slurmctld, and the end of its log";
    let Some((read_s, _)) = &engine.read else {
        let sentence = "has not answered since quotamarketd started; nothing can be priced.";
        return Finding::new(Level::Error, SUBJECT, sentence, remedy);
    };
    let age_s = (engine.now_s - read_s).max(0);
    if age_s > SILENCE_MOST_S.max(i64::from(config.poll_s) * 10) {
        let sentence = format!("has not answered for {age_s} s; prices and priorities rest.");
        return Finding::new(Level::Error, SUBJECT, sentence, remedy);
    }
    Finding::ok(SUBJECT, format!("answers; it is read every {} s.", config.poll_s))
}

fn versions(engine: &EngineFacts, host: &Host) -> Finding {
    const SUBJECT: &str = "versions";
    let built = host.built_for.as_str();
    let running = engine.read.as_ref().map_or(built, |(_, cluster)| cluster.slurm.version.as_str());
    if running != built {
        return Finding::new(
            Level::Error,
            SUBJECT,
            format!("slurmctld is Slurm {running}, quotamarketd is built for {built}."),
            "build and install again (README, Install), then restart quotamarketd and slurmctld",
        );
    }
    let of_other_slurm = host.plugins.iter().find(|plugin| plugin.slurm_version != running);
    if let Some(plugin) = of_other_slurm {
        return Finding::new(
            Level::Error,
            SUBJECT,
            format!(
                "slurmctld is Slurm {running}, its plugin {} is built for {}.",
                role(plugin),
                plugin.slurm_version
            ),
            "build and install again (README, Install), then restart slurmctld",
        );
    }
    let other = host.plugins.iter().find(|plugin| plugin.version != host.version);
    if let Some(plugin) = other {
        return Finding::new(
            Level::Warning,
            SUBJECT,
            format!(
                "quotamarketd is {}, the plugin {} in slurmctld is {}.",
                host.version,
                role(plugin),
                plugin.version
            ),
            "install both of one build, then: systemctl restart quotamarketd slurmctld",
        );
    }
    Finding::ok(SUBJECT, format!("Slurm {running}, market {} everywhere.", host.version))
}

fn role(plugin: &AttachedPlugin) -> &'static str {
    match plugin.role {
        Role::JobSubmit => "job_submit/bid",
        _ => "that sets priorities",
    }
}

fn attached(host: &Host, role: Role, name: &str) -> Finding {
    let subject = format!("plugin {}", if role == Role::JobSubmit { "job_submit" } else { "priority" });
    match host.plugins.iter().filter(|plugin| plugin.role == role).count() {
        0 => Finding::new(
            Level::Error,
            &subject,
            format!("{name} is not attached to quotamarketd."),
            "systemctl restart slurmctld; its log then says why, in lines with bid:",
        ),
        _ => Finding::ok(&subject, "is attached."),
    }
}

fn socket(socket: &SocketFacts, uid: u32, mode: u32, who: &str) -> Finding {
    let subject = socket.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = socket.path.display();
    match &socket.state {
        Err(why) => Finding::new(
            Level::Error,
            &subject,
            format!("{path} is gone ({why}); {who} cannot connect."),
            "systemctl restart quotamarketd",
        ),
        Ok((owner, _)) if *owner != uid => Finding::new(
            Level::Error,
            &subject,
            format!("{path} belongs to uid {owner}, and not to quotamarketd's uid {uid}."),
            "systemctl restart quotamarketd",
        ),
        Ok((_, found)) if *found != mode => Finding::new(
            Level::Error,
            &subject,
            format!("{path} has mode {found:o} instead of {mode:o}, so that not exactly {who} may connect."),
            format!("chmod {mode:o} {path}"),
        ),
        Ok(_) => Finding::ok(&subject, format!("{path} has mode {mode:o}: {who} may connect.")),
    }
}

fn directory(directory: &SocketFacts) -> Finding {
    const SUBJECT: &str = "socket_dir";
    let path = directory.path.display();
    match &directory.state {
        Err(why) => Finding::new(
            Level::Error,
            SUBJECT,
            format!("{path} cannot be looked at ({why})."),
            "systemctl restart quotamarketd",
        ),
        Ok((_, mode)) if mode & 0o001 == 0 => Finding::new(
            Level::Error,
            SUBJECT,
            format!("{path} has mode {mode:o}: users cannot reach the socket in it."),
            format!("chmod 755 {path}"),
        ),
        Ok((_, mode)) if mode & 0o022 != 0 => Finding::new(
            Level::Warning,
            SUBJECT,
            format!("{path} has mode {mode:o}: others could put a socket of theirs in its place."),
            format!("chmod 755 {path}"),
        ),
        Ok((_, mode)) => Finding::ok(SUBJECT, format!("{path} has mode {mode:o}.")),
    }
}

fn munge(reached: &Result<(), String>) -> Finding {
    const SUBJECT: &str = "munge";
    match reached {
        Ok(()) => Finding::ok(SUBJECT, "munged answers."),
        Err(why) => Finding::new(
            Level::Error,
            SUBJECT,
            format!("munged cannot be reached: {why}."),
            "systemctl restart munge",
        ),
    }
}

fn accounting(engine: &EngineFacts, host: &Host) -> Finding {
    const SUBJECT: &str = "slurmdbd";
    let remedy = "systemctl status slurmdbd, and the end of its log";
    match &host.accounting {
        Err(why) => {
            Finding::new(Level::Error, SUBJECT, format!("does not answer ({why}); receipts wait."), remedy)
        }
        Ok(()) if !engine.accounting_queue_is_empty => Finding::new(
            Level::Hint,
            SUBJECT,
            "answers, but slurmctld has not handed it everything yet.",
            "sdiag shows the queue; look again in a minute",
        ),
        Ok(()) => Finding::ok(SUBJECT, "answers."),
    }
}

fn ledger(engine: &EngineFacts) -> Finding {
    const SUBJECT: &str = "ledger";
    if engine.sum_usu != 0 {
        let sum = Amount::from_micros(engine.sum_usu).fixed6();
        return Finding::new(
            Level::Error,
            SUBJECT,
            format!("is broken: its accounts sum to {sum} SU and not to 0."),
            "stop quotamarketd and restore a backup of ledger.sqlite",
        );
    }
    if engine.in_doubt {
        return Finding::new(
            Level::Error,
            SUBJECT,
            "cannot be written; nothing is booked, and prices stand.",
            "journalctl -u quotamarketd says why; often the disk of state_dir is full",
        );
    }
    Finding::ok(SUBJECT, "sums to 0 SU.")
}
