//! Arguments that several commands share, and how their values are read.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use market::amount::{Amount, DecimalError};
use thiserror::Error;
use uuid::Uuid;

/// `-A`: which accounts.
#[derive(Debug, Args)]
pub(crate) struct AccountArgs {
    /// Only these accounts
    #[arg(short = 'A', long, value_name = "ACCOUNT,...", value_delimiter = ',', value_parser = account)]
    pub(crate) accounts: Vec<String>,
}

/// What every command that changes something takes.
#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// Key that makes a repeated command count once [default: a new one]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    idempotency_key: Option<String>,
}

impl WriteArgs {
    pub(crate) fn key(&self) -> String {
        self.idempotency_key.clone().unwrap_or_else(|| Uuid::new_v4().to_string())
    }
}

/// Why a value of the command line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ValueError {
    #[error("an account is missing; write for example vision, or vision,speech")]
    NoAccount,
    #[error("{text:?} is no amount: {source}; write SU above 0, for example 100 or 12.5")]
    Amount { text: String, source: DecimalError },
    #[error("a deposit of 0 SU moves nothing; write SU above 0, for example 100 or 12.5")]
    NoMoney,
    #[error("{text:?} is no number of entries; write for example 5000")]
    EntryLimit { text: String },
}

/// An account; slurmdbd keeps names in lower case, and Slurm's commands fold what is typed.
pub(crate) fn account(text: &str) -> Result<String, ValueError> {
    let name = text.trim().to_lowercase();
    if name.is_empty() { Err(ValueError::NoAccount) } else { Ok(name) }
}

/// Money above zero in SU.
pub(crate) fn amount(text: &str) -> Result<Amount, ValueError> {
    match Amount::parse(text) {
        Ok(Amount::ZERO) => Err(ValueError::NoMoney),
        Ok(amount) => Ok(amount),
        Err(source) => Err(ValueError::Amount { text: text.into(), source }),
    }
}

/// How many entries of a list, above zero.
pub(crate) fn entry_limit(text: &str) -> Result<u32, ValueError> {
    let limit = text.parse().ok().filter(|limit| *limit > 0);
    limit.ok_or_else(|| ValueError::EntryLimit { text: text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_folded_to_lower_case() {
        assert_eq!(account("Vision"), Ok("vision".into()));
        assert_eq!(account(" "), Err(ValueError::NoAccount));
    }

    #[test]
    fn amounts_are_plain_decimals_above_zero() {
        assert_eq!(amount("12.5"), Ok(Amount::from_micros(12_500_000)));
        assert_eq!(amount("0.0"), Err(ValueError::NoMoney));
        for text in ["", "-1", "1e3", "1,5", "bid:1", "0.0000001", "99999999999999"] {
            let error = amount(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("{text:?} is no amount: ")), "{error}");
        }
    }

    #[test]
    fn a_list_has_at_least_one_entry() {
        assert_eq!(entry_limit("5000"), Ok(5000));
        for text in ["", "0", "-1", "x", "4294967296"] {
            assert_eq!(entry_limit(text), Err(ValueError::EntryLimit { text: text.into() }));
        }
    }
}
