//! What is written into Slurm's records of waiting jobs: a changed bid, a job that enters the market, and jobs that
//! leave it when it is taken out of service.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use market::stamp::{Stamp, with_stamp, without_stamp};
use slurm_client::controller::{Job, JobUpdate, update_job};

use super::{Read, Request};
use crate::facts::Facts;
use crate::translate;

/// Jobs are taken out of the market for so long after each read of slurmctld; it has other work.
const DRAIN_FOR: Duration = Duration::from_secs(2);
/// The plugin sets factors to 0 when it hears that the market drains, but for jobs that are held or whose priority an
/// operator has set. After this long no plugin sets any other factor, and what is left is reset like the rest.
const FACTORS_RESET_WITHIN: Duration = Duration::from_secs(3);

/// A waiting job that is to carry a bid from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) job_id: u32,
    /// Slurm may have given the id to another job since.
    pub(crate) submitted_s: i64,
    pub(crate) stamp: Stamp,
    pub(crate) qos: String,
}

/// What became of an [`Entry`]. The facts sent before it contain the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) uuid: String,
    /// Slurm's reason, as the end of a sentence.
    pub(crate) outcome: Result<(), String>,
}

/// All that is still to be written.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The newest stamp of each job counts.
    restamps: BTreeMap<u32, Stamp>,
    entries: Vec<Entry>,
    drains_since: Option<Instant>,
    /// Jobs that Slurm keeps as they are, such as those of scrontab; each is told of once.
    kept: BTreeSet<u32>,
}

impl Changes {
    pub(super) fn note(&mut self, request: Request) {
        match request {
            Request::ReadNow | Request::Act(_) => {}
            Request::Restamp { job_id, stamp } => drop(self.restamps.insert(job_id, stamp)),
            Request::Enter(entry) => self.entries.push(entry),
            Request::Drain(drains) => {
                self.drains_since = drains.then(|| self.drains_since.unwrap_or_else(Instant::now));
                self.kept.clear();
            }
        }
    }

    /// Writes what it can to jobs that still wait; the facts then say what Slurm has from now on.
    pub(super) fn write(&mut self, read: &mut Read) -> Vec<Entered> {
        self.write_stamps(read);
        let entered = self.write_entries(read);
        if let Some(since) = self.drains_since {
            self.take_out(read, since.elapsed() >= FACTORS_RESET_WITHIN);
        }
        entered
    }

    /// Another host's slurmctld is in charge; the engine asks again for what it still wants when this one is.
    pub(super) fn forget_stamps(&mut self) {
        self.restamps.clear();
    }

    /// Nothing can be written now; whoever waits for an entry is told why.
    pub(super) fn refuse_entries(&mut self, why: &str) -> Vec<Entered> {
        let refused = |entry: Entry| Entered {
            uuid: entry.stamp.uuid,
            outcome: Err(format!("{why}; try again later")),
        };
        self.entries.drain(..).map(refused).collect()
    }

    /// What Slurm refuses for good is dropped.
    fn write_stamps(&mut self, read: &Read) {
        for (job_id, stamp) in std::mem::take(&mut self.restamps) {
            let waits = read.facts.waiting.iter().any(|job| job.identity.job_id == job_id);
            let record = read.jobs.iter().find(|job| waits && job.job_id == job_id);
            let before = record.and_then(|job| job.admin_comment.as_deref()).unwrap_or_default();
            let Some(after) = restamped(before, &stamp) else { continue };
            let update = JobUpdate { job_id, admin_comment: Some(after), ..JobUpdate::default() };
            match update_job(&update) {
                Ok(()) => {}
                Err(error) if error.is_transient() => {
                    self.restamps.insert(job_id, stamp);
                }
                Err(error) => tracing::warn!("job {job_id} keeps its old bid in AdminComment: {error}"),
            }
        }
    }

    fn write_entries(&mut self, read: &mut Read) -> Vec<Entered> {
        let entries = std::mem::take(&mut self.entries);
        let outcome = |entry: Entry| {
            let uuid = entry.stamp.uuid.clone();
            Entered { uuid, outcome: enter(&entry, read) }
        };
        entries.into_iter().map(outcome).collect()
    }

    /// Jobs whose factor is not 0 yet are left for later, unless it is `late`.
    fn take_out(&mut self, read: &mut Read, late: bool) {
        let until = Instant::now() + DRAIN_FOR;
        let Read { facts, jobs } = read;
        let records: BTreeMap<u32, &Job> = jobs.iter().map(|job| (job.job_id, job)).collect();
        let Facts { waiting, unpriced, cluster, .. } = facts;
        waiting.retain(|job| {
            let job_id = job.identity.job_id;
            let record = records.get(&job_id).filter(|record| late || record.site_factor == 0);
            let Some(record) = record.filter(|_| Instant::now() < until) else { return true };
            let qos = cluster.association_of(&job.identity).map(|association| association.default_qos());
            match update_job(&leaving(record, qos)) {
                Ok(()) => {
                    let mut job = job.clone().stamped(translate::without_bid(record));
                    // What the default is, the next read tells.
                    job.identity.qos = None;
                    unpriced.push(job);
                    false
                }
                Err(error) if error.is_transient() => true,
                Err(error) => {
                    if self.kept.insert(job_id) {
                        tracing::warn!("job {job_id} keeps its bid and QOS: {error}");
                    }
                    true
                }
            }
        });
    }
}

