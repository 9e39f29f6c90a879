//! A cluster with two pools and two teams, and jobs that move through it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use market::amount::{Amount, Price};
use market::ledger::LedgerAccount;
use market::order::Tier;
use market::stamp::{CheckpointSignal, Stamp};
use market_api::config::Config;
use market_api::v1;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::accounting::{AccountingFound, WorkBoard};
use crate::controller::{self, ControllerInbox};
use crate::engine::{Engine, EngineError, Event};
use crate::facts::{
    AssociationFacts, ClusterFacts, Facts, JobIdentity, NodeGpus, PartitionFacts, PoolFacts, Run, RunClock,
    RunEnd, SlurmFacts, Unpriced, UserFacts, WaitingJob,
};
use crate::publication::Publication;
use crate::query::{Caller, Query, QueryError, Reply};
use crate::store::{FILE_NAME, Store, ledger};

pub(super) const BEGAN_S: i64 = 1_000_000;
pub(super) const ROOT: Caller = Caller { uid: 0 };
pub(super) const VIS1: Caller = Caller { uid: 61001 };
pub(super) const NLP1: Caller = Caller { uid: 61003 };

pub(super) struct World {
    directory: TempDir,
    pub(super) engine: Engine,
    pub(super) published: watch::Receiver<Arc<Publication>>,
    pub(super) now_s: i64,
    pub(super) jobs: BTreeMap<u32, Job>,
    pub(super) all_gpus_busy: bool,
    /// Pending jobs without a bid.
    pub(super) unpriced: Vec<WaitingJob<Unpriced>>,
    /// Stamps that Slurm was given later, by job id.
    pub(super) stamped: Vec<(u32, Stamp)>,
    /// What the slurmctld thread is asked for.
    pub(super) asked: ControllerInbox,
}

thread_local! {
    /// What the engine's clock shows.
    static CLOCK_S: Cell<i64> = const { Cell::new(BEGAN_S) };
}

/// A job as its user submitted it, and where it is now.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) id: u32,
    pub(super) account: &'static str,
    pub(super) limit: &'static str,
    /// Counts where the limit is above zero.
    pub(super) tier: Tier,
    pub(super) signal: Option<CheckpointSignal>,
    /// As Slurm has it now, where that differs from the tier's.
    pub(super) qos: Option<&'static str>,
    pub(super) het_leader: Option<u32>,
    pub(super) gpus: u32,
    /// The id of the array whose task it is.
    pub(super) array_id: Option<u32>,
    pub(super) submitted_s: i64,
    pub(super) time_limit_s: Option<i64>,
    pub(super) state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Waits,
    Runs { start_s: i64 },
    Ended { start_s: i64, end_s: i64, suspended_s: Option<i64> },
    Cancelled,
    Forgotten,
}

pub(super) fn job(id: u32, account: &'static str, limit: &'static str, gpus: u32) -> Job {
    let (submitted_s, time_limit_s) = (BEGAN_S + i64::from(id), Some(3600));
    let tier = Tier::Standard;
    let (signal, qos, het_leader) = (None, None, None);
    Job {
        id,
        account,
        limit,
        tier,
        signal,
        qos,
        het_leader,
        gpus,
        array_id: None,
        submitted_s,
        time_limit_s,
        state: State::Waits,
    }
}

impl Job {
    pub(super) fn uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.array_id.unwrap_or(self.id))
    }

    fn identity(&self) -> JobIdentity {
        let limit = Price::parse(self.limit).expect("price");
        let tier = if limit == Price::ZERO { Tier::Free } else { self.tier };
        let (uid, user) = if self.account == "vision" { (VIS1.uid, "vis1") } else { (NLP1.uid, "nlp1") };
        JobIdentity {
            job_id: self.id,
            array_job_id: self.array_id.unwrap_or(self.id),
            array_task_id: self.array_id.map(|array_id| self.id - array_id),
            het_leader: self.het_leader,
            stamp: Stamp { uuid: self.uuid(), limit, tier, signal: self.signal, unavailable: false },
            uid,
            user: user.into(),
            account: self.account.into(),
            partition: "gpu".into(),
            qos: self.qos.map(str::to_owned),
            submitted_s: self.submitted_s,
            eligible_s: self.submitted_s,
            time_limit_s: self.time_limit_s,
        }
    }

    pub(super) fn waiting(&self) -> WaitingJob {
        WaitingJob {
            identity: self.identity(),
            tasks: 1,
            at_once: None,
            display_id: self.id.to_string(),
            asked: BTreeMap::from([(Some("a100".to_owned()), u64::from(self.gpus))]),
            nodes_least: self.gpus.div_ceil(8),
            gpus_most: u64::from(self.gpus),
            held: false,
            reason: "Resources".into(),
        }
    }

    pub(super) fn run(&self) -> Option<Run> {
        let (start_s, end) = match self.state {
            State::Runs { start_s } => (start_s, None),
            State::Ended { start_s, end_s, suspended_s } => (start_s, Some(RunEnd { end_s, suspended_s })),
            State::Waits | State::Cancelled | State::Forgotten => return None,
        };
        Some(Run {
            identity: self.identity(),
            start_s,
            end,
            clock: RunClock { counted_s: 0, running_since_s: Some(start_s) },
            can_be_requeued: true,
            gpus: BTreeMap::from([("a100".to_owned(), self.gpus)]),
            nodes: BTreeSet::from(["gpu1".to_owned()]),
        })
    }
}

