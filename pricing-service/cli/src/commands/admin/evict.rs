//! `sbid admin evict`

use clap::Args;
use market_api::v1::{EvictReply, EvictRequest};
use serde_json::{Map, json};

use crate::client::Market;
use crate::commands::arguments::WriteArgs;
use crate::failure::Failure;
use crate::job_id::{self, JobId};
use crate::output::{self, Outcome, OutputArgs};

pub(crate) const NAME: &str = "admin evict";

#[derive(Debug, Args)]
pub(crate) struct EvictArgs {
    /// The running spot job: 12, or 12_3 for a task of an array
    #[arg(value_name = "JOBID", allow_negative_numbers = true)]
    job: JobId,
    /// The waiting job that is to have its GPUs
    #[arg(long = "for", value_name = "JOBID", allow_negative_numbers = true)]
    beneficiary: JobId,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &EvictArgs, market: &Market, output: &OutputArgs) -> Result<Outcome, Failure> {
    let key = args.write.key();
    let request = EvictRequest {
        job_id: job_id::resolve(market, &args.job)?,
        beneficiary_job_id: job_id::resolve(market, &args.beneficiary)?,
        idempotency_key: key.clone(),
    };
    let reply = market.evict(request).map_err(|error| Failure::of_write(error, &key))?;
    let text = if output.json {
        let eviction = json!({
            "job_name": reply.job_name,
            "beneficiary": reply.beneficiary_name,
            "grace_s": reply.grace_s,
            "signal": Some(&reply.signal).filter(|signal| !signal.is_empty()),
            "requeued": reply.is_requeued,
            "idempotency_key": key,
        });
        let body = Map::from_iter([("evictions".to_owned(), json!([eviction]))]);
        output::document(NAME, 0, &[], &[], body)
    } else {
        sentence(&reply)
    };
    Ok(Outcome { text, ..Outcome::default() })
}

fn sentence(reply: &EvictReply) -> String {
    let EvictReply { job_name, beneficiary_name, grace_s, .. } = reply;
    let signal = if reply.signal.is_empty() { "" } else { ", with the signal it asked for," };
    let end = if reply.is_requeued { "requeued" } else { "cancelled" };
    format!("Job {job_name} is warned{signal} and {end} {grace_s} s later, for job {beneficiary_name}.\n")
}
