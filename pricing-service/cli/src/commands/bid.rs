//! `sbid bid`

use clap::Args;
use market::bid::{self, Bid};
use market_api::v1::{ChangeBidReply, ChangeBidRequest};
use serde_json::{Map, json};

use super::arguments::WriteArgs;
use crate::client::Market;
use crate::failure::Failure;
use crate::field::su_text;
use crate::job_id::{self, JobId};
use crate::output::{self, Outcome, OutputArgs};

pub(crate) const NAME: &str = "bid";

#[derive(Debug, Args)]
pub(crate) struct BidArgs {
    /// The job: 12, or 12_3 for a task of an array
    #[arg(value_name = "JOBID", allow_negative_numbers = true)]
    job: JobId,
    /// The most it may pay, in SU per GPU-hour
    #[arg(value_parser = bid::parse_value, allow_negative_numbers = true)]
    price: Bid,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &BidArgs, market: &Market, output: &OutputArgs) -> Result<Outcome, Failure> {
    let job_id = job_id::resolve(market, &args.job)?;
    let key = args.write.key();
    let request = ChangeBidRequest {
        job_id,
        limit_usu: args.price.limit.micros(),
        idempotency_key: key.clone(),
        tier: args.price.asked_tier.map_or_else(String::new, |tier| tier.to_string()),
    };
    let reply = market.change_bid(request).map_err(|error| Failure::of_write(error, &key))?;
    let text = if output.json {
        let bid = json!({
            "job_name": args.job.to_string(),
            "job_id": job_id,
            "old_bid": Some(reply.old_limit_usu).filter(|_| !reply.entered).map(su_text),
            "bid": su_text(reply.limit_usu),
            "rank": Some(reply.rank).filter(|rank| *rank != 0),
            "of": reply.of,
            "idempotency_key": key,
        });
        let body = Map::from_iter([("bids".to_owned(), json!([bid]))]);
        output::document(NAME, 0, &[], &[], body)
    } else {
        sentence(&args.job, &reply)
    };
    Ok(Outcome { text, ..Outcome::default() })
}

fn sentence(job: &JobId, reply: &ChangeBidReply) -> String {
    let (old, new) = (su_text(reply.old_limit_usu), su_text(reply.limit_usu));
    let rank = match reply.rank {
        0 => String::new(),
        rank => format!(" It is number {rank} of {} in the queue.", reply.of),
    };
    if reply.entered {
        return format!("Job {job} is in the market now and bids {new} SU per GPU-hour.{rank}\n");
    }
    format!("Job {job} bids {new} SU per GPU-hour, before {old}.{rank}\n")
}
