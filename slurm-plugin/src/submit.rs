//! What becomes of a submission: a pure decision over what the job says and what the market knows.
//!
//! The money itself is checked by the caller, atomically, with the worst case that the decision carries.

mod account;
mod draining;
mod het;
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

pub use draining::WITHOUT_BID;
pub use het::Component;
pub use market::request::Ask;
pub use refusal::Refusal;
pub(crate) use refusal::shown;
pub(crate) use shape::hosts_named_max;
pub use worst_case::{Walltime, WorstCase};

use crate::snapshot::Snapshot;
use scope::Scope;

/// The longest time limit of a free job that cannot be requeued. (design "Tiers")
const FREE_UNREQUEUED_S: i64 = 3_600;

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
    pub component: Option<Component>,
    pub is_scrontab: bool,
    /// Batch jobs that Slurm may requeue; all others are cancelled when they must give way.
    pub can_be_requeued: bool,
    /// Comes from salloc or srun.
    pub is_interactive: bool,
    /// The nodes that it must have, as a host list.
    pub req_nodes: Option<Cow<'a, str>>,
    pub min_cpus: Option<u32>,
    pub cpus_per_task: Option<u32>,
    /// What it says of GPUs. Facts of partitions and nodes are the snapshot's to fill in.
    pub ask: Ask<'a>,
}

impl Submission<'_> {
    /// The comment's token, else `SBATCH_BID`.
    fn stated_bid(&self) -> Result<Option<Bid>, Refusal> {
        let of_comment =
            self.comment.map_or(Ok(None), bid::find_bytes).map_err(|error| Refusal::bid(&error))?;
        match (of_comment, &self.bid_variable) {
            (None, Some(value)) => {
                bid::parse_value(value).map(Some).map_err(|error| Refusal::bid_variable(&error))
            }
            (of_comment, _) => Ok(of_comment),
        }
    }
}

/// What to do with a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The job is not the market's business.
    Untouched,
    /// As [`Decision::Untouched`], though it carries a bid: this is said to the user.
    WithoutBid(&'static str),
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
    /// What the user is told though the job is accepted; starts with `bid: `.
    pub notice: Option<&'static str>,
}

/// Decides on one submission. `is_available`: the snapshot is the daemon's and fresh.
pub fn decide(snapshot: &Snapshot, submission: &Submission<'_>, is_available: bool) -> Decision {
    let case = Case { snapshot, submission, scope: Scope::of(snapshot, submission.partition.as_deref()) };
    if snapshot.settings.draining {
        return case.while_draining();
    }
    match case.decide(is_available) {
        Ok(Some(accepted)) => Decision::Accept(accepted),
        Ok(None) => Decision::Untouched,
        Err(refusal) => Decision::Refuse(refusal),
    }
}

