//! `sbid jobs`

use clap::Args;
use market_api::v1::{JobsRequest, MarketJob};

use super::arguments::AccountArgs;
use crate::client::Market;
use crate::failure::Failure;
use crate::field::{Cell, Field};
use crate::job_id::{self, JobId};
use crate::output::{Outcome, OutputArgs, Report};

pub(crate) const NAME: &str = "jobs";

#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    #[command(flatten)]
    accounts: AccountArgs,
    /// Only these jobs; without it, those that wait or run and those settled within a day
    #[arg(short = 'j', long, value_name = "JOBID,...", value_delimiter = ',')]
    jobs: Vec<JobId>,
    /// Only your own jobs
    #[arg(long)]
    me: bool,
}

pub(crate) const FIELDS: &[Field<MarketJob>] = &[
    Field::text("JobID", "job_name", |job| Cell::Text(job.job_name.clone())),
    Field::number("JobIDRaw", "job_id", |job: &MarketJob| Cell::Count(Some(job.job_id.into()))).on_request(),
    Field::text("User", "user", |job| Cell::Text(job.user.clone())),
    Field::text("Account", "account", |job| Cell::Text(job.account.clone())),
    Field::text("Tier", "tier", |job| Cell::Text(job.tier.clone())),
    Field::text("Pools", "pools", |job| Cell::Text(job.pools.clone())),
    Field::number("GPUs", "gpus", |job| Cell::Count(Some(job.gpus.into()))),
    Field::text("State", "state", |job| Cell::Text(job.state.clone())),
    Field::number("Bid", "bid", |job| Cell::Money(Some(job.limit_usu))),
    Field::number("Price", "price", price),
    Field::number("Earmark", "earmark", |job| Cell::Money(Some(job.earmark_usu))),
    Field::number("Escrow", "escrow", |job| Cell::Money(Some(job.escrow_usu))),
    Field::number("Charged", "charged", |job| Cell::Money(Some(job.charged_usu))),
    Field::number("Rank", "rank", |job| Cell::count_or_none(job.rank)),
    Field::text("Funded", "funded", |job: &MarketJob| Cell::Flag(job.funded)).on_request(),
    Field::text("Start", "start", |job: &MarketJob| Cell::time_or_none(job.start_s)).on_request(),
    Field::text("End", "end", |job: &MarketJob| Cell::time_or_none(job.end_s)).on_request(),
];

/// A pending job has no price yet; one that runs free of charge has 0.
fn price(job: &MarketJob) -> Cell {
    if job.state == "PENDING" { Cell::money_or_none(job.price_usu) } else { Cell::Money(Some(job.price_usu)) }
}

pub(crate) fn run(args: &JobsArgs, market: &Market, output: &OutputArgs) -> Result<Outcome, Failure> {
    let layout = output.layout(FIELDS)?;
    let reply = market.jobs(JobsRequest {
        job_ids: job_id::resolve_all(market, &args.jobs)?,
        accounts: args.accounts.accounts.clone(),
        only_mine: args.me,
    })?;
    Ok(layout.lay_out(Report::new(NAME, "jobs", reply.as_of_s, reply.jobs)))
}
