//! What a process takes of the machine, from /proc.

use std::fs;
use std::time::Duration;

const READINGS: usize = 10;
const BETWEEN: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Footprint {
    pub(crate) rss_kib: f64,
    pub(crate) private_dirty_kib: f64,
    pub(crate) threads: f64,
}

impl Footprint {
    /// slurmctld has a thread for each request: the least of some readings is what stays.
    pub(crate) fn of(pid: i32) -> Self {
        let readings = (0..READINGS).map(|_| {
            std::thread::sleep(BETWEEN);
            Self::now(pid)
        });
        let least = |left: Self, right: Self| Self {
            rss_kib: left.rss_kib.min(right.rss_kib),
            private_dirty_kib: left.private_dirty_kib.min(right.private_dirty_kib),
            threads: left.threads.min(right.threads),
        };
        readings.reduce(least).expect("some readings")
    }

    fn now(pid: i32) -> Self {
        let memory = read(pid, "smaps_rollup");
        Self {
            rss_kib: field(&memory, "Rss:"),
            private_dirty_kib: field(&memory, "Private_Dirty:"),
            threads: field(&read(pid, "status"), "Threads:"),
        }
    }
}

/// User and system time of a process so far.
pub(crate) fn cpu(pid: i32) -> Duration {
    let stat = read(pid, "stat");
    // The command's name before the parenthesis may hold anything.
    let after_name = stat.rsplit_once(") ").expect("a name").1;
    let fields: Vec<&str> = after_name.split(' ').collect();
    let ticks: u64 = [fields[11], fields[12]].iter().map(|ticks| ticks.parse::<u64>().expect("ticks")).sum();
    // SAFETY: asks for a constant of the system.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).expect("a rate");
    Duration::from_millis(ticks * 1_000 / per_second)
}

fn read(pid: i32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).expect("a process that lives")
}

fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a field of /proc");
    line.split_whitespace().next().and_then(|value| value.parse().ok()).expect("a number")
}
