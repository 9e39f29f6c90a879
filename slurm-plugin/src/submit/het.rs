//! Heterogeneous jobs: one bid, which stands in the first component and counts for each of them.
//!
//! slurmctld hands the components of one request to job_submit one after the other on one thread, and gives them ids only
//! when all have passed (proc_req.c: `_slurm_rpc_submit_batch_het_job`, `_slurm_rpc_allocate_het_job`).

use std::cell::Cell;

use market::bid::Bid;

use super::refusal::Refusal;
use super::{Case, Decision, Submission};

/// A component of a heterogeneous job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    /// 0 is the first.
    pub offset: u32,
    /// The bid of the first one, for those behind it; `None`: it has none.
    pub leaders_bid: Option<Bid>,
}

/// The heterogeneous job whose components this thread is being asked about.
#[derive(Debug, Clone, Copy)]
struct Leader {
    uid: u32,
    next_offset: u32,
    bid: Option<Bid>,
}

thread_local! {
    static LEADER: Cell<Option<Leader>> = const { Cell::new(None) };
}

impl Component {
    /// The component at this offset of a job of this user, as this thread remembers its first one.
    pub fn at(offset: u32, uid: u32) -> Self {
        let leader = LEADER.get().filter(|leader| leader.uid == uid && leader.next_offset == offset);
        let leaders_bid = leader.filter(|_| offset > 0).and_then(|leader| leader.bid);
        Self { offset, leaders_bid }
    }

    /// Keeps the first one's bid for those that follow.
    pub fn remember(self, submission: &Submission<'_>, decision: &Decision) {
        let bid = match (self.offset, decision) {
            (0, Decision::Accept(accepted)) if accepted.limit > market::amount::Price::ZERO => {
                let asked_tier = Some(accepted.tier).filter(|tier| tier.is_paid());
                Some(Bid { limit: accepted.limit, asked_tier })
            }
            // A first component without GPUs still says what the others are worth.
            (0, _) => submission.stated_bid().ok().flatten(),
            _ => self.leaders_bid,
        };
        LEADER.set(Some(Leader { uid: submission.uid, next_offset: self.offset.saturating_add(1), bid }));
    }
}

impl Case<'_> {
    /// The bid that counts: in the components behind the first its bid, which they may repeat.
    pub(super) fn bid(&self) -> Result<Option<Bid>, Refusal> {
        let stated = self.submission.stated_bid()?;
        match self.submission.component {
            None | Some(Component { offset: 0, .. }) => Ok(stated),
            Some(Component { leaders_bid, .. }) => match (stated, leaders_bid) {
                (None, of_leader) => Ok(of_leader),
                (Some(stated), Some(of_leader)) if is_same(stated, of_leader) => Ok(Some(of_leader)),
                (Some(_), _) => Err(Refusal::second_bid_of_het_job()),
            },
        }
    }
}

fn is_same(stated: Bid, of_leader: Bid) -> bool {
    stated.limit == of_leader.limit && stated.asked_tier.is_none_or(|_| stated.tier() == of_leader.tier())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::tests::{ALICE, job, market};
    use crate::submit::{Ask, decide};

    /// Decides on components one after the other, as slurmctld asks.
    fn told(components: &[Submission<'_>]) -> Vec<String> {
        let snapshot = market();
        let mut told = Vec::new();
        for (offset, submission) in components.iter().enumerate() {
            let component = Component::at(u32::try_from(offset).expect("few"), submission.uid);
            let submission = Submission { component: Some(component), ..submission.clone() };
            let decision = decide(&snapshot, &submission, true);
            component.remember(&submission, &decision);
            told.push(match decision {
                Decision::Untouched => "untouched".into(),
                Decision::WithoutBid(sentence) => sentence.into(),
                Decision::Accept(accepted) => format!("{} {}", accepted.limit, accepted.qos),
                Decision::Refuse(refusal) => refusal.sentence,
            });
        }
        told
    }

    fn cpus(comment: &str) -> Submission<'_> {
        Submission { ask: Ask::default(), ..job(comment) }
    }

    #[test]
    fn the_first_ones_bid_counts_for_all() {
        assert_eq!(told(&[job("bid:1"), job(""), job("")]), ["1 standard"; 3]);
        assert_eq!(told(&[job("bid:1,tier=spot"), job("bid:1"), job("")]), ["1 spot"; 3]);
        let spot = Submission { qos: Some("spot".into()), ..job("bid:1") };
        assert_eq!(told(&[spot, job("")]), ["1 spot"; 2]);
        assert_eq!(told(&[cpus("bid:1"), job(""), cpus("")]), ["untouched", "1 standard", "untouched"]);
        assert_eq!(told(&[job("bid:0"), job("")]), ["0 free"; 2]);
        assert_eq!(told(&[job(""), job("")]), ["untouched"; 2]);
    }

    #[test]
    fn another_bid_further_on_is_refused() {
        let sentence = "bid: a heterogeneous job has one bid, in the comment of its first component; leave the others out";
        for components in [
            [job("bid:1"), job("bid:2")],
            [job("bid:1"), job("bid:1,tier=spot")],
            [job(""), job("bid:1")],
            [job("bid:1"), job("bid:0")],
        ] {
            assert_eq!(told(&components)[1], sentence);
        }
    }

    #[test]
    fn a_bid_does_not_outlive_its_job() {
        assert_eq!(told(&[job("bid:1")]), ["1 standard"]);
        // Another user, and an offset that does not follow: not of that job.
        assert_eq!(Component::at(1, ALICE + 1).leaders_bid, None);
        assert_eq!(Component::at(2, ALICE).leaders_bid, None);
        assert!(Component::at(1, ALICE).leaders_bid.is_some());
        assert_eq!(told(&[job(""), job("")]), ["untouched"; 2]);
    }
}
