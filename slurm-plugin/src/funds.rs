//! What each account can still spend: the daemon's figure less the *tentative escrows*, the worst cases of
//! submissions that the figure does not contain yet.
//!
//! A tentative escrow lives from its submission to the first snapshot that lists its uuid, or, if no job came of it
//! (refused later, `--test-only`), until the daemon has read slurmctld well after it. While the daemon is silent none
//! ends: lapsing before the new figure is known would let the same money be spent twice.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use market::amount::Amount;
use uuid::Uuid;

/// How long before a snapshot's read of slurmctld a submission must have been to be counted out as one that made no
/// job. Far above any time between `job_submit` and the job's record.
pub const TENTATIVE_TTL: Duration = Duration::from_secs(30);
/// Most open tentative escrows of one user.
pub const TENTATIVE_PER_USER_MAX: u32 = 1_000;
/// Most open tentative escrows in all.
pub const TENTATIVE_MAX: usize = 100_000;

/// Free funds by account: available less all earmarks; below zero while earmarks exceed funds.
pub type FreeByAccount = HashMap<String, Amount>;

/// The worst case of one submission.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub uuid: Uuid,
    pub uid: u32,
    pub account: &'a str,
    pub amount: Amount,
    /// CLOCK_MONOTONIC of the submission.
    pub at_ns: u64,
}

/// Why a submission cannot be covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The account has only this much free, tentative escrows counted.
    Short { free: Amount },
    /// Too many submissions of the user, or of all users, await the daemon.
    TooManyInFlight,
}

#[derive(Debug)]
struct Open {
    account: String,
    uid: u32,
    amount: Amount,
}

#[derive(Debug, Default)]
struct State {
    free: Arc<FreeByAccount>,
    open: HashMap<Uuid, Open>,
    /// Oldest first; entries that are no longer open are skipped when their time comes.
    by_age: VecDeque<(u64, Uuid)>,
    sum_by_account: HashMap<String, Amount>,
    count_by_uid: HashMap<u32, u32>,
}

/// The funds that submissions are checked against. Its lock is a leaf, held for a handful of map operations.
#[derive(Debug, Default)]
pub struct Funds(Mutex<State>);

impl Funds {
    /// Counts the submission in, if its account can bear it: one atomic step, since submissions come concurrently.
    ///
    /// # Errors
    /// [`Refusal`], and then nothing has changed. An account without a figure has nothing free.
    pub fn check_and_add(&self, ask: &Ask<'_>) -> Result<(), Refusal> {
        let mut state = self.lock();
        let held = state.sum_by_account.get(ask.account).copied().unwrap_or(Amount::ZERO);
        let free = state.free.get(ask.account).copied().unwrap_or(Amount::ZERO);
        let free = free.checked_sub(held).unwrap_or(Amount::from_micros(i64::MIN));
        if ask.amount > free {
            return Err(Refusal::Short { free });
        }
        let of_user = state.count_by_uid.get(&ask.uid).copied().unwrap_or(0);
        let sum = held.checked_add(ask.amount);
        let (Some(sum), true) = (sum, of_user < TENTATIVE_PER_USER_MAX && state.open.len() < TENTATIVE_MAX)
        else {
            return Err(Refusal::TooManyInFlight);
        };
        state.add(ask, of_user, sum);
        Ok(())
    }

    /// Takes up a snapshot: its figures, and the end of the tentative escrows that they contain (`known`) or that
    /// made no job by `read_began_ns`. A submission sees either all of it or nothing.
    pub fn renew(&self, free: Arc<FreeByAccount>, known: &HashSet<Uuid>, read_began_ns: u64) {
        // A known uuid was open before the snapshot that lists it came: what is added meanwhile cannot be among them.
        let open: Vec<Uuid> = self.lock().open.keys().copied().collect();
        let contained: Vec<Uuid> = open.into_iter().filter(|uuid| known.contains(uuid)).collect();
        let ttl_ns = u64::try_from(TENTATIVE_TTL.as_nanos()).unwrap_or(u64::MAX);
        let lapsed_before_ns = read_began_ns.saturating_sub(ttl_ns);
        let mut state = self.lock();
        let former = std::mem::replace(&mut state.free, free);
        for uuid in &contained {
            state.end(uuid);
        }
        while let Some((_, uuid)) = state.by_age.pop_front_if(|(at_ns, _)| *at_ns < lapsed_before_ns) {
            state.end(&uuid);
        }
        drop(state);
        drop(former); // after the lock: it may be the last reference to a large table
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, ask: &Ask<'_>, of_user: u32, sum: Amount) {
        let open = Open { account: ask.account.to_owned(), uid: ask.uid, amount: ask.amount };
        self.sum_by_account.insert(open.account.clone(), sum);
        self.count_by_uid.insert(ask.uid, of_user + 1);
        self.by_age.push_back((ask.at_ns, ask.uuid));
        self.open.insert(ask.uuid, open);
    }

    fn end(&mut self, uuid: &Uuid) {
        let Some(open) = self.open.remove(uuid) else { return };
        if let Some(sum) = self.sum_by_account.get_mut(&open.account) {
            *sum = sum.checked_sub(open.amount).unwrap_or(Amount::ZERO);
            if *sum == Amount::ZERO {
                self.sum_by_account.remove(&open.account);
            }
        }
        if let Some(count) = self.count_by_uid.get_mut(&open.uid) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.count_by_uid.remove(&open.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests;