pub(super) fn su(text: &str) -> Amount {
    Amount::parse(text).expect("amount")
}

fn engine(directory: &TempDir) -> (Engine, watch::Receiver<Arc<Publication>>, ControllerInbox) {
    let store = Store::open(&directory.path().join(FILE_NAME)).expect("opens");
    let (publications, published) = watch::channel(Arc::new(Publication::default()));
    let (port, asked) = controller::port();
    let board = Arc::new(WorkBoard::default());
    let clock = || CLOCK_S.get();
    let engine = Engine::new(Config::default(), store, clock, publications, board, port).expect("loads");
    (engine, published, asked)
}

impl World {
    /// An empty cluster that was read once; the ledger begins at [`BEGAN_S`].
    pub(super) fn new() -> Self {
        Self::over(tempfile::tempdir().expect("temporary directory"))
    }

    /// With money in both accounts.
    pub(super) fn with_funds(vision: &str, nlp: &str) -> Self {
        let mut world = Self::new();
        world.deposit("vision", vision);
        world.deposit("nlp", nlp);
        world
    }

    pub(super) fn deposit(&mut self, account: &str, amount: &str) {
        let key = format!("{account} {amount} {}", self.now_s);
        self.try_deposit(account, amount, &key).expect("deposits");
    }

    pub(super) fn try_deposit(
        &mut self,
        account: &str,
        amount: &str,
        key: &str,
    ) -> Result<Reply, QueryError> {
        let request = v1::DepositRequest {
            account: account.into(),
            amount_usu: su(amount).micros(),
            memo: String::new(),
            idempotency_key: key.into(),
        };
        self.engine.answer(Query::Deposit(ROOT, request))
    }

    /// The daemon is killed and started again.
    pub(super) fn restart(&mut self) {
        (self.engine, self.published, self.asked) = engine(&self.directory);
    }

    /// The engine takes what is sent, to the end; gives the directory of its ledger.
    pub(super) fn run(self, events: &Receiver<Event>) -> Result<TempDir, EngineError> {
        self.engine.run(events).map(|()| self.directory)
    }

    /// A daemon over a ledger that is there.
    pub(super) fn over(directory: TempDir) -> Self {
        let (engine, published, asked) = engine(&directory);
        let mut world = Self {
            directory,
            engine,
            published,
            now_s: BEGAN_S,
            jobs: BTreeMap::new(),
            all_gpus_busy: false,
            unpriced: Vec::new(),
            stamped: Vec::new(),
            asked,
        };
        world.read();
        world
    }

    pub(super) fn submit(&mut self, job: Job) {
        self.jobs.insert(job.id, job);
    }

    pub(super) fn set(&mut self, id: u32, state: State) {
        self.jobs.get_mut(&id).expect("submitted").state = state;
    }

    pub(super) fn facts(&self) -> Facts {
        let waits = |job: &&Job| job.state == State::Waits;
        Facts {
            read_began_ns: self.now_s.unsigned_abs() * 1_000_000_000,
            read_ended_ns: self.now_s.unsigned_abs() * 1_000_000_000,
            as_of_s: self.now_s,
            cluster: cluster(if self.all_gpus_busy { 8 } else { 0 }),
            waiting: self.jobs.values().filter(waits).map(|job| self.with_stamp(job.waiting())).collect(),
            unpriced: self.unpriced.clone(),
            runs: self.jobs.values().filter_map(Job::run).collect(),
            known_uuids: self.jobs.values().map(Job::uuid).collect(),
            accounting_queue_is_empty: true,
        }
    }

    fn with_stamp(&self, job: WaitingJob) -> WaitingJob {
        match self.stamped.iter().find(|(id, _)| *id == job.identity.job_id) {
            Some((_, stamp)) => job.stamped(stamp.clone()),
            None => job,
        }
    }

    /// slurmctld is read, now.
    pub(super) fn read(&mut self) {
        let facts = self.facts();
        self.take(facts);
    }

    pub(super) fn take(&mut self, facts: Facts) {
        CLOCK_S.set(self.now_s);
        self.engine.take_facts(facts).expect("takes the facts");
        self.check();
    }

    /// The user of a job changes its bid, slurmctld not being read.
    pub(super) fn change_bid_at(&mut self, seconds_after_began: i64, key: &str, job_id: u32, limit: &str) {
        self.now_s = BEGAN_S + seconds_after_began;
        CLOCK_S.set(self.now_s);
        let request = v1::ChangeBidRequest {
            job_id,
            limit_usu: su(limit).micros(),
            idempotency_key: key.into(),
            ..Default::default()
        };
        self.engine.change_bid(ROOT, &request).expect("changes");
    }

