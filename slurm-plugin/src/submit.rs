//! What becomes of a submission: a pure decision over what the job says and what the market knows.
//!
//! The money itself is checked by the caller, atomically, with the worst case that the decision carries.

mod account;
mod refusal;
mod scope;
mod shape;
mod worst_case;

use std::borrow::Cow;

use market::amount::Price;
use market::bid::{self, Bid};
use market::order::{Tier, effective_bid_floor, priority_factor};
use market::request::{Gpus, GresError, gpus_asked};
use market_api::config::{NoBid, WhenUnavailable};

pub use market::request::Ask;
pub use refusal::Refusal;
pub(crate) use refusal::shown;
pub(crate) use shape::hosts_named_max;
pub use worst_case::{Walltime, WorstCase};

use crate::snapshot::Snapshot;
use scope::Scope;

/// What job_submit reads of a job request.
#[derive(Debug, Clone, Default)]
pub struct Submission<'a> {
    pub uid: u32,
    pub comment: Option<&'a [u8]>,
    /// `SBATCH_BID` of the job's environment, which only sbatch sends along.
    pub bid_variable: Option<Cow<'a, str>>,
    pub account: Option<Cow<'a, str>>,
    /// One or several, separated by commas.
    pub partition: Option<Cow<'a, str>>,
    pub qos: Option<Cow<'a, str>>,
    pub walltime: Walltime,
    pub array: Option<Cow<'a, str>>,
    pub is_het_component: bool,
    pub is_scrontab: bool,
    /// The nodes that it must have, as a host list.
    pub req_nodes: Option<Cow<'a, str>>,
    pub min_cpus: Option<u32>,
    pub cpus_per_task: Option<u32>,
    /// What it says of GPUs. Facts of partitions and nodes are the snapshot's to fill in.
    pub ask: Ask<'a>,
}

/// What to do with a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The job is not the market's business.
    Untouched,
    Refuse(Refusal),
    Accept(Accepted),
}

/// A job of the market.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub limit: Price,
    pub tier: Tier,
    /// The service is gone, and `when_unavailable` gave the tier.
    pub unavailable: bool,
    pub qos: String,
    /// Without NICE_OFFSET.
    pub factor: u32,
    /// To be covered by funds before the job is accepted.
    pub worst_case: Option<WorstCase>,
}

/// Decides on one submission. `is_available`: the snapshot is the daemon's and fresh.
pub fn decide(snapshot: &Snapshot, submission: &Submission<'_>, is_available: bool) -> Decision {
    let case = Case { snapshot, submission, scope: Scope::of(snapshot, submission.partition.as_deref()) };
    match case.decide(is_available) {
        Ok(Some(accepted)) => Decision::Accept(accepted),
        Ok(None) => Decision::Untouched,
        Err(refusal) => Decision::Refuse(refusal),
    }
}

struct Case<'a> {
    snapshot: &'a Snapshot,
    submission: &'a Submission<'a>,
    scope: Scope<'a>,
}

