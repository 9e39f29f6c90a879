//! `sbid ledger`

use clap::Args;
use market::amount::Amount;
use market_api::v1::{LedgerEntry, LedgerReply, LedgerRequest};

use super::arguments::{self, AccountArgs};
use crate::client::Market;
use crate::failure::Failure;
use crate::field::{Cell, Field, su_text};
use crate::output::{Outcome, OutputArgs, Report};

pub(crate) const NAME: &str = "ledger";

#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    #[command(flatten)]
    accounts: AccountArgs,
    /// Show the last N entries [default: 1000]
    #[arg(long, value_name = "N", value_parser = arguments::entry_limit)]
    limit: Option<u32>,
}

/// The memo is the last field: it is the only one in which a delimiter may stand.
pub(crate) const FIELDS: &[Field<LedgerEntry>] = &[
    Field::number("Transfer", "transfer_id", |entry| Cell::Count(Some(entry.transfer_id))),
    Field::text("Time", "time", |entry| Cell::time_or_none(entry.at_s)),
    Field::text("Kind", "kind", |entry| Cell::Text(entry.kind.clone())),
    Field::text("LedgerAccount", "ledger_account", |entry| Cell::Text(entry.ledger_account.clone())),
    Field::number("Amount", "amount", |entry| Cell::FixedMoney(entry.amount_usu)),
    Field::number("JobID", "job_id", |entry| Cell::count_or_none(entry.job_id)),
    Field::text("Memo", "memo", |entry| Cell::Text(entry.memo.clone())),
];

pub(crate) fn run(args: &LedgerArgs, market: &Market, output: &OutputArgs) -> Result<Outcome, Failure> {
    let layout = output.layout(FIELDS)?;
    let reply = market.ledger(LedgerRequest {
        accounts: args.accounts.accounts.clone(),
        limit: args.limit.unwrap_or_default(),
    })?;
    Ok(layout.lay_out(report(reply)))
}

fn report(reply: LedgerReply) -> Report<LedgerEntry> {
    let sum = Amount::from_micros(reply.sum_usu);
    let shown = reply.entries.len();
    let mut report = Report::new(NAME, "entries", reply.as_of_s, reply.entries);
    report.after.push(format!("Sum of all accounts: {} SU", sum.fixed6()));
    report.members.push(("sum", su_text(reply.sum_usu).into()));
    if reply.truncated {
        let warning = format!("these are the last {shown} entries; --limit=N shows more");
        report.warnings.push(warning);
    }
    if sum != Amount::ZERO {
        report.errors.push(format!(
            "the ledger is broken: its accounts sum to {sum} SU and not to 0; tell the administrator"
        ));
    }
    report
}