/// One answer from Slurm for QOS and stamp: both are set, or neither.
fn enter(entry: &Entry, read: &mut Read) -> Result<(), String> {
    let place =
        read.facts.unpriced.iter().position(|job| {
            (job.identity.job_id, job.identity.submitted_s) == (entry.job_id, entry.submitted_s)
        });
    let record = read.jobs.iter().find(|job| job.job_id == entry.job_id);
    let Some((place, record)) = place.zip(record) else {
        return Err("it no longer waits".into());
    };
    update_job(&entering(record, entry)).map_err(|error| error.to_string())?;
    let mut job = read.facts.unpriced.swap_remove(place).stamped(entry.stamp.clone());
    job.identity.qos = Some(entry.qos.clone());
    read.facts.known_uuids.insert(entry.stamp.uuid.clone());
    read.facts.waiting.push(job);
    Ok(())
}

fn entering(record: &Job, entry: &Entry) -> JobUpdate {
    let before = record.admin_comment.as_deref().unwrap_or_default();
    JobUpdate {
        job_id: record.job_id,
        admin_comment: Some(with_stamp(before, &entry.stamp)),
        qos: Some(entry.qos.clone()),
        ..JobUpdate::default()
    }
}

/// `qos` is the association's default, by its name: 24.11 does not take a blank for it (src/slurmctld/job_mgr.c:
/// `_update_job`). Without an association Slurm has no say about QOS either.
fn leaving(record: &Job, qos: Option<&str>) -> JobUpdate {
    let before = record.admin_comment.as_deref().unwrap_or_default();
    JobUpdate {
        job_id: record.job_id,
        admin_comment: Some(without_stamp(before)),
        qos: qos.map(str::to_owned),
        site_factor: Some(0),
        ..JobUpdate::default()
    }
}

/// The AdminComment with another stamp in the place of the present one and all other text as it was; `None` if it
/// carries no stamp, or this one already.
fn restamped(admin_comment: &str, stamp: &Stamp) -> Option<String> {
    let (present, place) = Stamp::find(admin_comment)?;
    let (before, after) = (&admin_comment[..place.start], &admin_comment[place.end..]);
    (present != *stamp).then(|| format!("{before}{stamp}{after}"))
}

#[cfg(test)]
mod tests {
    use market::amount::Price;
    use market::order::Tier;

    use super::*;

    fn stamp(limit: &str) -> Stamp {
        Stamp {
            uuid: "0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e".into(),
            limit: Price::parse(limit).expect("price"),
            tier: Tier::Standard,
            signal: None,
            unavailable: false,
        }
    }

    #[test]
    fn what_an_administrator_wrote_stays() {
        let before = format!("ticket 4711; {}; watched by ops", stamp("2"));
        let after = format!("ticket 4711; {}; watched by ops", stamp("3.5"));
        assert_eq!(restamped(&before, &stamp("3.5")), Some(after.clone()));
        assert_eq!(restamped(&after, &stamp("3.5")), None, "nothing to write");
    }

    #[test]
    fn what_carries_no_stamp_gets_none() {
        for admin_comment in ["", "ticket 4711", "bid:3.5"] {
            assert_eq!(restamped(admin_comment, &stamp("1")), None);
        }
    }

    fn record(admin_comment: Option<String>) -> Job {
        Job { job_id: 12, admin_comment, site_factor: 640, ..Job::default() }
    }

    #[test]
    fn a_job_that_enters_keeps_what_an_administrator_wrote() {
        let entry = Entry { job_id: 12, submitted_s: 1, stamp: stamp("2"), qos: "standard".into() };
        let update = entering(&record(Some("ticket 4711".into())), &entry);
        assert_eq!(update.admin_comment, Some(format!("ticket 4711; {}", stamp("2"))));
        assert_eq!((update.job_id, update.qos.as_deref(), update.site_factor), (12, Some("standard"), None));
        assert_eq!(entering(&record(None), &entry).admin_comment, Some(stamp("2").to_string()));
    }

    #[test]
    fn a_job_that_leaves_is_as_if_it_had_never_had_a_bid() {
        let update = leaving(&record(Some(format!("ticket 4711; {}", stamp("2")))), Some("normal"));
        assert_eq!(update.admin_comment.as_deref(), Some("ticket 4711"));
        assert_eq!((update.qos.as_deref(), update.site_factor), (Some("normal"), Some(0)));
    }
}
