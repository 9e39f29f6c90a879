//! `sbid admin drain`

use clap::Args;
use market_api::v1::{DrainAction, DrainReply};
use serde_json::{Map, json};

use crate::client::Market;
use crate::failure::Failure;
use crate::field::local_time;
use crate::output::{self, Outcome, OutputArgs};

pub(crate) const NAME: &str = "admin drain";

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Put the market into service again; jobs that were reset stay without a bid
    #[arg(long)]
    undo: bool,
}

pub(crate) fn run(args: &DrainArgs, market: &Market, output: &OutputArgs) -> Result<Outcome, Failure> {
    let action = if args.undo { DrainAction::Undo } else { DrainAction::Begin };
    let reply = market.drain(action)?;
    let text = if output.json {
        let drain = json!({
            "draining": reply.draining,
            "since": Some(reply.since_s).filter(|since_s| *since_s != 0),
            "waiting": reply.waiting,
            "running": reply.running,
            "running_until": Some(reply.running_until_s).filter(|until_s| *until_s != 0),
            "receipts": reply.receipts,
        });
        output::document(NAME, 0, &[], &[], Map::from_iter([("drains".to_owned(), json!([drain]))]))
    } else {
        sentences(&reply).join("\n") + "\n"
    };
    Ok(Outcome { text, ..Outcome::default() })
}

fn sentences(reply: &DrainReply) -> Vec<String> {
    if !reply.draining {
        return vec![
            "The market is in service. Jobs that were reset stay without a bid until sbid bid or another submission.".into(),
        ];
    }
    let since = local_time(reply.since_s).unwrap_or_default();
    let mut said =
        vec![format!("The market drains since {since}: new bids are accepted as jobs without a bid.")];
    let jobs = |count: u32| if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") };
    said.push(match reply.waiting {
        0 => "No waiting job has a bid any more.".into(),
        waiting => format!("{} with a bid still wait to be reset.", jobs(waiting)),
    });
    said.push(
        match (reply.running, local_time(reply.running_until_s).filter(|_| reply.running_until_s != 0)) {
            (0, _) => "No job of the market runs.".into(),
            (running, Some(until)) => {
                format!(
                    "{} of the market run, until {until} at the latest, and are settled at their end.",
                    jobs(running)
                )
            }
            (running, None) => {
                format!(
                    "{} of the market run, without a time limit, and are settled at their end.",
                    jobs(running)
                )
            }
        },
    );
    if reply.receipts > 0 {
        said.push(format!("{} ended and wait for slurmdbd to take their receipts.", jobs(reply.receipts)));
    }
    said.push(if reply.waiting > 0 {
        "Repeat this command until no waiting job is left.".into()
    } else if reply.running + reply.receipts > 0 {
        "Take the market's lines out of slurm.conf and restart slurmctld whenever you like; let quotamarketd run until all are settled.".into()
    } else {
        "Nothing is left: take the market's lines out of slurm.conf, restart slurmctld and stop quotamarketd.".into()
    });
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_left_and_what_comes_next() {
        let reply = |waiting, running, receipts| DrainReply {
            draining: true,
            since_s: 1_000_000,
            waiting,
            running,
            running_until_s: if running > 1 { 2_000_000 } else { 0 },
            receipts,
        };
        let table = [
            (reply(3, 2, 0), "3 jobs with a bid still wait to be reset.", "Repeat this command"),
            (reply(0, 2, 0), "2 jobs of the market run, until", "Take the market's lines"),
            (reply(0, 1, 0), "1 job of the market run, without a time limit", "Take the market's lines"),
            (reply(0, 0, 1), "1 job ended and wait for slurmdbd", "Take the market's lines"),
            (reply(0, 0, 0), "No job of the market runs.", "Nothing is left"),
        ];
        for (reply, said, last) in table {
            let sentences = sentences(&reply);
            assert!(sentences.iter().any(|sentence| sentence.contains(said)), "{sentences:?}");
            assert!(sentences.last().is_some_and(|sentence| sentence.starts_with(last)), "{sentences:?}");
        }
        assert_eq!(sentences(&DrainReply::default()).len(), 1);
    }
}
