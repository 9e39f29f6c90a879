//! One private cluster, and what a test does with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::wait::eventually;

const FIRST_PORT: u16 = 21_000;
const PORTS_EACH: u16 = 20;
const SOON: Duration = Duration::from_secs(30);

/// Two pools.
const POOLS: &str = "\
[pools.a100]
weight = 1

[pools.h100]
weight = 2
";

/// Which plugin brings the bids into the priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// `site_factor/bid` under `priority/multifactor`.
    #[default]
    SiteFactor,
    /// `priority/bid` before `priority/multifactor`.
    Priority,
}

/// How a cluster differs from the usual one.
#[derive(Debug, Clone)]
pub struct Setting {
    pub role: Role,
    /// Seconds between two reads of slurmctld.
    pub poll_s: u32,
    /// More lines before the tables of market.toml.
    pub market: String,
    /// Lines of slurm.conf.
    pub conf: String,
    /// Where plugins and programs were built, if not in the usual place.
    pub built: Option<PathBuf>,
    /// Lines "account user uid", if not the usual teams.
    pub teams: Option<String>,
    /// The first of the ports to choose from.
    pub first_port: u16,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            role: Role::default(),
            poll_s: 1,
            market: String::new(),
            conf: String::new(),
            built: None,
            teams: None,
            first_port: FIRST_PORT,
        }
    }
}

/// A running cluster; it ends with the value.
#[derive(Debug)]
pub struct Cluster {
    directory: TempDir,
    dir: PathBuf,
}

/// What a command did.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub success: bool,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            success: output.status.success(),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// `target/<profile>` of this build, where the plugins and programs lie too.
pub fn built_dir() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own path");
    test.ancestors().nth(2).expect("tests are built into target/<profile>/deps").to_path_buf()
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/cluster")
}

/// Port ranges go round, from another place in each process, so that clusters of tests that run at once differ; one
/// that is taken is skipped.
fn next_port(first: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let place = std::process::id() + u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
    first + u16::try_from(place % 100).unwrap_or(0) * PORTS_EACH
}

impl Cluster {
    /// The usual cluster: plugins loaded, daemon running, no money anywhere.
    pub fn up() -> Self {
        Self::with(&Setting::default())
    }

    pub fn with(setting: &Setting) -> Self {
        Self::start(setting).unwrap_or_else(|told| panic!("the cluster does not start: {told}"))
    }

