//! A market on a unix socket that gives fixed replies and notes what it was asked.

use std::fmt::Debug;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use market_api::v1::market_server::{Market, MarketServer};
use market_api::v1::*;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// 2026-12-01T09:00:00 UTC
pub(crate) const AS_OF_S: i64 = 1_796_115_600;
/// Longer than gRPC's usual limit of 4 MiB.
const HUGE_JOBS: u32 = 60_000;

/// A directory with a `market.toml` and, unless it is left out, a server behind the socket that it names.
#[derive(Debug)]
pub(crate) struct Site {
    directory: TempDir,
    requests: Arc<Mutex<Vec<String>>>,
    _runtime: Option<Runtime>,
}

impl Site {
    /// Nobody listens.
    pub(crate) fn without_daemon() -> Self {
        let directory = tempfile::tempdir().expect("directory");
        let config = format!("socket_dir = {:?}\n", directory.path());
        std::fs::write(directory.path().join("market.toml"), config).expect("market.toml");
        Self { directory, requests: Arc::default(), _runtime: None }
    }

    /// A daemon that is stopped: the kernel takes connections for it, and nothing answers.
    pub(crate) fn with_frozen_daemon() -> (Self, UnixListener) {
        let site = Self::without_daemon();
        let listener = UnixListener::bind(site.socket()).expect("socket");
        (site, listener)
    }

    /// A daemon that answers.
    pub(crate) fn start() -> Self {
        let mut site = Self::without_daemon();
        let market = MarketServer::new(FixedMarket { requests: Arc::clone(&site.requests) });
        let runtime = Runtime::new().expect("runtime");
        let listener = {
            let _inside = runtime.enter();
            tokio::net::UnixListener::bind(site.socket()).expect("socket")
        };
        let server = tonic::transport::Server::builder().add_service(market);
        runtime.spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
        site._runtime = Some(runtime);
        site
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("market.sock")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.directory.path().join("market.toml")
    }

    /// `sbid` with these arguments, in UTC, with this site's configuration.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bare_command(arguments);
        command.env("QUOTAMARKET_CONFIG", self.config());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("sbid runs"))
    }

    /// What the server was asked, in the order of asking.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

/// `sbid` without any configuration of this site.
pub(crate) fn bare_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sbid"));
    command.args(arguments).env("TZ", "UTC").env_remove("QUOTAMARKET_CONFIG").env_remove("SLURM_CONF");
    command
}

/// What a run of `sbid` left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Success without a word on standard error.
    pub(crate) fn printed(stdout: &str) -> Self {
        Self { status: Some(0), stdout: stdout.into(), stderr: String::new() }
    }

    /// Nothing but a sentence on standard error.
    pub(crate) fn failed(status: i32, sentence: &str) -> Self {
        Self { status: Some(status), stdout: String::new(), stderr: format!("sbid: error: {sentence}\n") }
    }
}

#[derive(Debug)]
struct FixedMarket {
    requests: Arc<Mutex<Vec<String>>>,
}

impl FixedMarket {
    fn note<Q: Debug>(&self, request: Request<Q>) -> Q {
        let request = request.into_inner();
        self.requests.lock().expect("no panic").push(format!("{request:?}"));
        request
    }
}

#[tonic::async_trait]
impl Market for FixedMarket {
    async fn prices(&self, request: Request<PricesRequest>) -> Result<Response<PricesReply>, Status> {
        self.note(request);
        let a100 = PoolPrice {
            pool: "a100".into(),
            gpus: 16,
            gpus_in_supply: 15,
            gpus_idle: 0,
            gpus_waiting: 24,
            reserve_usu: 312_500,
            charge_usu: 1_250_000,
            start_usu: 2_010_000,
            why: "job 4 is the first that does not fit and sets the start price.".into(),
        };
        let h100 = PoolPrice {
            pool: "h100".into(),
            gpus: 8,
            gpus_in_supply: 8,
            gpus_idle: 8,
            gpus_waiting: 0,
            reserve_usu: 937_500,
            charge_usu: 937_500,
            start_usu: 937_500,
            why: "nobody waits, so the reserve holds.".into(),
        };
        Ok(Response::new(PricesReply { as_of_s: AS_OF_S, pools: vec![a100, h100] }))
    }

    async fn balances(&self, request: Request<BalancesRequest>) -> Result<Response<BalancesReply>, Status> {
        let request = self.note(request);
        match request.accounts.first().map(String::as_str) {
            Some("secret") => return Err(Status::permission_denied("account secret is not yours")),
            Some("old") => return Err(Status::unimplemented("")),
            _ => {}
        }
        let vision = AccountBalance {
            account: "vision".into(),
            available_usu: 112_500_000,
            escrow_usu: 12_400_000,
            earmarked_usu: 128_000_001,
            free_usu: -15_500_001,
            charged_usu: 0,
        };
        Ok(Response::new(BalancesReply { as_of_s: AS_OF_S, accounts: vec![vision] }))
    }

