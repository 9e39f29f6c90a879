//! Double entry: every movement of money is a transfer of entries that sum to zero.
//!
//! Money enters through `Mint` (whose balance is what was ever given out, negative), rests in the Slurm accounts,
//! waits in their escrows while jobs run, and leaves to `Burn` when it is charged. What a job used and nobody could
//! pay is booked against `HouseLoss`. Only mint, burn and house loss may fall below zero.

use std::collections::BTreeMap;
use std::fmt;

use crate::amount::Amount;

/// A place where money can be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LedgerAccount {
    /// What a Slurm account can spend.
    Account(String),
    /// What is set aside for the running jobs of a Slurm account.
    Escrow(String),
    Mint,
    Burn,
    HouseLoss,
}

impl LedgerAccount {
    /// Whether the balance may fall below zero.
    pub const fn may_be_negative(&self) -> bool {
        matches!(self, Self::Mint | Self::Burn | Self::HouseLoss)
    }

    /// Kind as stored and shown.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Account(_) => "account",
            Self::Escrow(_) => "escrow",
            Self::Mint => "mint",
            Self::Burn => "burn",
            Self::HouseLoss => "house_loss",
        }
    }

    /// The Slurm account it belongs to, empty for the three of the house.
    pub fn name(&self) -> &str {
        match self {
            Self::Account(name) | Self::Escrow(name) => name,
            Self::Mint | Self::Burn | Self::HouseLoss => "",
        }
    }
}

impl fmt::Display for LedgerAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(name) => f.write_str(name),
            Self::Escrow(name) => write!(f, "{name}/escrow"),
            Self::Mint | Self::Burn | Self::HouseLoss => write!(f, "({})", self.kind()),
        }
    }
}

/// Why a transfer was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransferKind {
    Deposit,
    EscrowPlaced,
    Charge,
    EscrowReturned,
}

impl TransferKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deposit => "deposit",
            Self::EscrowPlaced => "escrow_placed",
            Self::Charge => "charge",
            Self::EscrowReturned => "escrow_returned",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub account: LedgerAccount,
    /// Positive: money arrives.
    pub amount: Amount,
}

/// Entries that sum to zero; none is zero itself, no account occurs twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    kind: TransferKind,
    entries: Vec<Entry>,
}

/// Why money cannot be moved. A failed call changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    #[error("the entries of a transfer sum to {0} micro-SU, not to zero")]
    Unbalanced(i128),
    #[error("{0} would fall below zero")]
    Overdraft(LedgerAccount),
    #[error("an amount exceeds what the ledger can hold")]
    Overflow,
    #[error("an amount must be above zero")]
    NotPositive,
}

