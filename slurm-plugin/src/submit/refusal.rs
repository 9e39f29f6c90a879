//! Why a submission is refused: one sentence for the user, with what to type instead, and Slurm's nearest error code.

use market::amount::{Amount, Price};
use market::bid::BidError;
use market::order::Tier;
use market::request::{ArrayError, GresError};
use slurm_sys::{
    ESLURM_ACCOUNTING_POLICY, ESLURM_DISABLED, ESLURM_INVALID_ACCOUNT, ESLURM_INVALID_ARRAY,
    ESLURM_INVALID_GRES, ESLURM_INVALID_QOS, ESLURM_NOT_SUPPORTED,
};

use super::worst_case::{WorstCase, duration_text};

/// Most characters of a user's own text that a sentence repeats.
const SHOWN_CHARS_MAX: usize = 40;

/// A submission that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Slurm's error number.
    pub code: u32,
    /// Starts with `bid: `; one line.
    pub sentence: String,
}

impl Refusal {
    fn new(code: u32, sentence: String) -> Self {
        Self { code, sentence: format!("bid: {sentence}") }
    }

    pub(super) fn bid(error: &BidError) -> Self {
        Self::new(ESLURM_ACCOUNTING_POLICY, error.to_string())
    }

    pub(super) fn bid_variable(error: &BidError) -> Self {
        Self::new(ESLURM_ACCOUNTING_POLICY, format!("SBATCH_BID: {error}"))
    }

    pub(super) fn no_bid() -> Self {
        let sentence = "jobs that ask for GPUs need a bid here; add e.g. --comment=bid:3.5, or --comment=bid:0 for the free tier";
        Self::new(ESLURM_ACCOUNTING_POLICY, sentence.to_owned())
    }

    pub(super) fn market_qos_without_bid(qos: &str) -> Self {
        let qos = shown(qos);
        let sentence =
            format!("QOS {qos} is for jobs with a bid; add --comment=bid:PRICE, or choose another --qos");
        Self::new(ESLURM_INVALID_QOS, sentence)
    }

    pub(super) fn qos_against_bid(qos: &str, what: &str, of_tier: &str) -> Self {
        let is_list = qos.contains(',');
        let qos = shown(qos);
        let sentence = if is_list {
            format!("--qos={qos} names several QOS, but {what} means QOS {of_tier} alone; leave --qos out")
        } else {
            format!(
                "--qos={qos} and {what}, which means QOS {of_tier}, contradict each other; choose one of them"
            )
        };
        Self::new(ESLURM_INVALID_QOS, sentence)
    }

    pub(super) fn free_too_long() -> Self {
        let sentence = "the free tier gives way to every paid job: it takes batch jobs that may be requeued, or jobs of at most 1 h; lower --time, use sbatch --requeue, or bid";
        Self::new(ESLURM_ACCOUNTING_POLICY, sentence.to_owned())
    }

    pub(super) fn second_bid_of_het_job() -> Self {
        let sentence =
            "a heterogeneous job has one bid, in the comment of its first component; leave the others out";
        Self::new(ESLURM_ACCOUNTING_POLICY, sentence.to_owned())
    }

    pub(super) fn scrontab() -> Self {
        let sentence = "scrontab jobs cannot carry a bid yet; use bid:0 or submit without";
        Self::new(ESLURM_NOT_SUPPORTED, sentence.to_owned())
    }

    pub(super) fn unavailable() -> Self {
        let sentence = "the market service is not reachable; try again later, or bid:0 for the free tier";
        Self::new(ESLURM_DISABLED, sentence.to_owned())
    }

    pub(super) fn draining(qos: &str) -> Self {
        let qos = shown(qos);
        let sentence = format!(
            "QOS {qos} is for jobs with a bid, and the market is being taken out of service; leave --qos={qos} out"
        );
        Self::new(ESLURM_INVALID_QOS, sentence)
    }

    pub(super) fn gres(error: GresError) -> Self {
        Self::new(ESLURM_INVALID_GRES, error.to_string())
    }

