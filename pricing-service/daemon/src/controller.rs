//! The thread that talks to slurmctld: it reads everything every few seconds, and sooner when it is told that
//! something happened. slurmctld may take a minute to answer; nobody else waits for it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use market::stamp::Stamp;
use slurm_client::ClientError;
use slurm_client::controller::{self, JobUpdate};

use crate::clock::{monotonic_ns, now_s};
use crate::engine::Event;
use crate::facts::Facts;
use crate::translate;

/// However many hints come, slurmctld is not read more often.
const READS_APART: Duration = Duration::from_millis(300);
/// Configuration and associations change seldom.
const CLUSTER_READ_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum Request {
    ReadNow,
    Restamp { job_id: u32, stamp: Stamp },
}

/// Asks the thread for something; never waits.
#[derive(Debug, Clone)]
pub(crate) struct ControllerPort {
    requests: Sender<Request>,
}

impl ControllerPort {
    /// Something happened in slurmctld.
    pub(crate) fn read_now(&self) {
        // The thread lives as long as the process.
        let _ = self.requests.send(Request::ReadNow);
    }

    /// The bid of record in Slurm follows the ledger's.
    pub(crate) fn restamp(&self, job_id: u32, stamp: Stamp) {
        let _ = self.requests.send(Request::Restamp { job_id, stamp });
    }
}

pub(crate) fn port() -> (ControllerPort, ControllerInbox) {
    let (sender, receiver) = std::sync::mpsc::channel();
    (ControllerPort { requests: sender }, ControllerInbox { requests: receiver })
}

#[derive(Debug)]
pub(crate) struct ControllerInbox {
    requests: Receiver<Request>,
}

/// Cluster name for the slurmdbd thread, which cannot start before it is known.
pub(crate) type ClusterName = Arc<Mutex<Option<String>>>;

pub(crate) fn spawn(
    inbox: ControllerInbox,
    events: Sender<Event>,
    cluster_name: ClusterName,
    poll: Duration,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("slurmctld".into()).spawn(move || {
        let mut thread = ControllerThread {
            events,
            cluster_name,
            restamps: BTreeMap::new(),
            cluster: None,
            outage_told: false,
        };
        thread.run(&inbox.requests, poll);
    })
}

struct ControllerThread {
    events: Sender<Event>,
    cluster_name: ClusterName,
    /// Stamps still to be written; the newest of each job counts.
    restamps: BTreeMap<u32, Stamp>,
    cluster: Option<(Instant, ClusterRead)>,
    outage_told: bool,
}

#[derive(Clone)]
struct ClusterRead {
    config: controller::Config,
    partitions: Vec<controller::Partition>,
    people: controller::AssociationsReply,
}

impl ControllerThread {
    fn run(&mut self, requests: &Receiver<Request>, poll: Duration) {
        loop {
            let began = Instant::now();
            match self.read() {
                Ok(facts) => {
                    self.note_outage(None);
                    self.write_stamps(&facts);
                    if self.events.send(Event::Facts(Box::new(facts))).is_err() {
                        return;
                    }
                }
                Err(error) => self.note_outage(Some(&error)),
            }
            if !self.wait(requests, began, poll) {
                return;
            }
        }
    }

    /// Until the next read is due, or a request wants it sooner.
    fn wait(&mut self, requests: &Receiver<Request>, began: Instant, poll: Duration) -> bool {
        let mut due = began + poll;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            match requests.recv_timeout(left) {
                Ok(Request::ReadNow) => due = due.min(began + READS_APART),
                Ok(Request::Restamp { job_id, stamp }) => {
                    self.restamps.insert(job_id, stamp);
                    due = due.min(began + READS_APART);
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn note_outage(&mut self, error: Option<&ClientError>) {
        match error {
            Some(error) if !self.outage_told => tracing::warn!("slurmctld does not answer: {error}"),
            None if self.outage_told => tracing::info!("slurmctld answers again"),
            _ => {}
        }
        self.outage_told = error.is_some();
    }

    fn read(&mut self) -> Result<Facts, ClientError> {
        let cluster = self.read_cluster()?;
        let statistics = controller::statistics()?;
        let read_began_ns = monotonic_ns();
        let as_of_s = now_s();
        let jobs = controller::jobs(None)?.map(|reply| reply.jobs).unwrap_or_default();
        let nodes = controller::nodes(None)?.map(|reply| reply.nodes).unwrap_or_default();
        let facts = translate::cluster(&cluster.config, &nodes, &cluster.partitions, &cluster.people);
        let jobs = translate::jobs(&jobs, &facts);
        *self.cluster_name.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts.name.clone());
        Ok(Facts {
            read_began_ns,
            as_of_s,
            cluster: facts,
            waiting: jobs.waiting,
            runs: jobs.runs,
            known_uuids: jobs.known_uuids,
            accounting_queue_is_empty: statistics.slurmdbd_queue_len == 0,
        })
    }

    fn read_cluster(&mut self) -> Result<ClusterRead, ClientError> {
        if let Some((at, read)) = &self.cluster
            && at.elapsed() < CLUSTER_READ_EVERY
        {
            return Ok(read.clone());
        }
        let read = ClusterRead {
            config: controller::config()?,
            partitions: controller::partitions(None)?.map(|reply| reply.partitions).unwrap_or_default(),
            people: controller::associations()?,
        };
        self.cluster = Some((Instant::now(), read.clone()));
        Ok(read)
    }

    /// Only jobs that still wait are written to; what Slurm refuses for good is dropped.
    fn write_stamps(&mut self, facts: &Facts) {
        let pending = std::mem::take(&mut self.restamps);
        for (job_id, stamp) in pending {
            let waits = facts.waiting.iter().any(|job| job.identity.job_id == job_id);
            if !waits {
                continue;
            }
            let update = JobUpdate { job_id, admin_comment: Some(stamp.to_string()), ..JobUpdate::default() };
            match controller::update_job(&update) {
                Ok(()) => {}
                Err(error) if error.is_transient() => {
                    self.restamps.insert(job_id, stamp);
                }
                Err(error) => tracing::warn!("job {job_id} keeps its old bid in AdminComment: {error}"),
            }
        }
    }
}
