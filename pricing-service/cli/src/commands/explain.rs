//! `sbid explain`

use clap::Args;
use market_api::v1::{ExplainReply, ExplainRequest};
use serde_json::{Map, Value, json};

use super::jobs;
use crate::client::Market;
use crate::failure::Failure;
use crate::field::{json_object, su_text};
use crate::job_id::{self, JobId};
use crate::output::{self, Outcome, OutputArgs};

pub(crate) const NAME: &str = "explain";
/// In front of a command that would help.
const INDENT: &str = "   ";

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The job: 12, or 12_3 for a task of an array
    #[arg(value_name = "JOBID", allow_negative_numbers = true)]
    job: JobId,
}

pub(crate) fn run(args: &ExplainArgs, market: &Market, output: &OutputArgs) -> Result<Outcome, Failure> {
    let job_id = job_id::resolve(market, &args.job)?;
    let reply = market.explain(ExplainRequest { job_id })?;
    let text = if output.json {
        output::document(NAME, reply.as_of_s, &[], &[], body(&reply))
    } else {
        lay_out(&reply.sentences, &reply.hints)
    };
    Ok(Outcome { text, ..Outcome::default() })
}

/// Sentences one after the other; one that ends in a colon begins a line, and the first command follows it there.
fn lay_out(sentences: &[String], commands: &[String]) -> String {
    let mut text = String::new();
    for sentence in sentences {
        if !text.is_empty() {
            text.push(if sentence.ends_with(':') { '\n' } else { ' ' });
        }
        text.push_str(sentence);
    }
    for command in commands {
        if !text.is_empty() && !text.ends_with(':') {
            text.push('\n');
        }
        text.push_str(INDENT);
        text.push_str(command);
    }
    text.push('\n');
    text
}

fn body(reply: &ExplainReply) -> Map<String, Value> {
    let price = |usu| Some(usu).filter(|usu| *usu != 0).map(su_text);
    let explanation = json!({
        "job": reply.job.as_ref().map(|job| json_object(jobs::FIELDS, job)),
        "sentences": reply.sentences,
        "jobs_ahead": reply.jobs_ahead,
        "of": reply.of,
        "pass_next": price(reply.pass_next_usu),
        "pass_all": price(reply.pass_all_usu),
        "slurm_reason": reply.slurm_reason,
        "account_free": su_text(reply.account_free_usu),
        "hints": reply.hints,
    });
    Map::from_iter([("explanations".to_owned(), json!([explanation]))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(sentences: &[&str], commands: &[&str]) -> String {
        let owned = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        lay_out(&owned(sentences), &owned(commands))
    }

    #[test]
    fn commands_follow_the_sentence_that_announces_them() {
        let table: &[(&[&str], &[&str], &str)] = &[
            (&["A.", "B."], &[], "A. B.\n"),
            (&["A.", "B."], &["sbid bid 2 3"], "A. B.\n   sbid bid 2 3\n"),
            (&["A.", "B.", "Do:"], &["x", "y"], "A. B.\nDo:   x\n   y\n"),
            (&["Do:"], &["x"], "Do:   x\n"),
            (&["A."], &["x", "y"], "A.\n   x\n   y\n"),
            (&[], &["x"], "   x\n"),
        ];
        for (sentences, commands, text) in table {
            assert_eq!(laid_out(sentences, commands), *text);
        }
    }
}
