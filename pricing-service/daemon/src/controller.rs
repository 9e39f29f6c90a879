//! The thread that talks to slurmctld: it reads everything every few seconds, and sooner when it is told that
//! something happened. slurmctld may take a minute to answer; nobody else waits for it.

mod changes;

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use market::stamp::Stamp;
use slurm_client::ClientError;
use slurm_client::controller;

use self::changes::Changes;
pub(crate) use self::changes::{Entered, Entry};
use crate::charge::{self, StandBy};
use crate::clock::{monotonic_ns, now_s};
use crate::engine::{EndTold, Event};
use crate::eviction::{Act, Acted};
use crate::facts::Facts;
use crate::translate;

/// However many hints come, slurmctld is not read more often.
const READS_APART: Duration = Duration::from_millis(300);
/// A slurmctld with many jobs takes long to tell of them: it gets this many times as long for its own work.
const REST_FOR_EACH_READ: u32 = 2;
/// And so many times as long before a hint has it read sooner than it is due: in a flood of submissions, each read
/// tells of all jobs again.
const REST_BEFORE_HINTED_READ: u32 = 50;
/// Configuration and associations change seldom.
const CLUSTER_READ_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum Request {
    ReadNow,
    Restamp { job_id: u32, stamp: Stamp },
    Act(Act),
    Enter(Entry),
    Drain(bool),
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

    /// A step of an eviction; answered with [`Event::Acted`].
    pub(crate) fn act(&self, act: Act) {
        let _ = self.requests.send(Request::Act(act));
    }

    /// Brings a waiting job into the market; [`Event::Entered`] tells what Slurm said to it.
    pub(crate) fn enter(&self, entry: Entry) {
        let _ = self.requests.send(Request::Enter(entry));
    }

    /// From now on, or no longer, every waiting job is taken out of the market.
    pub(crate) fn drain(&self, drains: bool) {
        let _ = self.requests.send(Request::Drain(drains));
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

#[cfg(test)]
impl ControllerInbox {
    /// The steps asked for since the last look.
    pub(crate) fn acts(&self) -> Vec<Act> {
        let act = |request| if let Request::Act(act) = request { Some(act) } else { None };
        self.requests.try_iter().filter_map(act).collect()
    }

    /// The stamps asked for since the last look.
    pub(crate) fn stamps(&self) -> Vec<(u32, Stamp)> {
        let stamp = |request| match request {
            Request::Restamp { job_id, stamp } => Some((job_id, stamp)),
            Request::ReadNow | Request::Act(_) | Request::Enter(_) | Request::Drain(_) => None,
        };
        self.requests.try_iter().filter_map(stamp).collect()
    }

    /// The jobs that are to enter the market, of all that was asked since the last look, and the last word on
    /// draining.
    pub(crate) fn entries(&self) -> (Vec<Entry>, Option<bool>) {
        let mut asked = (Vec::new(), None);
        for request in self.requests.try_iter() {
            match request {
                Request::Enter(entry) => asked.0.push(entry),
                Request::Drain(drains) => asked.1 = Some(drains),
                Request::ReadNow | Request::Restamp { .. } | Request::Act(_) => {}
            }
        }
        asked
    }
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
        let _told = EndTold { thread: "slurmctld", events: events.clone() };
        let mut thread = ControllerThread {
            events,
            cluster_name,
            changes: Changes::default(),
            acts: Vec::new(),
            cluster: None,
            unreadable_nodes: BTreeSet::new(),
            outage_told: false,
        };
        thread.run(&inbox.requests, poll);
    })
}

struct ControllerThread {
    events: Sender<Event>,
    cluster_name: ClusterName,
    changes: Changes,
    acts: Vec<Act>,
    cluster: Option<(Instant, Arc<ClusterRead>)>,
    unreadable_nodes: BTreeSet<String>,
    outage_told: bool,
}

/// What came of asking slurmctld.
enum Outcome {
    Read(Box<Read>),
    /// Nothing has changed: the former facts hold.
    Unchanged,
    StandBy(StandBy),
}

/// Facts, and the records that they come from.
struct Read {
    facts: Facts,
    jobs: Vec<controller::Job>,
}

struct ClusterRead {
    config: controller::Config,
    partitions: Vec<controller::Partition>,
    people: controller::AssociationsReply,
}