/// What a job that is already there may come to cost at its bid, in a tier that pays; nothing without GPUs.
///
/// # Errors
/// As [`decide`]: the account, the model, the least price.
pub(crate) fn price(
    snapshot: &Snapshot,
    submission: &Submission<'_>,
    bid: Bid,
    tier: Tier,
) -> Result<WorstCase, Refusal> {
    let case = Case { snapshot, submission, scope: Scope::of(snapshot, submission.partition.as_deref()) };
    let gpus = gpus_asked(&case.ask()).map_err(Refusal::gres)?;
    if !gpus.is_empty() {
        case.factor(bid, tier, &gpus)?;
    }
    case.worst_case(bid, &gpus, case.account()?)
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
            return self.without_bid(gpus, is_available);
        };
        if bid.is_free() {
            let takes_gpus = self.may_take_gpus(&gpus);
            return if takes_gpus { self.free_tier_asked("bid:0").map(Some) } else { Ok(None) };
        }
        let gpus = gpus.map_err(Refusal::gres)?;
        if gpus.is_empty() && !self.takes_unknown_nodes() {
            return Ok(None);
        }
        self.with_bid(bid, &format!("bid:{bid}"), &gpus, is_available).map(Some)
    }

    /// `what` is what stands against an explicit `--qos` of another kind.
    fn with_bid(&self, bid: Bid, what: &str, gpus: &Gpus, is_available: bool) -> Result<Accepted, Refusal> {
        if self.submission.is_scrontab {
            return Err(Refusal::scrontab());
        }
        if !is_available {
            return self.while_unavailable(bid, what, gpus);
        }
        let tier = self.tier(bid, what)?;
        let account = self.account()?;
        let factor = self.factor(bid, tier, gpus)?;
        let worst_case = self.worst_case(bid, gpus, account)?;
        Ok(self.paid(bid, tier, factor, Some(worst_case)))
    }

    /// The tier that the bid names, else that of an explicit `--qos`: two that differ say two things at once.
    fn tier(&self, bid: Bid, what: &str) -> Result<Tier, Refusal> {
        let Some(given) = self.given_qos() else { return Ok(bid.tier()) };
        let qos = &self.snapshot.settings.qos;
        let of_qos = qos.tier_of(given).filter(|tier| tier.is_paid());
        of_qos
            .filter(|tier| bid.asked_tier.is_none_or(|asked| asked == *tier))
            .ok_or_else(|| Refusal::qos_against_bid(given, what, qos.of(bid.tier())))
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

    fn without_bid(
        &self,
        gpus: Result<Gpus, GresError>,
        is_available: bool,
    ) -> Result<Option<Accepted>, Refusal> {
        let takes_from_pool = match &gpus {
            Ok(gpus) => self.scope.has_any(gpus),
            Err(GresError::PartOfGpu { .. }) => !self.scope.pools.is_empty(),
            // For Slurm to judge.
            Err(GresError::Malformed { .. }) => false,
        };
        if !takes_from_pool {
            return Ok(None);
        }
        let settings = &self.snapshot.settings;
        match (settings.no_bid, settings.default_bid) {
            (NoBid::Reject, _) | (NoBid::DefaultBid, None) => Err(Refusal::no_bid()),
            (NoBid::DefaultBid, Some(limit)) => {
                let gpus = gpus.map_err(Refusal::gres)?;
                let bid = Bid { limit, asked_tier: None };
                self.with_bid(bid, &format!("no bid, which counts as bid:{bid} here"), &gpus, is_available)
                    .map(Some)
            }
            (NoBid::Free, _) => self.free_tier_asked("no bid").map(Some),
            (NoBid::Unchanged, _) => {
                match self.qos_to_be().and_then(|qos| self.snapshot.market_qos_in(qos)) {
                    Some(qos) => Err(Refusal::market_qos_without_bid(qos)),
                    None => Ok(None),
                }
            }
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
        let of_tier = self.snapshot.settings.qos.of(Tier::Free);
        if let Some(given) = self.given_qos().filter(|given| !given.eq_ignore_ascii_case(of_tier)) {
            return Err(Refusal::qos_against_bid(given, what, of_tier));
        }
        // Free jobs make room for every paid one: what cannot be requeued must end soon by itself.
        if !self.submission.can_be_requeued
            && self.longest_s().is_none_or(|limit_s| limit_s > FREE_UNREQUEUED_S)
        {
            return Err(Refusal::free_too_long());
        }
        Ok(self.free_tier(Price::ZERO))
    }

    fn free_tier(&self, limit: Price) -> Accepted {
        Accepted {
            limit,
            tier: Tier::Free,
            unavailable: false,
            qos: self.snapshot.settings.qos.of(Tier::Free).to_owned(),
            factor: 0,
            worst_case: None,
            notice: None,
        }
    }

    fn paid(&self, bid: Bid, tier: Tier, factor: u32, worst_case: Option<WorstCase>) -> Accepted {
        Accepted {
            limit: bid.limit,
            tier,
            unavailable: false,
            qos: self.snapshot.settings.qos.of(tier).to_owned(),
            factor,
            worst_case,
            notice: self.spot_notice().filter(|_| tier == Tier::Spot),
        }
    }

    /// What happens to an outbid job that cannot be requeued.
    fn spot_notice(&self) -> Option<&'static str> {
        match (self.submission.can_be_requeued, self.submission.is_interactive) {
            (true, _) => None,
            (false, true) => Some(
                "bid: a spot job can be outbid while it runs; one of salloc or srun is then cancelled, not requeued",
            ),
            (false, false) => {
                Some("bid: a spot job can be outbid while it runs; without --requeue it is then cancelled")
            }
        }
    }

    /// Prices may be old or missing here: only what the site chose for this case counts.
    fn while_unavailable(&self, bid: Bid, what: &str, gpus: &Gpus) -> Result<Accepted, Refusal> {
        let settings = &self.snapshot.settings;
        let accepted = match settings.when_unavailable {
            WhenUnavailable::Reject => return Err(Refusal::unavailable()),
            WhenUnavailable::Free => {
                // It becomes free whatever paid tier the user asked for; only another QOS speaks against it.
                if self.given_qos().is_some_and(|given| settings.qos.tier_of(given) != Some(Tier::Free)) {
                    self.tier(bid, what)?;
                }
                self.free_tier(bid.limit)
            }
            WhenUnavailable::Allow => {
                let tier = self.tier(bid, what)?;
                let factor = if self.scope.pools.is_empty() { 0 } else { self.factor(bid, tier, gpus)? };
                self.paid(bid, tier, factor, None)
            }
        };
        Ok(Accepted { unavailable: true, ..accepted })
    }

    /// The least factor over the pools the job may start in; refused if the limit buys nothing in one of them.
    fn factor(&self, bid: Bid, tier: Tier, gpus: &Gpus) -> Result<u32, Refusal> {
        let pools = self.scope.pools_of(gpus)?;
        pools.check_limit(bid.limit, tier)?;
        let effective = effective_bid_floor(bid.limit, tier);
        let scale = &self.snapshot.settings.factor;
        let least = pools.iter().map(|pool| priority_factor(effective, pool.rho0, scale)).min();
        Ok(least.unwrap_or(0))
    }
}

#[cfg(test)]
pub(crate) mod tests;