impl Transfer {
    /// A transfer of the entries that are not zero; those of one account are added up first.
    ///
    /// # Errors
    /// [`LedgerError::Unbalanced`], [`LedgerError::Overflow`].
    pub fn new(kind: TransferKind, entries: impl IntoIterator<Item = Entry>) -> Result<Self, LedgerError> {
        let mut by_account: BTreeMap<LedgerAccount, i128> = BTreeMap::new();
        for Entry { account, amount } in entries {
            *by_account.entry(account).or_default() += i128::from(amount.micros());
        }
        let sum: i128 = by_account.values().sum();
        if sum != 0 {
            return Err(LedgerError::Unbalanced(sum));
        }
        by_account.retain(|_, amount| *amount != 0);
        let entries = by_account
            .into_iter()
            .map(|(account, amount)| {
                let micros = i64::try_from(amount).map_err(|_| LedgerError::Overflow)?;
                Ok(Entry { account, amount: Amount::from_micros(micros) })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { kind, entries })
    }

    /// `amount` from one place to another.
    ///
    /// # Errors
    /// [`LedgerError::NotPositive`] unless `amount` is above zero.
    pub fn movement(
        kind: TransferKind,
        from: LedgerAccount,
        to: LedgerAccount,
        amount: Amount,
    ) -> Result<Self, LedgerError> {
        if amount <= Amount::ZERO {
            return Err(LedgerError::NotPositive);
        }
        let taken = amount.checked_neg().ok_or(LedgerError::Overflow)?;
        Self::new(kind, [Entry { account: from, amount: taken }, Entry { account: to, amount }])
    }

    pub const fn kind(&self) -> TransferKind {
        self.kind
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Nothing moves, so nothing need be written.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// What every ledger account holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Balances(BTreeMap<LedgerAccount, Amount>);

impl Balances {
    pub fn of(&self, account: &LedgerAccount) -> Amount {
        self.0.get(account).copied().unwrap_or(Amount::ZERO)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&LedgerAccount, Amount)> {
        self.0.iter().map(|(account, amount)| (account, *amount))
    }

    /// Puts back a balance that was stored.
    pub fn restore(&mut self, account: LedgerAccount, balance: Amount) {
        self.0.insert(account, balance);
    }

    /// Zero, or the ledger is broken.
    pub fn sum_micros(&self) -> i128 {
        self.0.values().map(|amount| i128::from(amount.micros())).sum()
    }

    /// Moves the money of the transfer, all of it or none.
    ///
    /// # Errors
    /// [`LedgerError::Overdraft`], [`LedgerError::Overflow`].
    pub fn apply(&mut self, transfer: &Transfer) -> Result<(), LedgerError> {
        let after = transfer
            .entries
            .iter()
            .map(|Entry { account, amount }| {
                let balance = self.of(account).checked_add(*amount).ok_or(LedgerError::Overflow)?;
                if balance.is_negative() && amount.is_negative() && !account.may_be_negative() {
                    return Err(LedgerError::Overdraft(account.clone()));
                }
                Ok((account.clone(), balance))
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.0.extend(after);
        Ok(())
    }
}

/// How the end of a run segment is paid: from its escrow, then from what the account has left, and what exceeds
/// both is house loss. The unused escrow goes back. (design: "a job seen running or ended without funds is charged
/// what exists, the rest is house loss")
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub charge: Transfer,
    pub refund: Transfer,
    /// What the account paid.
    pub paid: Amount,
    /// What nobody could pay.
    pub loss: Amount,
}

impl Settlement {
    /// Settles `charge` of an account that has `available` besides the segment's open `escrow`.
    ///
    /// # Errors
    /// [`LedgerError::Overflow`]; [`LedgerError::NotPositive`] if an amount is below zero.
    pub fn of(account: &str, escrow: Amount, available: Amount, charge: Amount) -> Result<Self, LedgerError> {
        if [escrow, available, charge].iter().any(|amount| amount.is_negative()) {
            return Err(LedgerError::NotPositive);
        }
        let minus = |a: Amount, b: Amount| a.checked_sub(b).ok_or(LedgerError::Overflow);
        let from_escrow = charge.min(escrow);
        let from_account = minus(charge, from_escrow)?.min(available);
        let loss = minus(minus(charge, from_escrow)?, from_account)?;
        let entry = |account, amount| Entry { account, amount };
        let negative = |amount| minus(Amount::ZERO, amount);
        let charge_transfer = Transfer::new(
            TransferKind::Charge,
            [
                entry(LedgerAccount::Escrow(account.into()), negative(from_escrow)?),
                entry(LedgerAccount::Account(account.into()), negative(from_account)?),
                entry(LedgerAccount::HouseLoss, negative(loss)?),
                entry(LedgerAccount::Burn, charge),
            ],
        )?;
        let unused = minus(escrow, from_escrow)?;
        let refund = Transfer::new(
            TransferKind::EscrowReturned,
            [
                entry(LedgerAccount::Escrow(account.into()), negative(unused)?),
                entry(LedgerAccount::Account(account.into()), unused),
            ],
        )?;
        Ok(Self { charge: charge_transfer, refund, paid: minus(charge, loss)?, loss })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn su(micros: i64) -> Amount {
        Amount::from_micros(micros)
    }

    fn vision() -> LedgerAccount {
        LedgerAccount::Account("vision".into())
    }

    fn funded(amount: i64) -> Balances {
        let mut balances = Balances::default();
        let deposit = Transfer::movement(TransferKind::Deposit, LedgerAccount::Mint, vision(), su(amount));
        balances.apply(&deposit.expect("balanced")).expect("applies");
        balances
    }

    #[test]
    fn entries_that_do_not_sum_to_zero_are_no_transfer() {
        let entries = [
            Entry { account: LedgerAccount::Mint, amount: su(-5) },
            Entry { account: vision(), amount: su(4) },
        ];
        assert_eq!(Transfer::new(TransferKind::Deposit, entries), Err(LedgerError::Unbalanced(-1)));
    }

    #[test]
    fn only_mint_burn_and_house_loss_fall_below_zero() {
        let mut balances = funded(10);
        let before = balances.clone();
        let escrow = LedgerAccount::Escrow("vision".into());
        let too_much =
            Transfer::movement(TransferKind::EscrowPlaced, vision(), escrow, su(11)).expect("balanced");
        assert_eq!(balances.apply(&too_much), Err(LedgerError::Overdraft(vision())));
        assert_eq!(balances, before, "a refused transfer moved money");
        assert_eq!(balances.of(&LedgerAccount::Mint), su(-10));
    }

    #[test]
    fn amounts_below_one_are_no_movement() {
        for amount in [0, -1, i64::MIN] {
            let moved = Transfer::movement(TransferKind::Deposit, LedgerAccount::Mint, vision(), su(amount));
            assert_eq!(moved, Err(LedgerError::NotPositive));
        }
    }

    #[test]
    fn settlement_takes_escrow_then_account_then_house_loss() {
        // (escrow, available, charge) -> (paid, loss, left in account)
        let cases = [
            ((10, 5, 0), (0, 0, 15)),
            ((10, 5, 7), (7, 0, 8)),
            ((10, 5, 10), (10, 0, 5)),
            ((10, 5, 13), (13, 0, 2)),
            ((10, 5, 20), (15, 5, 0)),
            ((0, 0, 3), (0, 3, 0)),
        ];
        for ((escrow, available, charge), (paid, loss, left)) in cases {
            let mut balances =
                if escrow + available > 0 { funded(escrow + available) } else { Balances::default() };
            if escrow > 0 {
                let to = LedgerAccount::Escrow("vision".into());
                let placed = Transfer::movement(TransferKind::EscrowPlaced, vision(), to, su(escrow));
                balances.apply(&placed.expect("balanced")).expect("applies");
            }
            let settlement =
                Settlement::of("vision", su(escrow), su(available), su(charge)).expect("settles");
            balances.apply(&settlement.charge).expect("applies");
            balances.apply(&settlement.refund).expect("applies");
            assert_eq!((settlement.paid, settlement.loss), (su(paid), su(loss)));
            assert_eq!(balances.of(&vision()), su(left));
            assert_eq!(balances.of(&LedgerAccount::Escrow("vision".into())), Amount::ZERO);
            assert_eq!(balances.of(&LedgerAccount::Burn), su(charge));
            assert_eq!(balances.of(&LedgerAccount::HouseLoss), su(-loss));
            assert_eq!(balances.sum_micros(), 0);
        }
    }

    #[test]
    fn negative_amounts_cannot_be_settled() {
        assert_eq!(Settlement::of("vision", su(1), su(1), su(-1)), Err(LedgerError::NotPositive));
        assert_eq!(Settlement::of("vision", su(-1), su(1), su(1)), Err(LedgerError::NotPositive));
    }
}