impl ControllerThread {
    fn run(&mut self, requests: &Receiver<Request>, poll: Duration) {
        loop {
            let began = Instant::now();
            let (mut rest, mut rest_if_hinted) = (READS_APART, READS_APART);
            match self.read() {
                Ok(Outcome::Read(mut read)) => {
                    let took = began.elapsed();
                    rest = rest.max(took * REST_FOR_EACH_READ);
                    rest_if_hinted = rest.max(took * REST_BEFORE_HINTED_READ);
                    self.note_outage(None);
                    let entered = self.changes.write(&mut read);
                    self.act(Act::run);
                    if self.events.send(Event::Facts(Box::new(read.facts))).is_err() {
                        return;
                    }
                    self.tell(entered);
                }
                Ok(Outcome::Unchanged) => self.note_outage(None),
                Ok(Outcome::StandBy(why)) => {
                    self.note_outage(None);
                    self.changes.forget_stamps();
                    self.give_up(&why.to_string());
                    if self.events.send(Event::StandBy(why)).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    self.note_outage(Some(&error));
                    self.give_up(&format!("slurmctld does not answer ({error})"));
                }
            }
            let now = Instant::now();
            let due = (began + poll).max(now + rest);
            if !self.wait(requests, (now + rest_if_hinted).min(due), due) {
                return;
            }
        }
    }

    /// Until the next read is due, or a request wants it sooner, but at least to `soonest`, which is no later.
    fn wait(&mut self, requests: &Receiver<Request>, soonest: Instant, mut due: Instant) -> bool {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            match requests.recv_timeout(left) {
                Ok(Request::ReadNow) => due = soonest,
                Ok(Request::Act(act)) => {
                    self.acts.push(act);
                    due = soonest;
                }
                Ok(request) => {
                    self.changes.note(request);
                    due = soonest;
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// When slurmctld is back, something else may be wanted.
    fn give_up(&mut self, why: &str) {
        self.act(Act::not_done);
        let refused = self.changes.refuse_entries(why);
        self.tell(refused);
    }

    fn tell(&self, entered: Vec<Entered>) {
        for entered in entered {
            // The engine may have ended.
            let _ = self.events.send(Event::Entered(entered));
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

    /// Part of an answer is never taken for the whole: an empty list of jobs would close every order.
    fn read(&mut self) -> Result<Outcome, ClientError> {
        let Some(cluster) = self.read_cluster()? else { return Ok(Outcome::Unchanged) };
        let statistics = controller::statistics()?;
        let read_began_ns = monotonic_ns();
        let as_of_s = now_s();
        let Some(jobs) = controller::jobs(None)?.map(|reply| reply.jobs) else {
            return Ok(Outcome::Unchanged);
        };
        let read_ended_ns = monotonic_ns();
        let Some(nodes) = controller::nodes(None)?.map(|reply| reply.nodes) else {
            return Ok(Outcome::Unchanged);
        };
        // After the read, which the controller that took over may have answered.
        if let Some(why) = charge::stand_by(&cluster.config) {
            return Ok(Outcome::StandBy(why));
        }
        let facts = translate::cluster(
            &cluster.config,
            &nodes,
            &cluster.partitions,
            &cluster.people,
            &mut self.unreadable_nodes,
        );
        let translated = translate::jobs(&jobs, &facts);
        *self.cluster_name.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts.name.clone());
        let facts = Facts {
            read_began_ns,
            read_ended_ns,
            as_of_s,
            cluster: facts,
            waiting: translated.waiting,
            unpriced: translated.unpriced,
            runs: translated.runs,
            known_uuids: translated.known_uuids,
            accounting_queue_is_empty: statistics.slurmdbd_queue_len == 0,
        };
        Ok(Outcome::Read(Box::new(Read { facts, jobs })))
    }

    fn read_cluster(&mut self) -> Result<Option<Arc<ClusterRead>>, ClientError> {
        if let Some((at, read)) = &self.cluster
            && at.elapsed() < CLUSTER_READ_EVERY
        {
            return Ok(Some(Arc::clone(read)));
        }
        let Some(partitions) = controller::partitions(None)? else { return Ok(None) };
        let read = Arc::new(ClusterRead {
            config: controller::config()?,
            partitions: partitions.partitions,
            people: controller::associations()?,
        });
        self.cluster = Some((Instant::now(), Arc::clone(&read)));
        Ok(Some(read))
    }

    fn act(&mut self, how: fn(&Act) -> Acted) {
        for act in self.acts.drain(..) {
            // The engine is gone only when the process ends.
            let _ = self.events.send(Event::Acted(how(&act)));
        }
    }
}
