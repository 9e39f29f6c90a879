//! `sbid deposit`

use clap::Args;
use market::amount::Amount;
use market_api::v1::DepositRequest;
use serde_json::{Map, json};

use super::arguments::{self, WriteArgs};
use crate::client::Market;
use crate::failure::Failure;
use crate::field::su_text;
use crate::output::{self, Outcome, OutputArgs};

pub(crate) const NAME: &str = "deposit";

#[derive(Debug, Args)]
pub(crate) struct DepositArgs {
    /// Who gets the money
    #[arg(value_parser = arguments::account)]
    account: String,
    /// How much, in SU
    #[arg(value_parser = arguments::amount, allow_negative_numbers = true)]
    amount: Amount,
    /// Why; kept in the ledger
    #[arg(short = 'c', long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    comment: String,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &DepositArgs, market: &Market, output: &OutputArgs) -> Result<Outcome, Failure> {
    let key = args.write.key();
    let request = DepositRequest {
        account: args.account.clone(),
        amount_usu: args.amount.micros(),
        memo: args.comment.clone(),
        idempotency_key: key.clone(),
    };
    let reply = market.deposit(request).map_err(|error| Failure::of_write(error, &key))?;
    let available = su_text(reply.available_usu);
    let text = if output.json {
        let deposit = json!({
            "transfer_id": reply.transfer_id,
            "account": args.account,
            "amount": args.amount.to_string(),
            "available": available,
            "idempotency_key": key,
        });
        let body = Map::from_iter([("deposits".to_owned(), json!([deposit]))]);
        output::document(NAME, 0, &[], &[], body)
    } else {
        format!(
            "Deposited {} SU to {} (transfer {}); {available} SU are available there.\n",
            args.amount, args.account, reply.transfer_id,
        )
    };
    Ok(Outcome { text, ..Outcome::default() })
}
