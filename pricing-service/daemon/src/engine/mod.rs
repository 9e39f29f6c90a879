//! The one thread that owns the ledger. It takes facts, answers and commands from a channel, and brings ledger and
//! Slurm into line; nothing in it waits for Slurm or for a client.

mod commands;
mod drain;
mod entry;
mod escrow;
mod evict;
mod explain;
mod gap;
mod inbox;
mod line;
mod pass;
mod publish;
mod repeats;
mod round;
mod settle;
mod spot;
mod start;
mod terms;
mod views;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use market::stamp::Stamp;
use market_api::config::Config;
use market_api::v1::ChangeRefused;
use tokio::sync::watch;

use self::entry::AllEntering;
pub(crate) use self::gap::Gap;
use self::gap::Seen;
use self::inbox::Inbox;
pub(crate) use self::pass::RunKey;
use self::pass::{BookingError, Pass, PassError, RECENT_S, waiting_by_uuid};
use self::terms::Terms;
use self::waiting::Waiting;
use crate::accounting::{AccountingFound, AccountingWork, ReceiptDue, WorkBoard};
use crate::charge::StandBy;
use crate::controller::{ControllerPort, Entered};
use crate::eviction::Acted;
use crate::facts::{Ending, Facts, Run};
use crate::model::{Book, EvictionRow};
use crate::publication::Publication;
use crate::query::{Answer, Query, Reply};
use crate::store::{Store, StoreError};

/// The clock may fall back by this much, as when it is disciplined; time in the ledger then waits for it. A larger
/// step means that it was wrong before.
const CLOCK_STEP_S: i64 = 300;

/// Refused changes that are remembered; the oldest jobs' go first.
const REFUSED_KEPT: usize = 1000;

