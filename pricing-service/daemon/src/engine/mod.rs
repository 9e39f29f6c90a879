//! The one thread that owns the ledger. It takes facts, answers and commands from a channel, and brings ledger and
//! Slurm into line; nothing in it waits for Slurm or for a client.

mod commands;
mod explain;
mod pass;
mod publish;
mod round;
mod terms;
mod views;
mod waiting;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use market_api::config::Config;
use tokio::sync::watch;

use self::pass::{Pass, PassError, RECENT_S};
use self::terms::Terms;
use self::waiting::Waiting;
use crate::accounting::{AccountingFound, AccountingWork, ReceiptDue, WorkBoard};
use crate::clock::now_s;
use crate::controller::ControllerPort;
use crate::facts::{Facts, Run};
use crate::model::Book;
use crate::publication::Publication;
use crate::query::{Answer, Query};
use crate::store::{Store, StoreError};

/// A gap is searched from a little earlier on: Slurm's own clock readings lie around ours.
const GAP_MARGIN_S: i64 = 60;
const GAP_KEY: &str = "gap_from_s";
const LAST_FACTS_KEY: &str = "last_facts_s";

/// What the engine is told.
#[derive(Debug)]
pub(crate) enum Event {
    Facts(Box<Facts>),
    Accounting(AccountingFound),
    Query(Query, Answer),
    Stop,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug)]
pub(crate) struct Engine {
    config: Config,
    store: Store,
    book: Book,
    began_s: i64,
    /// The newest facts; `None` until slurmctld was read for the first time.
    facts: Option<Facts>,
    terms: Terms,
    waiting: Vec<Waiting>,
    /// Runs that slurmdbd told of since the last pass.
    accounted: Vec<Run>,
    gap_from_s: Option<i64>,
    publications: watch::Sender<Arc<Publication>>,
    board: Arc<WorkBoard>,
    controller: ControllerPort,
}

impl Engine {
    pub(crate) fn new(
        config: Config,
        store: Store,
        publications: watch::Sender<Arc<Publication>>,
        board: Arc<WorkBoard>,
        controller: ControllerPort,
    ) -> Result<Self, EngineError> {
        let book = store.load(now_s() - RECENT_S)?;
        let terms = Terms::new(&config, &Default::default());
        Ok(Self {
            config,
            store,
            book,
            began_s: 0,
            facts: None,
            terms,
            waiting: Vec::new(),
            accounted: Vec::new(),
            gap_from_s: None,
            publications,
            board,
            controller,
        })
    }

    /// Works until it is told to stop. An error here means that the ledger cannot be trusted or written: the daemon
    /// ends, and its next start reads what was last committed.
    pub(crate) fn run(mut self, events: &Receiver<Event>) -> Result<(), EngineError> {
        while let Ok(event) = events.recv() {
            match event {
                Event::Facts(facts) => self.take_facts(*facts)?,
                Event::Accounting(found) => self.take_accounting(found)?,
                Event::Query(query, answer) => {
                    let reply = self.answer(query);
                    // Whoever asked may have gone.
                    let _ = answer.send(reply);
                }
                Event::Stop => break,
            }
        }
        Ok(())
    }

    fn take_facts(&mut self, facts: Facts) -> Result<(), EngineError> {
        if self.facts.is_none() {
            self.first_facts(&facts)?;
        }
        // slurmctld forgets ended jobs; a silence that long is a gap to be searched in slurmdbd.
        let forgets_after_s = facts.cluster.forgets_jobs_after_s.unwrap_or(i64::MAX);
        let last_s = self.facts.as_ref().map(|facts| facts.as_of_s);
        if let Some(last_s) = last_s.filter(|last_s| facts.as_of_s - last_s >= forgets_after_s) {
            self.open_gap(last_s)?;
        }
        self.terms = Terms::new(&self.config, &facts.cluster);
        self.facts = Some(facts);
        self.pass()
    }

    fn first_facts(&mut self, facts: &Facts) -> Result<(), EngineError> {
        self.began_s = self.store.bind(&facts.cluster.name, facts.as_of_s)?;
        let number = |text: Option<String>| text.and_then(|text| text.parse::<i64>().ok());
        let open_gap = number(crate::store::meta(self.store.reader(), GAP_KEY)?);
        let last_facts = number(crate::store::meta(self.store.reader(), LAST_FACTS_KEY)?);
        if let Some(from_s) = open_gap.into_iter().chain(last_facts).min() {
            self.open_gap(from_s)?;
        }
        Ok(())
    }

    fn open_gap(&mut self, from_s: i64) -> Result<(), EngineError> {
        let from_s = self.gap_from_s.map_or(from_s, |open_s| open_s.min(from_s));
        self.gap_from_s = Some(from_s);
        self.set_meta(GAP_KEY, &from_s.to_string())
    }