    pub(super) fn array(error: ArrayError) -> Self {
        Self::new(ESLURM_INVALID_ARRAY, format!("--array: {error}"))
    }

    pub(super) fn no_account(uid: u32) -> Self {
        let sentence =
            format!("the market knows no default account of uid {uid}; name one with --account=NAME");
        Self::new(ESLURM_INVALID_ACCOUNT, sentence)
    }

    pub(super) fn no_association(user: &str, account: &str) -> Self {
        let account = shown(account);
        let sentence =
            format!("user {user} has no association with account {account}; choose another --account");
        Self::new(ESLURM_INVALID_ACCOUNT, sentence)
    }

    pub(super) fn unknown_account(account: &str) -> Self {
        let account = shown(account);
        let sentence = format!(
            "account {account} has no funds in the market; choose another --account, or bid:0 for the free tier"
        );
        Self::new(ESLURM_INVALID_ACCOUNT, sentence)
    }

    pub(super) fn unknown_model<'a>(
        model: &str,
        there_are: impl Iterator<Item = &'a str>,
        partitions: &str,
    ) -> Self {
        let there_are = there_are.collect::<Vec<_>>().join(", ");
        if there_are.is_empty() {
            return Self::no_pools(partitions);
        }
        let sentence = format!("no GPU model {}{}; there are: {there_are}", shown(model), within(partitions));
        Self::new(ESLURM_INVALID_GRES, sentence)
    }

    pub(super) fn no_pools(partitions: &str) -> Self {
        let sentence = format!(
            "no GPUs are priced{}; choose another --partition, or submit without a bid",
            within(partitions)
        );
        Self::new(ESLURM_INVALID_GRES, sentence)
    }

    pub(super) fn limit_too_low(
        limit: Price,
        tier: Tier,
        least: Price,
        pool: &str,
        payable: Option<&str>,
    ) -> Self {
        let model = payable
            .map_or_else(String::new, |name| format!(" name a model you can pay, e.g. --gres=gpu:{name}:N,"));
        let or = if model.is_empty() { "" } else { " or" };
        let sentence = format!(
            "limit {limit} is under the least price {least} SU/GPU-hour of tier {tier} in pool {pool}; bid at least {least},{or}{model} or bid:0 for the free tier",
        );
        Self::new(ESLURM_ACCOUNTING_POLICY, sentence)
    }

    pub(super) fn beyond_count() -> Self {
        let sentence =
            "the job asks for more than any account can hold; lower the limit, the hours or the GPUs";
        Self::new(ESLURM_ACCOUNTING_POLICY, sentence.to_owned())
    }

    /// The account has less free than the worst case.
    pub fn short(of: &WorstCase, free: Amount) -> Self {
        let WorstCase { account, amount, gpus, horizon_s, limit, tasks } = of;
        let duration = duration_text(*horizon_s);
        let plural = if *gpus == 1 { "" } else { "s" };
        let tasks = if *tasks == 1 { String::new() } else { format!(" x {tasks} tasks") };
        let free = free.max(Amount::ZERO);
        let sentence = format!(
            "needs {amount} SU ({gpus} GPU{plural} x {duration} x {limit}{tasks}) but account {account} has {free} SU free; lower the limit or hours, or bid:0 for the free tier"
        );
        Self::new(ESLURM_ACCOUNTING_POLICY, sentence)
    }

    /// Too many submissions await the daemon.
    pub fn in_flight() -> Self {
        Self::new(ESLURM_ACCOUNTING_POLICY, "too many submissions in flight; wait some seconds".to_owned())
    }
}

fn within(partitions: &str) -> String {
    match partitions {
        "" => String::new(),
        one if !one.contains(',') => format!(" in partition {one}"),
        several => format!(" in partitions {several}"),
    }
}

/// Users' texts reach terminals and logs from here: no control character may pass, and nobody needs a long one.
pub(crate) fn shown(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c });
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    if chars.next().is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}