/// What the engine is told.
#[derive(Debug)]
pub(crate) enum Event {
    Facts(Box<Facts>),
    /// Another host's slurmctld is in charge.
    StandBy(StandBy),
    Accounting(AccountingFound),
    Query(Query, Answer),
    Acted(Acted),
    ChangeRefused(ChangeRefused),
    /// Slurm has answered to a job that was to enter the market.
    Entered(Entered),
    /// A thread has ended that the daemon is useless without.
    Lost(&'static str),
    Stop,
}

/// Held by a thread that the daemon is useless without; tells when that thread ends, were it by a panic.
#[derive(Debug)]
pub(crate) struct EndTold {
    pub(crate) thread: &'static str,
    pub(crate) events: Sender<Event>,
}

impl Drop for EndTold {
    fn drop(&mut self) {
        // The engine may have ended first.
        let _ = self.events.send(Event::Lost(self.thread));
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the thread for {0} has ended unexpectedly")]
    Lost(&'static str),
}

#[derive(Debug)]
pub(crate) struct Engine {
    config: Config,
    store: Store,
    book: Book,
    /// The book may not be what the store holds: a write failed.
    book_in_doubt: bool,
    /// UTC seconds.
    clock: fn() -> i64,
    began_s: i64,
    /// The newest facts; `None` until slurmctld was read for the first time, and while the daemon stands by.
    facts: Option<Facts>,
    stands_by: Option<StandBy>,
    /// When the slurmctld of the newest facts started.
    controller_began_s: Option<i64>,
    /// slurmctld reports the ends since then once more.
    repeats_from_s: Option<i64>,
    /// The facts of the last pass that was committed.
    seen: Option<Seen>,
    terms: Terms,
    waiting: Vec<Waiting>,
    /// What slurmdbd told of since the last pass.
    accounted: Accounted,
    /// Runs that cannot be booked, and so are left out.
    left_out: BTreeSet<RunKey>,
    gap: Option<Gap>,
    /// Evictions of which the slurmctld thread was told a step that it has not answered yet.
    told: BTreeSet<EvictionRow>,
    /// Stamps that waiting jobs were asked to get.
    restamped: BTreeMap<u32, Stamp>,
    /// The last change of each job that the plugin refused.
    refused: BTreeMap<u32, ChangeRefused>,
    entering: AllEntering,
    /// The market is being taken out of service since then.
    drains_since_s: Option<i64>,
    publications: watch::Sender<Arc<Publication>>,
    board: Arc<WorkBoard>,
    controller: ControllerPort,
}

#[derive(Debug, Default)]
struct Accounted {
    runs: Vec<Run>,
    endings: Vec<Ending>,
    /// Of every run that slurmdbd has of the jobs that were looked up.
    starts: BTreeSet<RunKey>,
}

impl Engine {
    pub(crate) fn new(
        config: Config,
        store: Store,
        clock: fn() -> i64,
        publications: watch::Sender<Arc<Publication>>,
        board: Arc<WorkBoard>,
        controller: ControllerPort,
    ) -> Result<Self, EngineError> {
        let book = store.load(clock() - RECENT_S)?;
        let terms = Terms::new(&config, &Default::default());
        let drains_since_s = drain::since_s(&store)?;
        if drains_since_s.is_some() {
            controller.drain(true);
        }
        Ok(Self {
            config,
            store,
            book,
            book_in_doubt: false,
            clock,
            began_s: 0,
            facts: None,
            stands_by: None,
            controller_began_s: None,
            repeats_from_s: None,
            seen: None,
            terms,
            waiting: Vec::new(),
            accounted: Accounted::default(),
            left_out: BTreeSet::new(),
            gap: None,
            told: BTreeSet::new(),
            restamped: BTreeMap::new(),
            refused: BTreeMap::new(),
            entering: AllEntering::new(),
            drains_since_s,
            publications,
            board,
            controller,
        })
    }

    /// Works until it is told to stop. An error here means that the daemon cannot do its work at all: it ends, and its
    /// next start reads what was last committed. A ledger that cannot be written is none: prices stand until it can.
    pub(crate) fn run(mut self, events: &Receiver<Event>) -> Result<(), EngineError> {
        let mut inbox = Inbox::default();
        while let Some(event) = inbox.next(events) {
            match event {
                Event::Facts(facts) => self.take_facts(*facts)?,
                Event::StandBy(why) => self.stand_by(why),
                Event::Accounting(found) => self.take_accounting(found),
                // Whoever asked may have gone.
                Event::Query(_, answer) if answer.is_closed() => {}
                Event::Query(query, answer) => match self.answer(query) {
                    Ok(Reply::Entering(uuid)) => self.answer_when_entered(&uuid, answer),
                    reply => drop(answer.send(reply)),
                },
                Event::Entered(entered) => self.take_entered(entered),
                Event::Acted(acted) => self.take_acted(&acted),
                Event::ChangeRefused(refused) => self.note_refused(refused),
                Event::Lost(thread) => return Err(EngineError::Lost(thread)),
                Event::Stop => break,
            }
        }
        Ok(())
    }

    fn take_facts(&mut self, facts: Facts) -> Result<(), EngineError> {
        if let Err(error) = self.look_for_changes(&facts) {
            if error.is_final() {
                return Err(error.into());
            }
            self.note_trouble(&error);
            return Ok(());
        }
        if self.stands_by.take().is_some() {
            tracing::info!("the slurmctld of this host is in charge again");
        }
        self.terms = Terms::new(&self.config, &facts.cluster);
        self.facts = Some(facts);
        self.pass();
        Ok(())
    }

    /// What slurmctld has done since the last facts that does not show in these.
    fn look_for_changes(&mut self, facts: &Facts) -> Result<(), StoreError> {
        let repeats_from_s = self.repeats_from_s(facts)?;
        self.look_for_gap(facts)?;
        if let Some(from_s) = repeats_from_s {
            self.expect_repeats(from_s)?;
        }
        self.controller_began_s = facts.cluster.controller_began_s;
        self.want_receipts_again(facts)
    }

    /// Books nothing, asks slurmdbd for nothing and lets the plugins hear nothing, so that they treat bids as in an
    /// outage. The facts that come after it are the first ones again: what was missed is searched in slurmdbd.
    fn stand_by(&mut self, why: StandBy) {
        if self.stands_by.as_ref() == Some(&why) {
            return;
        }
        tracing::warn!("{why}: standing by");
        self.stands_by = Some(why);
        self.facts = None;
        self.waiting.clear();
        self.restamped.clear();
        self.publications.send_replace(Arc::default());
        self.board.post(AccountingWork::default());
    }

    fn take_accounting(&mut self, found: AccountingFound) {
        if let Err(error) = self.note_receipts(&found) {
            self.note_trouble(&error);
            return;
        }
        let news = !found.runs.is_empty() || !found.endings.is_empty() || !found.starts.is_empty();
        self.accounted.runs.extend(found.runs);
        self.accounted.endings.extend(found.endings);
        self.accounted.starts.extend(found.starts);
        // What was found in a gap is booked before the gap is closed; the other way round a crash would lose it.
        let booked = !news || self.pass();
        if booked
            && found.gap_searched.is_some_and(|searched| self.gap == Some(searched))
            && let Err(error) = self.close_gap()
        {
            self.note_trouble(&error);
        }
        self.post_work();
    }

    fn note_receipts(&mut self, found: &AccountingFound) -> Result<(), StoreError> {
        if found.receipts_read_back.is_empty() {
            return Ok(());
        }
        let now_s = (self.clock)();
        let tx = self.store.begin()?;
        for segment in &found.receipts_read_back {
            tx.receipt_read_back(*segment, now_s)?;
        }
        tx.commit()?;
        for segment in &found.receipts_read_back {
            if let Some(segment) = self.book.segments.get_mut(segment) {
                segment.receipt_outstanding = None;
            }
        }
        Ok(())
    }

    /// For `sbid explain`: Slurm 22.05 shows its user no more than a code.
    fn note_refused(&mut self, refused: ChangeRefused) {
        // A user can have as many changes refused as they like: each costs no more than its place here.
        if self.refused.len() >= REFUSED_KEPT && !self.refused.contains_key(&refused.job_id) {
            self.refused.pop_first();
        }
        self.refused.insert(refused.job_id, refused);
    }

    /// The ledger cannot be read or written at the moment. Told once; what is not booked now is booked later.
    fn note_trouble(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.book_in_doubt, true) {
            tracing::error!(
                "{error}; nothing is booked until this is cured, and prices stand where they are"
            );
        }
    }

    /// One pass over the facts at hand. What cannot be booked leaves everything as it was; whether it was booked.
    pub(crate) fn pass(&mut self) -> bool {
        let Some(facts) = self.facts.take() else {
            return false;
        };
        let accounted = std::mem::take(&mut self.accounted);
        let outcome = loop {
            match self.pass_over(&facts, &accounted) {
                Err(PassError::Run { run, source }) if self.left_out.insert(run) => {
                    tracing::error!("job {}: {source}; its run from {} on is not booked", run.0, run.1);
                }
                outcome => break outcome,
            }
        };
        self.facts = Some(facts);
        match outcome {
            Ok(()) => {
                self.publish();
                self.post_work();
                self.post_evictions();
                self.restamp_waiting();
                true
            }
            Err(PassError::Store(error)) => {
                self.note_trouble(&error);
                false
            }
            Err(error @ PassError::Run { .. }) => {
                tracing::error!("this pass changes nothing: {error}");
                false
            }
        }
    }

    fn pass_over(&mut self, facts: &Facts, accounted: &Accounted) -> Result<(), PassError> {
        let as_of_s = self.ledger_time_s(facts);
        if self.book_in_doubt {
            self.book = self.store.load(as_of_s - RECENT_S)?;
        }
        let mut pass = Pass {
            tx: self.store.begin()?,
            book: self.book.clone(),
            cluster: &facts.cluster,
            terms: &self.terms,
            waiting: waiting_by_uuid(facts),
            as_of_s,
            began_s: self.began_s,
        };
        book_runs(&mut pass, facts, accounted, &self.left_out)?;
        if facts.accounting_queue_is_empty {
            return_unrecorded(&mut pass, facts, &accounted.starts)?;
        }
        for job in &facts.waiting {
            pass.refresh_waiting(&job.identity)?;
        }
        pass.close_finished()?;
        pass.close_evictions()?;

        let policy = self.config.array_earmark;
        let mut waiting = waiting::all(&pass.book, facts, &self.terms, policy);
        let quantum_s = i64::from(self.config.quantum_s);
        // Before the last round lies only a clock that was set back.
        let is_due = |last_s: i64| !(0..quantum_s).contains(&(as_of_s - last_s));
        if pass.book.round_at_s.is_none_or(is_due) {
            round::run(&mut pass, &waiting, quantum_s)?;
            pass.float(&facts.runs)?;
            pass.tx.set_meta(gap::LAST_FACTS_KEY, &facts.as_of_s.to_string())?;
            waiting = waiting::all(&pass.book, facts, &self.terms, policy);
        }
        if self.drains_since_s.is_some() {
            waiting.iter_mut().for_each(|waiting| waiting.factor = 0);
        }
        pass.prune();
        let Pass { tx, book, .. } = pass;
        tx.commit()?;
        self.book = book;
        self.waiting = waiting;
        self.seen = Some(Seen::of(facts));
        if std::mem::take(&mut self.book_in_doubt) {
            tracing::info!("the ledger is written again");
        }
        Ok(())
    }

    /// Facts are as old as their reading, but time in the ledger does not run backwards for a small step of the clock.
    fn ledger_time_s(&self, facts: &Facts) -> i64 {
        let last_s = self.book.round_at_s.unwrap_or(facts.as_of_s);
        let is_small_step = (0..=CLOCK_STEP_S).contains(&(last_s - facts.as_of_s));
        if is_small_step { last_s } else { facts.as_of_s }
    }

    fn publish(&self) {
        let Some(facts) = &self.facts else { return };
        let publication = publish::publication(
            &self.config,
            facts,
            &self.terms,
            &self.book,
            &self.waiting,
            self.drains_since_s.is_some(),
        );
        self.publications.send_replace(Arc::new(publication));
    }

    /// Tells the slurmdbd thread all that is wanted of it now; what it does not get done is wanted again.
    fn post_work(&self) {
        let Some(facts) = &self.facts else { return };
        let told = |run: &&Run| run.end.is_none_or(|end| end.suspended_s.is_some());
        let seen: BTreeSet<RunKey> = facts.runs.iter().filter(told).map(Run::key).collect();
        let open = self.book.segments.values().filter(|segment| segment.settled.is_none());
        let receipts = self.book.segments.values().filter_map(|segment| {
            let receipt = segment.receipt_outstanding.clone()?;
            Some(ReceiptDue {
                segment: segment.row,
                job_id: segment.job_id,
                start_s: segment.start_s,
                receipt,
            })
        });
        self.board.post(AccountingWork {
            lookups: open
                .filter(|segment| !seen.contains(&(segment.job_id, segment.start_s)))
                .map(|segment| segment.job_id)
                .collect(),
            receipts: receipts.collect(),
            // While slurmctld holds something back from slurmdbd, a search would not find all there is.
            gap: self.gap.filter(|_| facts.accounting_queue_is_empty),
            pool_of_node: crate::translate::pool_of_node(&facts.cluster),
        });
    }
}

/// slurmctld that is killed within seconds of a start forgets it and starts the job again; slurmdbd then writes the
/// later start over the earlier one. Of the first run no record is left, and what Slurm does not account for costs
/// nothing: its escrow goes back.
fn return_unrecorded(pass: &mut Pass<'_>, facts: &Facts, starts: &BTreeSet<RunKey>) -> Result<(), PassError> {
    let shown: BTreeSet<RunKey> = facts.runs.iter().map(Run::key).collect();
    let is_overwritten = |key: &RunKey| {
        let (job_id, start_s) = *key;
        let later = starts.range((job_id, start_s)..=(job_id, i64::MAX)).next();
        later.is_some_and(|later| later != key) && !shown.contains(key)
    };
    let open = pass.book.segments.values().filter(|segment| segment.settled.is_none());
    let keys = open.map(|segment| (segment.job_id, segment.start_s));
    let overwritten: Vec<RunKey> = keys.filter(is_overwritten).collect();
    for key in overwritten {
        tracing::warn!("job {}: Slurm has no record of its run from {} on; it costs nothing", key.0, key.1);
        pass.settle_unrecorded(key).map_err(|error| error.of_run(key))?;
    }
    Ok(())
}

/// Refunds first, so that they can pay for what starts; then starts, which precede renewals: a renewal must not take
/// what a job that just started was promised.
fn book_runs(
    pass: &mut Pass<'_>,
    facts: &Facts,
    accounted: &Accounted,
    left_out: &BTreeSet<RunKey>,
) -> Result<(), PassError> {
    let all = facts.runs.iter().chain(&accounted.runs);
    let mut runs: Vec<&Run> = all.filter(|run| !left_out.contains(&run.key())).collect();
    runs.sort_by_key(|run| {
        (run.start_s, run.identity.job_id, run.end.is_none_or(|end| end.suspended_s.is_none()))
    });
    let booked = |run: RunKey, outcome: Result<(), BookingError>| outcome.map_err(|error| error.of_run(run));
    let endings = runs.iter().filter_map(|run| run.ending());
    for ending in endings.chain(accounted.endings.iter().copied()) {
        if !left_out.contains(&ending.key()) {
            booked(ending.key(), pass.settle_known(ending))?;
        }
    }
    for run in &runs {
        booked(run.key(), pass.start_new(run))?;
    }
    for run in runs.iter().filter(|run| run.end.is_none()) {
        booked(run.key(), pass.renew(run))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