impl Case<'_> {
    /// `None`: not the market's business.
    fn decide(&self, is_available: bool) -> Result<Option<Accepted>, Refusal> {
        let bid = self.bid()?;
        let gpus = gpus_asked(&self.ask());
        let Some(bid) = bid else {
            return self.without_bid(gpus);
        };
        if bid.is_free() {
            let takes_gpus = self.may_take_gpus(&gpus);
            return if takes_gpus { self.free_tier_asked("bid:0").map(Some) } else { Ok(None) };
        }
        let gpus = gpus.map_err(Refusal::gres)?;
        if gpus.is_empty() && !self.takes_unknown_nodes() {
            return Ok(None);
        }
        if self.submission.is_het_component {
            return Err(Refusal::het_job());
        }
        if self.submission.is_scrontab {
            return Err(Refusal::scrontab());
        }
        if is_available {
            self.standard(bid, &gpus).map(Some)
        } else {
            self.while_unavailable(bid, &gpus).map(Some)
        }
    }

    /// The comment's token, else `SBATCH_BID`.
    fn bid(&self) -> Result<Option<Bid>, Refusal> {
        let of_comment = self
            .submission
            .comment
            .map_or(Ok(None), bid::find_bytes)
            .map_err(|error| Refusal::bid(&error))?;
        match (of_comment, &self.submission.bid_variable) {
            (None, Some(value)) => {
                bid::parse_value(value).map(Some).map_err(|error| Refusal::bid_variable(&error))
            }
            (of_comment, _) => Ok(of_comment),
        }
    }

    fn ask(&self) -> Ask<'_> {
        let ask = self.submission.ask;
        Ask {
            min_nodes: self.nodes_min(),
            max_nodes: self.nodes_max(),
            exclusive: ask.exclusive || self.scope.is_exclusive,
            node_gpus_max: self.scope.node_gpus_max(),
            nodes_usable_max: self.scope.nodes_usable_max(),
            ..ask
        }
    }

    /// Whole nodes of which nobody knows yet what they hold.
    fn takes_unknown_nodes(&self) -> bool {
        self.submission.ask.exclusive && self.snapshot.partitions.is_empty()
    }

    /// Also true of parts of a GPU and of what cannot be counted.
    fn may_take_gpus(&self, gpus: &Result<Gpus, GresError>) -> bool {
        gpus.as_ref().map_or(true, |gpus| !gpus.is_empty()) || self.takes_unknown_nodes()
    }

    fn without_bid(&self, gpus: Result<Gpus, GresError>) -> Result<Option<Accepted>, Refusal> {
        let takes_from_pool = match gpus {
            Ok(gpus) => self.scope.has_any(&gpus),
            Err(GresError::PartOfGpu { .. }) => !self.scope.pools.is_empty(),
            // For Slurm to judge.
            Err(GresError::Malformed { .. }) => false,
        };
        if !takes_from_pool {
            return Ok(None);
        }
        match self.snapshot.settings.no_bid {
            NoBid::Reject => Err(Refusal::no_bid()),
            NoBid::Free => self.free_tier_asked("no bid").map(Some),
            NoBid::Unchanged => match self.qos_to_be() {
                Some(qos) if self.snapshot.is_market_qos(qos) => Err(Refusal::market_qos_without_bid(qos)),
                _ => Ok(None),
            },
        }
    }

    /// The QOS the job would get: as given, else that of its association.
    fn qos_to_be(&self) -> Option<&str> {
        self.given_qos().or_else(|| self.default_qos())
    }

    fn given_qos(&self) -> Option<&str> {
        self.submission.qos.as_deref().filter(|qos| !qos.is_empty())
    }

    /// `what` is what stands against an explicit `--qos` of another kind.
    fn free_tier_asked(&self, what: &'static str) -> Result<Accepted, Refusal> {
        self.check_qos(Tier::Free, what)?;
        Ok(self.free_tier(Price::ZERO, false))
    }

    fn free_tier(&self, limit: Price, unavailable: bool) -> Accepted {
        let qos = self.snapshot.settings.free_qos.clone();
        Accepted { limit, tier: Tier::Free, unavailable, qos, factor: 0, worst_case: None }
    }

    /// An explicit `--qos` must be that of the tier: anything else says two things at once.
    fn check_qos(&self, tier: Tier, what: &str) -> Result<(), Refusal> {
        let Some(given) = self.given_qos() else { return Ok(()) };
        let settings = &self.snapshot.settings;
        let of_tier = match tier {
            Tier::Standard => &settings.standard_qos,
            Tier::Free => &settings.free_qos,
        };
        if given.eq_ignore_ascii_case(of_tier) {
            Ok(())
        } else {
            Err(Refusal::qos_against_bid(given, what, of_tier))
        }
    }

    fn standard(&self, bid: Bid, gpus: &Gpus) -> Result<Accepted, Refusal> {
        self.check_qos(Tier::Standard, &format!("bid:{bid}"))?;
        let account = self.account()?;
        let factor = self.factor(bid, gpus)?;
        let worst_case = self.worst_case(bid, gpus, account)?;
        Ok(self.standard_tier(bid, false, factor, Some(worst_case)))
    }

    fn standard_tier(
        &self,
        bid: Bid,
        unavailable: bool,
        factor: u32,
        worst_case: Option<WorstCase>,
    ) -> Accepted {
        let qos = self.snapshot.settings.standard_qos.clone();
        Accepted { limit: bid.limit, tier: Tier::Standard, unavailable, qos, factor, worst_case }
    }

    /// Prices may be old or missing here: only what the site chose for this case counts.
    fn while_unavailable(&self, bid: Bid, gpus: &Gpus) -> Result<Accepted, Refusal> {
        match self.snapshot.settings.when_unavailable {
            WhenUnavailable::Reject => Err(Refusal::unavailable()),
            WhenUnavailable::Free => {
                // The user asked for the standard tier: either market QOS says nothing against it.
                match self.given_qos() {
                    Some(qos) if !self.snapshot.is_market_qos(qos) => {
                        let of_tier = &self.snapshot.settings.standard_qos;
                        Err(Refusal::qos_against_bid(qos, &format!("bid:{bid}"), of_tier))
                    }
                    _ => Ok(self.free_tier(bid.limit, true)),
                }
            }
            WhenUnavailable::Allow => {
                self.check_qos(Tier::Standard, &format!("bid:{bid}"))?;
                let factor = if self.scope.pools.is_empty() { 0 } else { self.factor(bid, gpus)? };
                Ok(self.standard_tier(bid, true, factor, None))
            }
        }
    }

    /// The least factor over the pools the job may start in; refused if the limit buys nothing in one of them.
    fn factor(&self, bid: Bid, gpus: &Gpus) -> Result<u32, Refusal> {
        let pools = self.scope.pools_of(gpus)?;
        pools.check_limit(bid.limit)?;
        let effective = effective_bid_floor(bid.limit, Tier::Standard);
        let scale = &self.snapshot.settings.factor;
        let least = pools.iter().map(|pool| priority_factor(effective, pool.rho0, scale)).min();
        Ok(least.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