    /// As [`Cluster::with`], for what may be no cluster.
    ///
    /// # Errors
    /// What `contrib/cluster up` says, with the last lines of the log that matters.
    pub fn start(setting: &Setting) -> Result<Self, String> {
        let directory =
            tempfile::Builder::new().prefix("qm-").tempdir_in("/tmp").expect("temporary directory");
        let dir = directory.path().join("c");
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("writes");
            path
        };
        let times =
            format!("quantum_s = 5\npoll_s = {}\nstale_after_s = {}\n", setting.poll_s, setting.poll_s + 2);
        let market = write("market.toml", &format!("{times}{}\n{POOLS}", setting.market));
        let conf = write("conf", &setting.conf);
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).expect("opens the directory");
        let cluster = Self { directory, dir };
        let built = setting.built.clone().unwrap_or_else(built_dir);
        let mut options: Vec<PathBuf> =
            vec!["--product".into(), built, "--market".into(), market, "--conf".into(), conf];
        let role = match setting.role {
            Role::SiteFactor => "site-factor",
            Role::Priority => "priority",
        };
        options.extend(["--role".into(), role.into()]);
        if let Some(teams) = &setting.teams {
            options.extend(["--teams".into(), write_into(&cluster.directory, "teams", teams)]);
        }
        for _ in 0..10 {
            let port = next_port(setting.first_port);
            let outcome = cluster.script(["up", "--port", &port.to_string()], &options);
            if outcome.success {
                return Ok(cluster);
            }
            if !outcome.stderr.contains("in use") {
                return Err(outcome.stderr);
            }
        }
        Err("no free range of ports".to_owned())
    }

    fn script<'a>(&self, words: impl IntoIterator<Item = &'a str>, options: &[PathBuf]) -> Outcome {
        let output = Command::new(script())
            .args(words)
            .arg("--dir")
            .arg(&self.dir)
            .args(options)
            .stdin(Stdio::null())
            .output()
            .expect("contrib/cluster runs");
        output.into()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts, stops (SIGTERM) or kills (SIGKILL) a daemon of the cluster.
    pub fn daemon(&self, verb: &str, daemon: &str) {
        let outcome = self.try_daemon(verb, daemon);
        assert!(outcome.success, "{verb} {daemon}: {}", outcome.stderr);
    }

    /// As [`Cluster::daemon`], for what may fail.
    pub fn try_daemon(&self, verb: &str, daemon: &str) -> Outcome {
        self.script([verb, daemon], &[])
    }

    pub fn pid(&self, daemon: &str) -> i32 {
        let text =
            std::fs::read_to_string(self.dir.join("pids").join(daemon)).expect("the daemon was started");
        text.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a process id")
    }

    pub fn signal(&self, daemon: &str, signal: i32) {
        let pid = self.pid(daemon);
        // SAFETY: kill has no memory effects; the process is a daemon of this cluster.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "{daemon} cannot be signalled");
    }

    pub fn runs(&self, daemon: &str) -> bool {
        let outcome = self.script(["status"], &[]);
        outcome.stdout.lines().any(|line| line.starts_with(&format!("{daemon} runs")))
    }

    /// A command as a user of the cluster, not yet started.
    pub fn command(&self, user: &str, words: &[&str]) -> Command {
        let mut command = Command::new(script());
        command.args(["as", user, "--dir"]).arg(&self.dir).arg("--").args(words).stdin(Stdio::null());
        command
    }

    pub fn run(&self, user: &str, words: &[&str]) -> Outcome {
        self.command(user, words).output().expect("runs").into()
    }

    /// The output of a command that must succeed.
    pub fn ok(&self, user: &str, words: &[&str]) -> String {
        let outcome = self.run(user, words);
        assert!(outcome.success, "{words:?} as {user}: {outcome:?}");
        outcome.stdout
    }

    /// Submits a batch job that runs `script`, and returns its id.
    pub fn sbatch(&self, user: &str, options: &[&str], script: &str) -> u32 {
        let words = [&["sbatch", "--parsable"], options, &["--wrap", script]].concat();
        let outcome = self.run(user, &words);
        assert!(outcome.success, "{words:?}: {outcome:?}");
        assert_eq!(outcome.stderr, "", "an accepted submission says nothing");
        outcome.stdout.trim().parse().expect("a job id")
    }

    /// What a submission that must fail says.
    pub fn refused(&self, user: &str, options: &[&str]) -> String {
        let words = [&["sbatch", "--parsable"], options, &["--wrap", "true"]].concat();
        let outcome = self.run(user, &words);
        assert!(!outcome.success, "{words:?} was accepted: {outcome:?}");
        outcome.stderr
    }

    pub fn deposit(&self, account: &str, amount: &str) {
        eventually("quotamarketd takes a deposit", SOON, || {
            let outcome = self.run("root", &["sbid", "deposit", account, amount]);
            outcome.success.then_some(())
        });
        self.attached();
    }

    /// Until both plugins hold a snapshot: the daemon's word about them is its log, theirs what they do.
    pub fn attached(&self) {
        eventually("the plugins know the prices", SOON, || {
            let words = [
                "sbatch",
                "--test-only",
                "--gres=gpu:a100:1",
                "-t1",
                "--comment=bid:0.0001",
                "--wrap",
                "true",
            ];
            self.run("vis1", &words).stderr.contains("least price").then_some(())
        });
    }

    /// A field of `scontrol show job`; `None` if slurmctld has no such job.
    pub fn job(&self, id: u32, field: &str) -> Option<String> {
        let outcome = self.run("root", &["scontrol", "show", "job", "-d", &id.to_string()]);
        let key = format!("{field}=");
        // Comments have blanks in them and stand alone on their lines.
        let line = outcome.stdout.lines().map(str::trim).find(|line| {
            line.starts_with(&key) || line.split_whitespace().any(|word| word.starts_with(&key))
        })?;
        let value = &line[line.find(&key)? + key.len()..];
        let has_blanks = field.ends_with("Comment");
        Some(if has_blanks {
            value.into()
        } else {
            value.split_whitespace().next().unwrap_or_default().into()
        })
    }

    pub fn state(&self, id: u32) -> String {
        self.job(id, "JobState").unwrap_or_default()
    }

    pub fn await_state(&self, id: u32, state: &str) {
        eventually(&format!("job {id} is {state}"), SOON, || (self.state(id) == state).then_some(()));
    }

    /// Fields of every record of a job in slurmdbd.
    pub fn sacct(&self, id: u32, fields: &str) -> Vec<Vec<String>> {
        let words = ["sacct", "-X", "-n", "-P", "-D", "-j", &id.to_string(), "-o", fields];
        let outcome = self.run("root", &words);
        outcome.stdout.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
    }

    /// The receipt of a job's only run.
    pub fn receipt(&self, id: u32) -> String {
        eventually(&format!("job {id} has its receipt"), SOON, || {
            let records = self.sacct(id, "AdminComment");
            let [record] = records.as_slice() else { return None };
            record.first().filter(|comment| comment.starts_with("paid=")).cloned()
        })
    }

    pub fn json(&self, user: &str, words: &[&str]) -> serde_json::Value {
        let words = [&["sbid", "--json"], words].concat();
        let text = self.ok(user, &words);
        serde_json::from_str(&text).expect("JSON")
    }

    /// available, escrow, earmarked, free and charged of an account, by the names that sbid gives them.
    pub fn balance(&self, account: &str) -> BTreeMap<String, String> {
        let reply = self.json("root", &["balance", "-A", account]);
        let row = reply["accounts"][0].as_object().expect("one account").clone();
        row.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect()
    }

    /// A figure of a pool, by the name that sbid gives it, e.g. `gpus_in_supply`.
    pub fn pool_figure(&self, pool: &str, name: &str) -> Option<u64> {
        let reply = self.json("root", &["price"]);
        let pools = reply["pools"].as_array()?;
        pools.iter().find(|row| row["pool"] == pool)?[name].as_u64()
    }

    /// Every entry of the ledger but its time, and the sum over all accounts.
    pub fn ledger(&self) -> (Vec<String>, String) {
        let reply = self.json("root", &["ledger"]);
        let text =
            |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let entries = reply["entries"].as_array().expect("entries");
        let line = |entry: &serde_json::Value| {
            ["kind", "ledger_account", "amount"].map(|key| text(&entry[key])).join(" ")
        };
        (entries.iter().map(line).collect(), text(&reply["sum"]))
    }

    /// No money is in escrow, no funds are earmarked, and the ledger sums to zero.
    pub fn assert_at_rest(&self) {
        eventually("nothing is earmarked or in escrow", SOON, || {
            let at_rest = ["vision", "nlp"].iter().all(|account| {
                let balance = self.balance(account);
                balance["escrow"] == "0" && balance["earmarked"] == "0"
            });
            at_rest.then_some(())
        });
        assert_eq!(self.ledger().1, "0");
    }
}

fn write_into(directory: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, text).expect("writes");
    path
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let outcome = self.script(["down"], &["--purge".into()]);
        // A panic while another one unwinds would hide the first.
        if !outcome.success {
            eprintln!("the cluster in {} does not end: {}", self.dir.display(), outcome.stderr);
        }
    }
}
