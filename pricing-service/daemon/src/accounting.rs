//! The thread that talks to slurmdbd: it looks up how runs ended that slurmctld has forgotten, searches gaps, and
//! writes receipts. slurmdbd may be down for days; all that is outstanding is simply wanted again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use market::stamp::{Stamp, with_receipt};
use slurm_client::ClientError;
use slurm_client::accounting::{Connection, Run as AccountedRun, Runs};

use crate::clock::now_s;
use crate::controller::ClusterName;
use crate::engine::{EndTold, Event, Gap, RunKey};
use crate::facts::{Ending, Run};
use crate::model::SegmentRow;
use crate::patience::{Patience, Wish};
use crate::translate;

/// After an error, before the next try.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(15);
/// Work that stays undone, such as a record that is not there yet, is tried again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Receipts of one try; slurmdbd writes them one by one.
const RECEIPTS_AT_ONCE: usize = 200;
/// Asked for to see whether slurmdbd answers; Slurm gives no job this id.
const NO_JOB: u32 = 0;
/// Job ids of one query.
const LOOKUPS_AT_ONCE: usize = 500;

/// All that is wanted of slurmdbd at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AccountingWork {
    /// Jobs whose runs slurmctld no longer shows.
    pub(crate) lookups: BTreeSet<u32>,
    pub(crate) receipts: Vec<ReceiptDue>,
    /// A time that is to be searched for runs that were missed; slurmctld has handed over everything.
    pub(crate) gap: Option<Gap>,
    pub(crate) pool_of_node: BTreeMap<String, String>,
}