    async fn jobs(&self, request: Request<JobsRequest>) -> Result<Response<JobsReply>, Status> {
        let request = self.note(request);
        if request.accounts == ["huge"] {
            let job = |job_id| MarketJob { job_id, account: "huge".repeat(20), ..running() };
            return Ok(Response::new(JobsReply {
                as_of_s: AS_OF_S,
                jobs: (1..=HUGE_JOBS).map(job).collect(),
            }));
        }
        Ok(Response::new(JobsReply { as_of_s: AS_OF_S, jobs: vec![running(), pending()] }))
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Result<Response<ExplainReply>, Status> {
        let request = self.note(request);
        if request.job_id == 99 {
            return Err(Status::not_found("no job 99 is in the market"));
        }
        Ok(Response::new(ExplainReply {
            as_of_s: AS_OF_S,
            job: Some(pending()),
            sentences: vec![
                "Job 2 waits for 8 a100.".into(),
                "It is third of three: jobs 3 and 4 bid more.".into(),
                "Your limit is 0.8; funds are not the reason.".into(),
                "To pass job 4 bid 2.01, to be first 3.51:".into(),
            ],
            jobs_ahead: vec![3, 4],
            of: 3,
            pass_next_usu: 2_010_000,
            pass_all_usu: 3_510_000,
            slurm_reason: "Priority".into(),
            account_free_usu: 15_500_000,
            hints: vec!["sbid bid 2 3.51".into()],
        }))
    }

    async fn ledger(&self, request: Request<LedgerRequest>) -> Result<Response<LedgerReply>, Status> {
        let request = self.note(request);
        let entry = |ledger_account: &str, amount_usu| LedgerEntry {
            transfer_id: 7,
            at_s: AS_OF_S,
            kind: "charge".into(),
            ledger_account: ledger_account.into(),
            amount_usu,
            job_id: 12,
            memo: "one|two\nthree".into(),
        };
        let deposit = LedgerEntry {
            transfer_id: 8,
            kind: "deposit".into(),
            job_id: 0,
            memo: String::new(),
            ..entry("mint", -100_000_000)
        };
        Ok(Response::new(LedgerReply {
            as_of_s: AS_OF_S,
            entries: vec![entry("vision", -1_340_000), entry("burn", 1_340_000), deposit],
            sum_usu: if request.accounts == ["broken"] { 1 } else { 0 },
            truncated: request.limit == 3,
        }))
    }

    async fn deposit(&self, request: Request<DepositRequest>) -> Result<Response<DepositReply>, Status> {
        self.note(request);
        Ok(Response::new(DepositReply { transfer_id: 42, available_usu: 212_500_000 }))
    }

    async fn evict(&self, request: Request<EvictRequest>) -> Result<Response<EvictReply>, Status> {
        let request = self.note(request);
        Ok(Response::new(EvictReply {
            job_name: request.job_id.to_string(),
            beneficiary_name: request.beneficiary_job_id.to_string(),
            grace_s: 60,
            signal: if request.job_id == 2 { "B:10@60".into() } else { String::new() },
            is_requeued: request.job_id == 2,
        }))
    }

    async fn change_bid(
        &self,
        request: Request<ChangeBidRequest>,
    ) -> Result<Response<ChangeBidReply>, Status> {
        let request = self.note(request);
        let rank = if request.limit_usu == 0 { 0 } else { 1 };
        Ok(Response::new(ChangeBidReply {
            old_limit_usu: 800_000,
            limit_usu: request.limit_usu,
            rank,
            of: 3,
            entered: request.job_id == 77,
        }))
    }

    async fn drain(&self, request: Request<DrainRequest>) -> Result<Response<DrainReply>, Status> {
        let action = self.note(request).action();
        Ok(Response::new(DrainReply {
            draining: action == DrainAction::Begin,
            since_s: AS_OF_S,
            waiting: 3,
            running: 2,
            running_until_s: AS_OF_S + 3600,
            receipts: 1,
        }))
    }

    async fn doctor(&self, request: Request<DoctorRequest>) -> Result<Response<DoctorReply>, Status> {
        self.note(request);
        let finding = |level: Level, subject: &str, sentence: &str, remedy: &str| Finding {
            level: level.into(),
            subject: subject.into(),
            sentence: sentence.into(),
            remedy: remedy.into(),
        };
        let findings = vec![
            finding(Level::Ok, "ledger", "sums to 0 SU.", ""),
            finding(Level::Hint, "PrivateData", "lacks jobs.", "PrivateData=jobs"),
            finding(Level::Error, "JobSubmitPlugins", "lacks bid.", "JobSubmitPlugins=bid"),
        ];
        Ok(Response::new(DoctorReply { as_of_s: AS_OF_S, findings }))
    }
}

fn running() -> MarketJob {
    MarketJob {
        job_id: 15,
        job_name: "12_3".into(),
        user: "ada".into(),
        account: "vision".into(),
        tier: "standard".into(),
        state: "RUNNING".into(),
        limit_usu: 3_500_000,
        price_usu: 1_250_000,
        gpus: 2,
        pools: "a100".into(),
        earmark_usu: 0,
        escrow_usu: 10_000_000,
        charged_usu: 1_340_001,
        rank: 0,
        start_s: AS_OF_S - 3600,
        end_s: 0,
        funded: true,
    }
}

fn pending() -> MarketJob {
    MarketJob {
        job_id: 2,
        job_name: "2".into(),
        user: "bob".into(),
        account: "speech".into(),
        tier: "standard".into(),
        state: "PENDING".into(),
        limit_usu: 800_000,
        price_usu: 0,
        gpus: 8,
        pools: "a100".into(),
        earmark_usu: 25_600_000,
        escrow_usu: 0,
        charged_usu: 0,
        rank: 3,
        start_s: 0,
        end_s: 0,
        funded: true,
    }
}
