//! Calls to quotamarketd over its unix socket. No call lasts longer than [`DEADLINE`], whatever the daemon does.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use market_api::v1::market_client::MarketClient;
use market_api::v1::{
    BalancesReply, BalancesRequest, ChangeBidReply, ChangeBidRequest, DepositReply, DepositRequest,
    DoctorReply, DoctorRequest, DrainAction, DrainReply, DrainRequest, EvictReply, EvictRequest,
    ExplainReply, ExplainRequest, JobsReply, JobsRequest, LedgerReply, LedgerRequest, PricesReply,
    PricesRequest,
};
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};
use tower::service_fn;

/// For connecting and answering together.
const DEADLINE: Duration = Duration::from_secs(10);
/// The daemon is trusted, and a list of many jobs is longer than gRPC's usual 4 MiB.
const REPLY_BYTES_MAX: usize = 1 << 30;

/// Why a call brought no answer.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    #[error("quotamarketd does not answer at {}; is it running? (systemctl status quotamarketd)", socket.display())]
    NoAnswer {
        socket: PathBuf,
        /// The daemon may have acted on the request all the same.
        was_sent: bool,
    },
    #[error("cannot connect to {}: {source}", socket.display())]
    Socket { socket: PathBuf, source: io::Error },
    /// The daemon's own sentence.
    #[error("{0}")]
    Refused(String),
    #[error("cannot start a runtime: {0}")]
    Runtime(#[from] io::Error),
}

/// The daemon's service Market.
#[derive(Debug)]
pub(crate) struct Market {
    socket: PathBuf,
    runtime: Runtime,
}

impl Market {
    /// Connects with the first call.
    ///
    /// # Errors
    /// [`CallError::Runtime`].
    pub(crate) fn at(socket: PathBuf) -> Result<Self, CallError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { socket, runtime })
    }

    pub(crate) fn prices(&self) -> Result<PricesReply, CallError> {
        self.call(async |mut market| market.prices(PricesRequest {}).await)
    }

    pub(crate) fn balances(&self, request: BalancesRequest) -> Result<BalancesReply, CallError> {
        self.call(async |mut market| market.balances(request).await)
    }

    pub(crate) fn jobs(&self, request: JobsRequest) -> Result<JobsReply, CallError> {
        self.call(async |mut market| market.jobs(request).await)
    }

    pub(crate) fn explain(&self, request: ExplainRequest) -> Result<ExplainReply, CallError> {
        self.call(async |mut market| market.explain(request).await)
    }

    pub(crate) fn ledger(&self, request: LedgerRequest) -> Result<LedgerReply, CallError> {
        self.call(async |mut market| market.ledger(request).await)
    }

    pub(crate) fn deposit(&self, request: DepositRequest) -> Result<DepositReply, CallError> {
        self.call(async |mut market| market.deposit(request).await)
    }

    pub(crate) fn change_bid(&self, request: ChangeBidRequest) -> Result<ChangeBidReply, CallError> {
        self.call(async |mut market| market.change_bid(request).await)
    }

    pub(crate) fn evict(&self, request: EvictRequest) -> Result<EvictReply, CallError> {
        self.call(async |mut market| market.evict(request).await)
    }

    pub(crate) fn doctor(&self) -> Result<DoctorReply, CallError> {
        self.call(async |mut market| market.doctor(DoctorRequest {}).await)
    }

    pub(crate) fn drain(&self, action: DrainAction) -> Result<DrainReply, CallError> {
        let request = DrainRequest { action: action.into() };
        self.call(async move |mut market| market.drain(request).await)
    }

    /// Where it is asked.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// One connection for one call: a command needs one or two.
    fn call<R>(
        &self,
        call: impl AsyncFnOnce(MarketClient<Channel>) -> Result<Response<R>, Status>,
    ) -> Result<R, CallError> {
        let no_answer = |was_sent| CallError::NoAnswer { socket: self.socket.clone(), was_sent };
        self.runtime.block_on(async {
            let connect_and_call = async {
                let market = connect(&self.socket).await?;
                let reply = call(market).await;
                reply.map(Response::into_inner).map_err(|status| self.error_of(&status))
            };
            let within_deadline = tokio::time::timeout(DEADLINE, connect_and_call).await;
            within_deadline.unwrap_or_else(|_| Err(no_answer(true)))
        })
    }

    fn error_of(&self, status: &Status) -> CallError {
        // Only a status made on this side has a source: the connection broke.
        if status.source().is_some() {
            return CallError::NoAnswer { socket: self.socket.clone(), was_sent: true };
        }
        CallError::Refused(match (status.code(), status.message()) {
            (Code::Unimplemented, "") => {
                "quotamarketd does not know this request; it is older than sbid".into()
            }
            (code, "") => format!("quotamarketd refuses without a reason ({code})"),
            (_, message) => message.to_owned(),
        })
    }
}

async fn connect(socket: &Path) -> Result<MarketClient<Channel>, CallError> {
    let stream = UnixStream::connect(socket).await.map_err(|source| connect_error(socket, source))?;
    // The channel may ask for a stream again once this one is broken; it gets none, and the call fails.
    let mut stream = Some(TokioIo::new(stream));
    let connector = service_fn(move |_| {
        let stream = stream.take().ok_or(io::ErrorKind::NotConnected);
        async move { stream.map_err(io::Error::from) }
    });
    // The connector decides where to; the address only satisfies HTTP.
    let channel = Endpoint::from_static("http://quotamarketd").connect_with_connector_lazy(connector);
    Ok(MarketClient::new(channel).max_decoding_message_size(REPLY_BYTES_MAX))
}

fn connect_error(socket: &Path, source: io::Error) -> CallError {
    let socket = socket.to_owned();
    match source.kind() {
        // No socket, nobody behind it, or a full queue in front of a daemon that accepts nothing.
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock => {
            CallError::NoAnswer { socket, was_sent: false }
        }
        _ => CallError::Socket { socket, source },
    }
}
