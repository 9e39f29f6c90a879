//! Blocks of submissions to a slurmctld with the plugins, and without.

use std::fs;
use std::time::Duration;

use benches::quantile;
use system_tests::{Cluster, eventually};

use crate::footprint::{Footprint, cpu};
use crate::submitter::{self, Answer};

const JOB_SUBMIT_KEY: &str = "JobSubmitPlugins=";
const SITE_FACTOR_KEY: &str = "PrioritySiteFactorPlugin=";
const WARM_UP_JOBS: u32 = 100;
const ENDS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arm {
    Without,
    /// The plugins alone: the daemon is frozen for the block, for less time than makes it count as gone.
    Plugins,
    /// The plugins, and the daemon at work beside slurmctld.
    Product,
}

/// The figures of one block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) per_second: f64,
    /// slurmctld's time on a CPU for each submission.
    pub(crate) cpu_us: f64,
    /// The daemon's.
    pub(crate) daemon_cpu_us: f64,
    /// Each submission as slurmctld's own log times it.
    pub(crate) logged_p50_us: f64,
    /// As the client sees it.
    pub(crate) client_p50_us: f64,
}

/// slurmctld before the first job, and with a block's jobs.
#[derive(Debug)]
pub(crate) struct Footprints {
    pub(crate) idle: Footprint,
    pub(crate) full: Footprint,
}

pub(crate) struct Bench<'a> {
    cluster: &'a Cluster,
    jobs: u32,
    /// slurm.conf with the plugins.
    conf: String,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(cluster: &'a Cluster, jobs: u32) -> Self {
        let conf = fs::read_to_string(cluster.dir().join("etc/slurm.conf")).expect("the cluster has one");
        Self { cluster, jobs, conf }
    }

    pub(crate) fn footprints(&self, arm: Arm) -> Footprints {
        self.restart(arm);
        let pid = self.cluster.pid("slurmctld");
        let idle = Footprint::of(pid);
        self.submit(self.jobs);
        let full = Footprint::of(pid);
        self.cancel_all();
        Footprints { idle, full }
    }

    /// Starts slurmctld anew, as it will be for the blocks that follow.
    pub(crate) fn restart(&self, arm: Arm) {
        for daemon in ["slurmctld", "quotamarketd"] {
            if self.cluster.runs(daemon) {
                self.cluster.daemon("stop", daemon);
            }
        }
        // What is cancelled stays for a while.
        for name in ["job_state", "job_state.old"] {
            let _ = fs::remove_file(self.cluster.dir().join("ctld").join(name));
        }
        match arm {
            Arm::Plugins | Arm::Product => {
                self.write_conf(&[]);
                self.cluster.daemon("start", "quotamarketd");
                self.cluster.daemon("start", "slurmctld");
                self.cluster.attached();
            }
            Arm::Without => {
                self.write_conf(&[JOB_SUBMIT_KEY, SITE_FACTOR_KEY]);
                self.cluster.daemon("start", "slurmctld");
            }
        }
    }

    /// Loads job_submit/bid into the running slurmctld or takes it out; without it the daemon is frozen. The site
    /// factor's plugin, which Slurm changes only at a restart and does not ask about held jobs, stays.
    pub(crate) fn switch_to(&self, arm: Arm) {
        match arm {
            Arm::Plugins | Arm::Product => {
                self.cluster.signal("quotamarketd", libc::SIGCONT);
                self.write_conf(&[]);
                self.reconfigure();
                self.cluster.attached();
            }
            Arm::Without => {
                self.write_conf(&[JOB_SUBMIT_KEY]);
                self.reconfigure();
            }
        }
        self.submit(WARM_UP_JOBS);
        if arm != Arm::Product {
            self.cluster.signal("quotamarketd", libc::SIGSTOP);
        }
    }

    pub(crate) fn block(&self) -> Block {
        let log_before = self.log().len();
        let pids = ["slurmctld", "quotamarketd"].map(|daemon| self.cluster.pid(daemon));
        let cpu_before = pids.map(cpu);
        let answer = self.submit(self.jobs);
        let cpu_after = pids.map(cpu);
        let logged = eventually("slurmctld logs every submission", ENDS_WITHIN, || {
            let logged = logged_us(&self.log()[log_before..]);
            (logged.len() == self.jobs as usize).then_some(logged)
        });
        let jobs = f64::from(self.jobs);
        let of_cpu = |process: usize| (cpu_after[process] - cpu_before[process]).as_secs_f64() * 1e6 / jobs;
        Block {
            per_second: jobs / answer.elapsed.as_secs_f64(),
            cpu_us: of_cpu(0),
            daemon_cpu_us: of_cpu(1),
            logged_p50_us: quantile(&logged, 0.5) as f64,
            client_p50_us: answer.p50.as_secs_f64() * 1e6,
        }
    }

    pub(crate) fn cancel_all(&self) {
        self.cluster.ok("root", &["scancel", "--quiet", "--partition=h100"]);
        eventually("no job is pending", ENDS_WITHIN, || {
            self.cluster.ok("root", &["squeue", "-h", "-t", "pending"]).is_empty().then_some(())
        });
    }

    /// What job_submit/bid told of itself whenever it was taken out: p50 and p99 in microseconds of each whole block.
    pub(crate) fn told(&self) -> Vec<(f64, f64)> {
        self.log().lines().filter_map(|line| told(line, self.jobs)).collect()
    }

    fn reconfigure(&self) {
        self.cluster.ok("root", &["scontrol", "reconfigure"]);
    }

    fn write_conf(&self, left_out: &[&str]) {
        let lines = self.conf.lines().filter(|line| !left_out.iter().any(|key| line.starts_with(key)));
        let conf: String = lines.flat_map(|line| [line, "\n"]).collect();
        fs::write(self.cluster.dir().join("etc/slurm.conf"), conf).expect("the cluster's directory");
    }

    fn submit(&self, jobs: u32) -> Answer {
        let program = std::env::current_exe().expect("the benchmark's own path");
        let program = program.to_str().expect("a plain path");
        Answer::parse(&self.cluster.ok("root", &[program, submitter::WORD, &jobs.to_string()]))
    }

    fn log(&self) -> String {
        let path = self.cluster.dir().join("log/slurmctld.log");
        String::from_utf8_lossy(&fs::read(path).expect("slurmctld's log")).into_owned()
    }
}

/// The times of submissions in slurmctld's log, sorted: `_slurm_rpc_submit_batch_job: JobId=7 InitPrio=0 usec=311`.
fn logged_us(log: &str) -> Vec<u64> {
    let lines = log.lines().filter(|line| line.contains("_slurm_rpc_submit_batch_job: JobId="));
    let mut times: Vec<u64> =
        lines.filter_map(|line| line.rsplit_once("usec=")?.1.trim().parse().ok()).collect();
    times.sort_unstable();
    times
}

/// `bid: job_submit 1103 calls, p50 3.6 us, p99 25 us, max 180 us`, of at least so many calls.
fn told(line: &str, calls: u32) -> Option<(f64, f64)> {
    let figures = line.split_once("bid: job_submit ")?.1;
    let words: Vec<&str> = figures.split_whitespace().collect();
    match words[..] {
        [count, "calls,", "p50", p50, "us,", "p99", p99, "us,", ..]
            if count.parse::<u32>().ok()? >= calls =>
        {
            Some((p50.parse().ok()?, p99.parse().ok()?))
        }
        _ => None,
    }
}
