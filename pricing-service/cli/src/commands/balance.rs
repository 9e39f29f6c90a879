//! `sbid balance`

use clap::Args;
use market_api::v1::{AccountBalance, BalancesRequest};

use super::arguments::AccountArgs;
use crate::client::Market;
use crate::failure::Failure;
use crate::field::{Cell, Field};
use crate::output::{Outcome, OutputArgs, Report};

pub(crate) const NAME: &str = "balance";

#[derive(Debug, Args)]
pub(crate) struct BalanceArgs {
    #[command(flatten)]
    accounts: AccountArgs,
}

pub(crate) const FIELDS: &[Field<AccountBalance>] = &[
    Field::text("Account", "account", |account| Cell::Text(account.account.clone())),
    Field::number("Available", "available", |account| Cell::Money(Some(account.available_usu))),
    Field::number("Earmarked", "earmarked", |account| Cell::Money(Some(account.earmarked_usu))),
    Field::number("Free", "free", |account| Cell::Money(Some(account.free_usu))),
    Field::number("Escrow", "escrow", |account| Cell::Money(Some(account.escrow_usu))),
    Field::number("Charged", "charged", |account| Cell::Money(Some(account.charged_usu))),
];

pub(crate) fn run(args: &BalanceArgs, market: &Market, output: &OutputArgs) -> Result<Outcome, Failure> {
    let layout = output.layout(FIELDS)?;
    let reply = market.balances(BalancesRequest { accounts: args.accounts.accounts.clone() })?;
    Ok(layout.lay_out(Report::new(NAME, "accounts", reply.as_of_s, reply.accounts)))
}
