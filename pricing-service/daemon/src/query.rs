//! Questions and commands of the Market service, as they reach the engine.

use market_api::v1;
use tokio::sync::oneshot;

use crate::doctor::EngineFacts;

/// Who asks: the uid that the kernel vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
}

#[derive(Debug)]
pub(crate) enum Query {
    Prices,
    Balances(Caller, v1::BalancesRequest),
    Jobs(Caller, v1::JobsRequest),
    Explain(Caller, v1::ExplainRequest),
    Ledger(Caller, v1::LedgerRequest),
    Deposit(Caller, v1::DepositRequest),
    ChangeBid(Caller, v1::ChangeBidRequest),
    Evict(Caller, v1::EvictRequest),
    Drain(Caller, v1::DrainRequest),
    Doctor(Caller),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Prices(v1::PricesReply),
    Balances(v1::BalancesReply),
    Jobs(v1::JobsReply),
    Explain(Box<v1::ExplainReply>),
    Ledger(v1::LedgerReply),
    Deposit(v1::DepositReply),
    ChangeBid(v1::ChangeBidReply),
    Evict(v1::EvictReply),
    /// The reply, [`Reply::ChangeBid`], comes when Slurm has answered. Carries the uuid of the job's stamp.
    Entering(String),
    Drain(v1::DrainReply),
    Doctor(Box<EngineFacts>),
}

pub(crate) type Answer = oneshot::Sender<Result<Reply, QueryError>>;

/// Why a question is not answered; each says what to do instead.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    NotAllowed(String),
    /// Right, but not now.
    #[error("{0}")]
    Refused(String),
    #[error("quotamarketd has not read Slurm yet; try again in some seconds")]
    NotReady,
    #[error("quotamarketd stands by: {0}; try again when the slurmctld of this host is in charge")]
    StandsBy(crate::charge::StandBy),
    #[error("the ledger cannot be written: {0}; nothing was changed")]
    Store(#[from] crate::store::StoreError),
}
