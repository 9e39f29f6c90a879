//! Submissions while the market is being taken out of service: a bid is text in a comment again, as it will be when
//! the plugin is gone.

use super::{Case, Decision, Refusal};

/// Said to whoever bids all the same.
pub const WITHOUT_BID: &str = "bid: the market is being taken out of service; the job is accepted without its bid, costs nothing, and Slurm alone decides when it starts";

impl Case<'_> {
    /// The tiers' QOS stay closed to jobs without a bid as long as other jobs pay for them.
    pub(super) fn while_draining(&self) -> Decision {
        if let Some(qos) = self.given_qos().and_then(|qos| self.snapshot.market_qos_in(qos)) {
            return Decision::Refuse(Refusal::draining(qos));
        }
        match self.bid() {
            Ok(None) => Decision::Untouched,
            Ok(Some(_)) | Err(_) => Decision::WithoutBid(WITHOUT_BID),
        }
    }
}
