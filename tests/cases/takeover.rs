//! A backup controller takes over, and the primary comes back. Both run on this host, each at an address and under a
//! host name of its own.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use system_tests::{Cluster, eventually};

use crate::runs::{assert_exact, await_receipts};

const SOON: Duration = Duration::from_secs(40);
/// Longer than anyone waits for slurmctld, shorter than its clients' patience.
const NO_WAIT: Duration = Duration::from_secs(8);
const BACKUP: &str = "standby";
const ASK: &[&str] = &["-p", "a100", "--gres=gpu:a100:8", "-N2", "-t10"];

/// The name of this machine, as the daemon and Slurm compare it with the controllers' names.
fn this_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("reads");
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

/// A slurmctld that the test started itself.
struct Controller(Child);

impl Controller {
    /// `SLURM_CONF` differs because two controllers on one host need two files for their process ids and logs.
    fn start(cluster: &Cluster, name: &str, conf: &str) -> Self {
        let etc = cluster.dir().join("etc");
        let variables = [
            format!("NSS_WRAPPER_HOSTNAME={name}"),
            format!("NSS_WRAPPER_HOSTS={}", etc.join("hosts").display()),
            format!("SLURM_CONF={}", etc.join(conf).display()),
        ];
        let [name, hosts, conf] = &variables;
        let mut command = cluster.command("slurmq", &["env", name, hosts, conf, "slurmctld", "-D"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("starts"))
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("waits").is_some()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gives a running cluster two controllers, of which none runs yet.
fn with_two_controllers(cluster: &Cluster) {
    cluster.daemon("stop", "slurmctld");
    let etc: PathBuf = cluster.dir().join("etc");
    let conf = std::fs::read_to_string(etc.join("slurm.conf")).expect("reads");
    let host = this_host();
    let controllers = format!(
        "SlurmctldHost={host}(127.0.0.1)\nSlurmctldHost={BACKUP}(127.0.0.2)\nCommunicationParameters=NoCtldInAddrAny"
    );
    let conf = conf.replace("SlurmctldHost=localhost(127.0.0.1)", &controllers);
    // A client that meets neither controller in charge asks again after half of this.
    let conf = conf.replace("SlurmctldTimeout=60", "SlurmctldTimeout=10");
    assert!(conf.contains(BACKUP) && conf.contains("SlurmctldTimeout=10"));
    std::fs::write(etc.join("slurm.conf"), &conf).expect("writes");
    let backup =
        conf.replace("run/slurmctld.pid", "run/backup.pid").replace("log/slurmctld.log", "run/backup.log");
    std::fs::write(etc.join("backup.conf"), backup).expect("writes");
    std::fs::write(etc.join("hosts"), format!("127.0.0.1 {host}\n127.0.0.2 {BACKUP}\n")).expect("writes");
}

fn answers(cluster: &Cluster) {
    eventually("a controller answers", SOON, || cluster.run("root", &["squeue"]).success.then_some(()));
}

fn site(cluster: &Cluster, id: u32) -> Option<u64> {
    cluster.ok("root", &["sprio", "-h", "-j", &id.to_string(), "-o", "%S"]).trim().parse().ok()
}

fn submit(cluster: &Cluster, bid: &str, options: &[&str]) -> u32 {
    let asked = Instant::now();
    let comment = format!("--comment=bid:{bid}");
    let id = cluster.sbatch("vis1", &[ASK, &[&comment], options].concat(), "sleep 300");
    assert!(asked.elapsed() < NO_WAIT, "sbatch took {:?}", asked.elapsed());
    id
}

/// Submits held jobs until one is stamped like this.
fn await_stamp(cluster: &Cluster, ending: &str) {
    eventually(&format!("bids are stamped {ending}"), SOON, || {
        let id = submit(cluster, "0.9", &["--hold"]);
        let stamp = cluster.job(id, "AdminComment").unwrap_or_default();
        cluster.ok("vis1", &["scancel", &id.to_string()]);
        stamp.ends_with(ending).then_some(())
    });
}

#[test]
fn a_backup_takes_over_and_the_primary_comes_back() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "1000");
    with_two_controllers(&cluster);
    let host = this_host();
    let mut primary = Controller::start(&cluster, &host, "slurm.conf");
    answers(&cluster);
    cluster.ok("root", &["scontrol", "reconfigure"]);
    cluster.daemon("stop", "quotamarketd");
    cluster.daemon("start", "quotamarketd");
    let mut backup = Controller::start(&cluster, BACKUP, "backup.conf");
    eventually("the backup stands by", SOON, || {
        let told = cluster.run("root", &["scontrol", "ping"]).stdout;
        (told.matches("is UP").count() == 2).then_some(())
    });
    await_stamp(&cluster, " 0.9 tier=standard");

    let mut running = submit(&cluster, "2", &[]);
    cluster.await_state(running, "RUNNING");
    for bid in ["1.5", "1.2"] {
        let waiting = submit(&cluster, bid, &[]);
        let factor = eventually("sprio shows the job", SOON, || site(&cluster, waiting));
        cluster.ok("root", &["scontrol", "takeover"]);
        eventually("the primary has ended", SOON, || primary.has_ended().then_some(()));
        answers(&cluster);
        assert_eq!(cluster.state(running), "RUNNING");
        eventually("the waiting job has its factor", SOON, || {
            (site(&cluster, waiting) == Some(factor)).then_some(())
        });
        await_stamp(&cluster, " 0.9 tier=free why=unavailable");
        let told = cluster.run("vis1", &["sbid", "balance"]);
        assert!(!told.success && told.stderr.contains(&format!("in charge is that of {BACKUP}")), "{told:?}");
        // One run ends and another begins under the backup.
        cluster.ok("vis1", &["scancel", &running.to_string()]);
        cluster.await_state(waiting, "RUNNING");
        primary = Controller::start(&cluster, &host, "slurm.conf");
        eventually("the primary is in charge", SOON, || {
            let told = cluster.run("root", &["scontrol", "ping"]).stdout;
            (told.matches("is UP").count() == 2).then_some(())
        });
        answers(&cluster);
        assert!(!backup.has_ended(), "the backup stands by again");
        await_stamp(&cluster, " 0.9 tier=standard");
        running = waiting;
        cluster.await_state(running, "RUNNING");
    }
    cluster.ok("vis1", &["scancel", &running.to_string()]);
    let runs = await_receipts(&cluster, 3);
    assert_exact(&cluster, &runs, 1000);
    drop((primary, backup));
}