impl AccountingWork {
    pub(crate) fn is_empty(&self) -> bool {
        self.lookups.is_empty() && self.receipts.is_empty() && self.gap.is_none()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReceiptDue {
    pub(crate) segment: SegmentRow,
    pub(crate) job_id: u32,
    pub(crate) start_s: i64,
    pub(crate) receipt: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AccountingFound {
    pub(crate) runs: Vec<Run>,
    /// Of the jobs that were looked up, with a stamp or without.
    pub(crate) endings: Vec<Ending>,
    /// Job id and start of every run that slurmdbd has of those jobs, ended or not.
    pub(crate) starts: BTreeSet<RunKey>,
    pub(crate) gap_searched: Option<Gap>,
    pub(crate) receipts_read_back: Vec<SegmentRow>,
}

/// Where the engine leaves what it wants; only the newest wish counts.
#[derive(Debug, Default)]
pub(crate) struct WorkBoard {
    wishes: Mutex<Wishes>,
    posted: Condvar,
    probed: Condvar,
}

#[derive(Debug, Default)]
struct Wishes {
    work: Option<AccountingWork>,
    /// Somebody wants to know whether slurmdbd answers.
    probe: bool,
    /// Why the last call failed, if it did, and which call that was.
    trouble: Option<String>,
    calls: u64,
}

impl WorkBoard {
    pub(crate) fn post(&self, work: AccountingWork) {
        self.lock().work = Some(work);
        self.posted.notify_one();
    }

    /// Whether slurmdbd answers now. While it is being called anyway, what comes of that counts.
    pub(crate) fn probe(&self, patience: Duration) -> Result<(), String> {
        let mut wishes = self.lock();
        let calls = wishes.calls;
        wishes.probe = true;
        self.posted.notify_one();
        let waiting = |wishes: &mut Wishes| wishes.calls == calls;
        let (wishes, timeout) =
            self.probed.wait_timeout_while(wishes, patience, waiting).unwrap_or_else(PoisonError::into_inner);
        match &wishes.trouble {
            Some(trouble) => Err(trouble.clone()),
            None if timeout.timed_out() => Err(format!("no answer within {} s", patience.as_secs())),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_call(&self, trouble: Option<String>) {
        let mut wishes = self.lock();
        wishes.trouble = trouble;
        wishes.calls += 1;
        self.probed.notify_all();
    }

    /// Work, and whether a sign of life is wanted too.
    fn take(&self) -> (AccountingWork, bool) {
        let mut wishes = self.lock();
        loop {
            let work = wishes.work.take().filter(|work| !work.is_empty());
            let probe = std::mem::take(&mut wishes.probe);
            if work.is_some() || probe {
                return (work.unwrap_or_default(), probe);
            }
            wishes = self.posted.wait(wishes).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

pub(crate) fn spawn(
    board: Arc<WorkBoard>,
    events: Sender<Event>,
    cluster_name: ClusterName,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("slurmdbd".into()).spawn(move || {
        let _told = EndTold { thread: "slurmdbd", events: events.clone() };
        run(&board, &events, &cluster_name);
    })
}

fn run(board: &WorkBoard, events: &Sender<Event>, cluster_name: &ClusterName) {
    let mut connection: Option<Connection> = None;
    let mut retry = RETRY_FIRST;
    let mut outage_told = false;
    let mut patience = Patience::default();
    loop {
        let (wanted, probe) = board.take();
        let work = patience.due(wanted, Instant::now());
        if work.is_empty() && !probe {
            // Until the engine's next wish at the earliest, which comes with every read of slurmctld.
            continue;
        }
        let name = cluster_name.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default();
        let mut found = AccountingFound::default();
        let done = with_connection(&mut connection, &name, |connection| {
            if probe {
                connection.runs_of(&[NO_JOB], Runs::All)?;
            }
            do_work(connection, &work, &mut patience, &mut found)
        });
        board.note_call(done.as_ref().err().map(ToString::to_string));
        if found != AccountingFound::default() && events.send(Event::Accounting(found)).is_err() {
            return;
        }
        match done {
            Ok(()) => {
                if std::mem::take(&mut outage_told) {
                    tracing::info!("slurmdbd answers again");
                }
                retry = RETRY_FIRST;
                std::thread::sleep(AGAIN);
            }
            Err(error) => {
                if !std::mem::replace(&mut outage_told, true) {
                    tracing::warn!("slurmdbd does not answer: {error}; receipts wait for it");
                }
                connection = None;
                std::thread::sleep(retry);
                retry = (retry * 2).min(RETRY_MOST);
            }
        }
    }
}

fn with_connection(
    connection: &mut Option<Connection>,
    cluster: &str,
    work: impl FnOnce(&mut Connection) -> Result<(), ClientError>,
) -> Result<(), ClientError> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(Connection::open(cluster)?),
    };
    work(connection)
}

/// Does what it can; what was found before an error is kept.
fn do_work(
    connection: &mut Connection,
    work: &AccountingWork,
    patience: &mut Patience,
    found: &mut AccountingFound,
) -> Result<(), ClientError> {
    let run = |record: &AccountedRun| translate::accounted_run(record, &work.pool_of_node);
    let job_ids: Vec<u32> = work.lookups.iter().copied().collect();
    for job_ids in job_ids.chunks(LOOKUPS_AT_ONCE) {
        let records = connection.runs_of(job_ids, Runs::All)?;
        found.runs.extend(records.iter().filter_map(run));
        found.endings.extend(records.iter().filter_map(translate::ending));
        let start = |record: &AccountedRun| Some((record.job_id, record.segment_start_s()?));
        found.starts.extend(records.iter().filter_map(start));
        patience.tried(job_ids.iter().copied().map(Wish::Lookup), Instant::now());
    }
    if let Some(gap) = work.gap {
        let records = connection.runs_ended(gap.search_from_s(), now_s())?;
        found.runs.extend(records.iter().filter_map(run));
        found.gap_searched = Some(gap);
    }
    for due in work.receipts.chunks(RECEIPTS_AT_ONCE) {
        write_receipts(connection, due, patience, found)?;
    }
    Ok(())
}

/// A receipt counts as written when a later query reads it back.
fn write_receipts(
    connection: &mut Connection,
    due: &[ReceiptDue],
    patience: &mut Patience,
    found: &mut AccountingFound,
) -> Result<(), ClientError> {
    let job_ids: BTreeSet<u32> = due.iter().map(|due| due.job_id).collect();
    let job_ids: Vec<u32> = job_ids.into_iter().collect();
    let records = connection.runs_of(&job_ids, Runs::All)?;
    for due in due {
        let was_tried = patience.tried([Wish::Receipt(due.segment)], Instant::now());
        let of_run = |record: &&AccountedRun| {
            record.job_id == due.job_id && record.segment_start_s() == Some(due.start_s)
        };
        let Some(record) = records.iter().find(of_run) else { continue };
        match write_receipt(connection, record, &due.receipt) {
            Ok(true) => found.receipts_read_back.push(due.segment),
            Ok(false) => {}
            Err(error) if is_outage(&error) => return Err(error),
            Err(_) if was_tried => {}
            Err(error) => tracing::warn!("the receipt of job {} cannot be written: {error}", due.job_id),
        }
    }
    Ok(())
}

/// Whether slurmdbd itself is gone, so that the other receipts need not be tried. What is wrong with one record, such as
/// text that the database does not keep, stops no other.
fn is_outage(error: &ClientError) -> bool {
    matches!(error, ClientError::Slurm { .. }) && error.is_transient()
}

/// Whether the record carries the receipt now. A record without an end is left alone: slurmctld's own message about
/// the end would overwrite it.
fn write_receipt(
    connection: &mut Connection,
    record: &AccountedRun,
    receipt: &str,
) -> Result<bool, ClientError> {
    let Some(key) = record.key() else { return Ok(false) };
    let before = record.admin_comment.as_deref().unwrap_or_default();
    let after = with_receipt(before, receipt);
    if after == before && Stamp::find(before).is_none() {
        return Ok(true);
    }
    connection.set_admin_comment(&key, &after)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_take_its_receipt_is_no_outage() {
        let run = || "job 7".to_owned();
        assert!(!is_outage(&ClientError::NotKept { run: run() }));
        assert!(!is_outage(&ClientError::NoSuchRun { run: run() }));
        assert!(!is_outage(&ClientError::AmbiguousRun { run: run(), records: 2 }));
        let slurm = |code| ClientError::Slurm { call: "slurmdb_jobs_get", code, text: String::new() };
        assert!(is_outage(&slurm(libc::ECONNREFUSED)));
    }
}