    pub(super) fn read_at(&mut self, seconds_after_began: i64) {
        self.now_s = BEGAN_S + seconds_after_began;
        self.read();
    }

    /// slurmdbd tells of a run.
    pub(super) fn account(&mut self, run: Run) {
        self.account_for(AccountingFound { runs: vec![run], ..AccountingFound::default() });
    }

    pub(super) fn account_for(&mut self, found: AccountingFound) {
        self.engine.take_accounting(found);
        self.check();
    }

    pub(super) fn available(&self, account: &str) -> Amount {
        self.engine.book.balances.of(&LedgerAccount::Account(account.into()))
    }

    pub(super) fn escrow(&self, account: &str) -> Amount {
        self.engine.book.balances.of(&LedgerAccount::Escrow(account.into()))
    }

    pub(super) fn house_loss(&self) -> Amount {
        self.engine.book.balances.of(&LedgerAccount::HouseLoss)
    }

    pub(super) fn charged(&self) -> Amount {
        self.engine.book.balances.of(&LedgerAccount::Burn)
    }

    /// What the plugin is told that an account can still promise.
    pub(super) fn published_free(&self, account: &str) -> Amount {
        let key = crate::publication::RowKey::Account(account.into());
        match self.published.borrow().rows.get(&key) {
            Some(v1::item::Item::Account(terms)) => Amount::from_micros(terms.free_usu),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn published_factor(&self, job: u32) -> Option<u32> {
        let submit_s = self.jobs[&job].submitted_s;
        let key = crate::publication::RowKey::Factor { job_id: job, submit_s };
        match self.published.borrow().rows.get(&key) {
            Some(v1::item::Item::Factor(factor)) => Some(factor.factor),
            _ => None,
        }
    }

    /// Every entry of the ledger without its time.
    pub(super) fn entries(&self) -> Vec<(String, String, i64)> {
        let rows = ledger::entries(self.engine.store.reader(), None, 100_000).expect("reads");
        rows.into_iter().map(|row| (row.kind, row.account.to_string(), row.amount.micros())).collect()
    }

    /// Holds after everything that happens.
    fn check(&self) {
        let book = &self.engine.book;
        assert_eq!(book.balances.sum_micros(), 0);
        assert_eq!(ledger::sum_micros(self.engine.store.reader()).expect("reads"), 0);
        let on_disk = self.engine.store.load(0).expect("loads");
        for (account, balance) in book.balances.iter() {
            assert_eq!(on_disk.balances.of(account), balance, "{account} differs on disk");
            assert!(account.may_be_negative() || balance >= Amount::ZERO, "{account} holds {balance}");
        }
        for account in ["vision", "nlp"] {
            let open = book.segments.values().filter(|segment| segment.account == account);
            let open: i64 = open.map(|segment| segment.escrow.micros()).sum();
            assert_eq!(self.escrow(account).micros(), open, "escrow of {account} and its segments differ");
        }
        for segment in book.segments.values() {
            if let Some(settled) = segment.settled {
                let most = i128::from(segment.limit.micros())
                    * i128::from(segment.q_milli())
                    * i128::from(settled.metered_s)
                    / 3_600_000;
                assert!(i128::from(settled.charge.micros()) <= most, "{segment:?} costs more than its limit");
            }
        }
    }
}

fn cluster(in_use: u32) -> ClusterFacts {
    let gpus = NodeGpus { installed: 8, in_use, in_supply: true };
    let pool = |nodes: [&str; 2]| PoolFacts { nodes: nodes.map(|node| (node.to_owned(), gpus)).into() };
    let partition = PartitionFacts {
        is_default: true,
        nodes: ["gpu1", "gpu2", "gpu3", "gpu4"].map(str::to_owned).into(),
        default_time_min: Some(60),
        max_time_min: Some(7 * 1440),
        ..PartitionFacts::default()
    };
    let user = |name: &str, account: &str| UserFacts {
        name: name.into(),
        default_account: account.into(),
        is_operator: false,
        coordinates: BTreeSet::new(),
    };
    let member = |account: &str, uid| AssociationFacts {
        account: account.into(),
        uid: Some(uid),
        partition: None,
        default_qos: "normal".into(),
        qos: vec!["normal".into(), "standard".into(), "free".into()],
    };
    ClusterFacts {
        controller_began_s: None,
        name: "market".into(),
        over_time_limit_s: Some(0),
        forgets_jobs_after_s: Some(300),
        jobs_are_private: false,
        pools: [("a100".to_owned(), pool(["gpu1", "gpu2"])), ("h100".to_owned(), pool(["gpu3", "gpu4"]))]
            .into(),
        partitions: [("gpu".to_owned(), partition)].into(),
        users: [(VIS1.uid, user("vis1", "vision")), (NLP1.uid, user("nlp1", "nlp"))].into(),
        associations: vec![member("vision", VIS1.uid), member("nlp", NLP1.uid)],
        slurm: SlurmFacts::default(),
    }
}