    fn set_meta(&mut self, key: &str, value: &str) -> Result<(), EngineError> {
        let tx = self.store.begin()?;
        tx.set_meta(key, value)?;
        Ok(tx.commit()?)
    }

    fn take_accounting(&mut self, found: AccountingFound) -> Result<(), EngineError> {
        if !found.receipts_read_back.is_empty() {
            let tx = self.store.begin()?;
            for segment in &found.receipts_read_back {
                tx.receipt_read_back(*segment, now_s())?;
            }
            tx.commit()?;
            for segment in &found.receipts_read_back {
                if let Some(segment) = self.book.segments.get_mut(segment) {
                    segment.receipt_outstanding = None;
                }
            }
        }
        if found.gap_searched.is_some() && found.gap_searched == self.gap_from_s {
            self.gap_from_s = None;
            self.set_meta(GAP_KEY, "")?;
        }
        if found.runs.is_empty() {
            self.post_work();
            return Ok(());
        }
        self.accounted.extend(found.runs);
        self.pass()
    }

    /// One pass over the facts at hand. What cannot be booked leaves everything as it was.
    pub(crate) fn pass(&mut self) -> Result<(), EngineError> {
        let Some(facts) = self.facts.take() else {
            return Ok(());
        };
        let accounted = std::mem::take(&mut self.accounted);
        let outcome = self.pass_over(&facts, &accounted);
        self.facts = Some(facts);
        match outcome {
            Ok(()) => {
                self.publish();
                self.post_work();
                Ok(())
            }
            Err(PassError::Store(error)) => Err(error.into()),
            Err(error) => {
                tracing::error!("this pass changes nothing: {error}");
                Ok(())
            }
        }
    }

    fn pass_over(&mut self, facts: &Facts, accounted: &[Run]) -> Result<(), PassError> {
        // Facts are as old as their reading, but time in the ledger never runs backwards.
        let as_of_s = facts.as_of_s.max(self.book.round_at_s.unwrap_or(0));
        let mut pass = Pass {
            tx: self.store.begin()?,
            book: self.book.clone(),
            cluster: &facts.cluster,
            terms: &self.terms,
            as_of_s,
            began_s: self.began_s,
        };
        // Refunds first, so that they can pay for what starts; then starts, which precede renewals: a renewal must
        // not take what a job that just started was promised.
        let mut runs: Vec<&Run> = facts.runs.iter().chain(accounted).collect();
        runs.sort_by_key(|run| {
            (run.start_s, run.identity.job_id, run.end.is_none_or(|end| end.suspended_s.is_none()))
        });
        for run in &runs {
            pass.settle_known(run)?;
        }
        for run in &runs {
            pass.start_new(run)?;
        }
        for run in runs.iter().filter(|run| run.end.is_none()) {
            pass.renew(run)?;
        }
        for job in &facts.waiting {
            pass.refresh_waiting(&job.identity)?;
        }
        let waiting_uuids: BTreeSet<&str> =
            facts.waiting.iter().map(|job| job.identity.stamp.uuid.as_str()).collect();
        pass.close_finished(|uuid| waiting_uuids.contains(uuid))?;

        let policy = self.config.array_earmark;
        let mut waiting = waiting::all(&pass.book, facts, &self.terms, policy);
        let quantum_s = i64::from(self.config.quantum_s);
        if pass.book.round_at_s.is_none_or(|last_s| as_of_s - last_s >= quantum_s) {
            round::run(&mut pass, &waiting, quantum_s)?;
            pass.tx.set_meta(LAST_FACTS_KEY, &facts.as_of_s.to_string())?;
            waiting = waiting::all(&pass.book, facts, &self.terms, policy);
        }
        pass.prune();
        let Pass { tx, book, .. } = pass;
        tx.commit()?;
        self.book = book;
        self.waiting = waiting;
        Ok(())
    }

    fn publish(&self) {
        let Some(facts) = &self.facts else { return };
        let publication = publish::publication(&self.config, facts, &self.terms, &self.book, &self.waiting);
        self.publications.send_replace(Arc::new(publication));
    }

    /// Tells the slurmdbd thread all that is wanted of it now; what it does not get done is wanted again.
    fn post_work(&self) {
        let Some(facts) = &self.facts else { return };
        let told = |run: &&Run| run.end.is_none_or(|end| end.suspended_s.is_some());
        let seen: BTreeSet<(u32, i64)> =
            facts.runs.iter().filter(told).map(|run| (run.identity.job_id, run.start_s)).collect();
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
            gap_from_s: self.gap_from_s.map(|from_s| from_s - GAP_MARGIN_S),
            gap: self.gap_from_s,
            gap_may_close: facts.accounting_queue_is_empty,
            pool_of_node: crate::translate::pool_of_node(&facts.cluster),
        });
    }
}

#[cfg(test)]
mod tests;
