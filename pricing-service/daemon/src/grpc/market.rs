//! Questions and commands of users and admins; the engine answers them.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use market_api::doctor::{Finding, Level};
use market_api::v1;
use market_api::v1::market_server::Market;
use tokio::sync::{Semaphore, oneshot};
use tonic::{Request, Response, Status};

use super::caller;
use crate::doctor::{Probes, findings};
use crate::engine::Event;
use crate::query::{Query, QueryError, Reply};

/// Questions before the engine at once; further ones wait here. It answers one after the other, beside its own work.
const QUESTIONS_MOST: usize = 128;

#[derive(Debug)]
pub(crate) struct MarketService {
    events: Sender<Event>,
    room: Semaphore,
    probes: Arc<Probes>,
}

impl MarketService {
    pub(crate) fn new(events: Sender<Event>, probes: Probes) -> Self {
        Self { events, room: Semaphore::new(QUESTIONS_MOST), probes: Arc::new(probes) }
    }

    async fn ask(&self, query: Query) -> Result<Reply, Status> {
        let gone = || Status::unavailable("quotamarketd is stopping; try again in some seconds");
        let _room = self.room.acquire().await.map_err(|_| gone())?;
        let (answer, reply) = oneshot::channel();
        self.events.send(Event::Query(query, answer)).map_err(|_| gone())?;
        reply.await.map_err(|_| gone())?.map_err(status)
    }
}

fn status(error: QueryError) -> Status {
    let text = error.to_string();
    match error {
        QueryError::Invalid(_) => Status::invalid_argument(text),
        QueryError::NotFound(_) => Status::not_found(text),
        QueryError::NotAllowed(_) => Status::permission_denied(text),
        QueryError::Refused(_) => Status::failed_precondition(text),
        QueryError::NotReady | QueryError::StandsBy(_) => Status::unavailable(text),
        QueryError::Store(_) => Status::internal(text),
    }
}

/// The engine answers each query with the reply of its kind.
macro_rules! reply_of {
    ($self:expr, $query:expr, $kind:ident) => {
        match $self.ask($query).await? {
            Reply::$kind(reply) => Ok(Response::new(reply)),
            other => Err(unexpected(&other)),
        }
    };
}

fn unexpected(reply: &Reply) -> Status {
    Status::internal(format!("unexpected reply {reply:?}"))
}

#[tonic::async_trait]
impl Market for MarketService {
    async fn prices(&self, _: Request<v1::PricesRequest>) -> Result<Response<v1::PricesReply>, Status> {
        reply_of!(self, Query::Prices, Prices)
    }

    async fn balances(
        &self,
        request: Request<v1::BalancesRequest>,
    ) -> Result<Response<v1::BalancesReply>, Status> {
        reply_of!(self, Query::Balances(caller(&request)?, request.into_inner()), Balances)
    }

    async fn jobs(&self, request: Request<v1::JobsRequest>) -> Result<Response<v1::JobsReply>, Status> {
        reply_of!(self, Query::Jobs(caller(&request)?, request.into_inner()), Jobs)
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainReply>, Status> {
        match self.ask(Query::Explain(caller(&request)?, request.into_inner())).await? {
            Reply::Explain(reply) => Ok(Response::new(*reply)),
            other => Err(unexpected(&other)),
        }
    }

    async fn ledger(&self, request: Request<v1::LedgerRequest>) -> Result<Response<v1::LedgerReply>, Status> {
        reply_of!(self, Query::Ledger(caller(&request)?, request.into_inner()), Ledger)
    }

    async fn deposit(
        &self,
        request: Request<v1::DepositRequest>,
    ) -> Result<Response<v1::DepositReply>, Status> {
        reply_of!(self, Query::Deposit(caller(&request)?, request.into_inner()), Deposit)
    }

    async fn change_bid(
        &self,
        request: Request<v1::ChangeBidRequest>,
    ) -> Result<Response<v1::ChangeBidReply>, Status> {
        reply_of!(self, Query::ChangeBid(caller(&request)?, request.into_inner()), ChangeBid)
    }

    async fn evict(&self, request: Request<v1::EvictRequest>) -> Result<Response<v1::EvictReply>, Status> {
        reply_of!(self, Query::Evict(caller(&request)?, request.into_inner()), Evict)
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainReply>, Status> {
        reply_of!(self, Query::Drain(caller(&request)?, request.into_inner()), Drain)
    }

    async fn doctor(&self, request: Request<v1::DoctorRequest>) -> Result<Response<v1::DoctorReply>, Status> {
        let ledgers = match self.ask(Query::Doctor(caller(&request)?)).await? {
            Reply::Doctor(ledgers) => ledgers,
            other => return Err(unexpected(&other)),
        };
        let probes = Arc::clone(&self.probes);
        let look = move || {
            let host = probes.look(&ledgers);
            let findings = findings(&ledgers, &host, &probes.config).into_iter().map(wire_finding).collect();
            v1::DoctorReply { as_of_s: ledgers.now_s, findings }
        };
        let reply = tokio::task::spawn_blocking(look).await;
        reply.map(Response::new).map_err(|error| Status::internal(error.to_string()))
    }
}

fn wire_finding(finding: Finding) -> v1::Finding {
    let level = match finding.level {
        Level::Ok => v1::Level::Ok,
        Level::Hint => v1::Level::Hint,
        Level::Warning => v1::Level::Warning,
        Level::Error => v1::Level::Error,
    };
    let Finding { subject, sentence, remedy, .. } = finding;
    v1::Finding { level: level.into(), subject, sentence, remedy }
}
