//! `sbid explain`: why a job waits, what it pays, and what would change that.

use market::amount::{Amount, Price};
use market::order::Tier;
use market_api::v1;

use super::Engine;
use super::line::{line_of, place_in};
use super::views::{segment_job, waiting_job};
use super::waiting::{Waiting, free_of};
use crate::model::{Order, Segment};
use crate::query::{Caller, QueryError};
use crate::store;

/// A suggested bid is a multiple of this, if it is not smaller itself: 0.01 SU.
const ROUND_TO_USU: i64 = 10_000;
/// At most so many jobs ahead are named.
const AHEAD_NAMED: usize = 5;

impl Engine {
    /// Any user may ask about any job that squeue shows them: all that is said stands there as well, but for the
    /// account's funds, which only members and operators are told.
    pub(super) fn explain(&self, caller: Caller, job_id: u32) -> Result<v1::ExplainReply, QueryError> {
        let as_of_s = self.facts()?.as_of_s;
        let by_record = |waiting: &&Waiting| waiting.records.iter().any(|(id, _)| *id == job_id);
        let waiting = self.waiting.iter().find(by_record);
        let waiting = waiting.or_else(|| self.waiting.iter().find(|waiting| waiting.id.job_id == job_id));
        let by_leader = || self.waiting.iter().find(|waiting| waiting.het_leader == Some(job_id));
        if let Some(waiting) = waiting.or_else(by_leader)
            && let Some(order) = self.book.orders.get(&waiting.order)
        {
            self.check_may_see(caller, order, job_id)?;
            return Ok(self.explain_waiting(caller, order, waiting, as_of_s));
        }
        let segments = store::segments::of_job(self.store.reader(), job_id)?;
        let newest = segments.iter().max_by_key(|segment| (segment.settled.is_none(), segment.start_s));
        if let Some(segment) = newest
            && let Some(order) = self.order_row(segment.order)?
        {
            self.check_may_see(caller, &order, job_id)?;
            let is_run_of_it =
                |other: &&Segment| other.order == segment.order && other.display_id == segment.display_id;
            let runs = segments.iter().filter(is_run_of_it).count();
            let mut reply = explain_segment(&order, segment, runs, as_of_s);
            reply.sentences.extend(self.eviction_sentence(segment, as_of_s));
            return Ok(reply);
        }
        if let Some(order) = store::orders::by_job(self.store.reader(), job_id)? {
            self.check_may_see(caller, &order, job_id)?;
            let sentence = format!(
                "Job {job_id} of {} bid {} and ended without having run; it cost nothing.",
                order.user, order.limit
            );
            let job = v1::MarketJob {
                job_id,
                user: order.user,
                account: order.account,
                state: "CANCELLED".into(),
                ..Default::default()
            };
            return Ok(v1::ExplainReply {
                as_of_s,
                job: Some(job),
                sentences: vec![sentence],
                ..Default::default()
            });
        }
        Err(QueryError::NotFound(format!(
            "job {job_id} carries no bid, so the market does not price it; squeue -j {job_id} shows its state, and while it waits for GPUs sbid bid {job_id} PRICE gives it a bid"
        )))
    }

    fn explain_waiting(
        &self,
        caller: Caller,
        order: &Order,
        waiting: &Waiting,
        as_of_s: i64,
    ) -> v1::ExplainReply {
        let line = line_of(&self.waiting, waiting.order);
        let place = place_in(&line, waiting.order);
        let ahead: Vec<&Waiting> =
            line.iter().copied().take_while(|other| other.order != waiting.order).collect();
        let named: Vec<&Waiting> =
            ahead.iter().copied().filter(|other| self.may_see_waiting(caller, other)).collect();
        let pass_next = ahead.last().and_then(|other| self.bid_to_pass(order, waiting, other));
        let pass_all = ahead.first().and_then(|other| self.bid_to_pass(order, waiting, other));
        let free = free_of(&self.book, &self.waiting, &waiting.account);
        let may_see_funds = self.is_operator(caller) || self.belongs(caller, &waiting.account);

        let mut sentences = vec![place_sentence(waiting, &ahead, &named, line.len())];
        sentences.push(self.price_sentence(waiting));
        sentences.push(funds_sentence(waiting, free, may_see_funds));
        if let Some(leader) = waiting.het_leader {
            sentences.push(format!(
                "It is a component of job {leader}, whose components start together, are funded together and have one bid: \
                 the least of their priorities counts for all."
            ));
        }
        if let Some(obstacle) = obstacle_sentence(waiting) {
            sentences.push(obstacle);
        }
        sentences.extend(self.refusal_sentence(waiting).filter(|_| may_see_funds));
        let mut hints = Vec::new();
        if waiting.tier.is_paid() {
            let job_id = waiting.records.first().map_or(order.job_id, |(id, _)| *id);
            if let (Some(next), Some(passed)) = (pass_next, ahead.last()) {
                let all = pass_all.filter(|_| ahead.len() > 1).map(|all| format!(", to be first {all}"));
                let all = all.unwrap_or_default();
                let passed = match named.last().filter(|named| named.order == passed.order) {
                    Some(passed) => format!("job {}", passed.display_id),
                    None => "the next job".into(),
                };
                sentences.push(format!("To pass {passed} bid {next}{all}:"));
            }
            hints.extend(pass_all.map(|price| format!("sbid bid {job_id} {price}")));
        }
        v1::ExplainReply {
            as_of_s,
            job: Some(waiting_job(order, waiting, place)),
            sentences,
            jobs_ahead: named.iter().filter_map(|other| other.records.first()).map(|(id, _)| *id).collect(),
            of: place.of,
            pass_next_usu: pass_next.map_or(0, Price::micros),
            pass_all_usu: pass_all.map_or(0, Price::micros),
            slurm_reason: waiting.reason.clone(),
            account_free_usu: if may_see_funds { free.micros() } else { 0 },
            hints,
        }
    }

    /// As squeue does: under PrivateData=jobs only to those whom the job, or its account, is of.
    fn may_see(&self, caller: Caller, uid: u32, account: &str) -> bool {
        let is_private = self.facts.as_ref().is_none_or(|facts| facts.cluster.jobs_are_private);
        !is_private || uid == caller.uid || self.is_operator(caller) || self.belongs(caller, account)
    }

    fn may_see_waiting(&self, caller: Caller, waiting: &Waiting) -> bool {
        let order = self.book.orders.get(&waiting.order);
        order.is_some_and(|order| self.may_see(caller, order.uid, &waiting.account))
    }

    fn check_may_see(&self, caller: Caller, order: &Order, job_id: u32) -> Result<(), QueryError> {
        if self.may_see(caller, order.uid, &order.account) {
            return Ok(());
        }
        Err(QueryError::NotAllowed(format!(
            "job {job_id} belongs to another user, and this cluster keeps jobs private; ask about your own"
        )))
    }

    fn belongs(&self, caller: Caller, account: &str) -> bool {
        let Some(facts) = &self.facts else { return false };
        let member = |uid: Option<u32>, name: &str| uid == Some(caller.uid) && name == account;
        facts.cluster.associations.iter().any(|association| member(association.uid, &association.account))
            || facts.cluster.users.get(&caller.uid).is_some_and(|user| user.coordinates.contains(account))
    }

    fn price_sentence(&self, waiting: &Waiting) -> String {
        if waiting.tier == Tier::Free {
            return "It is in the free tier: it pays nothing and starts when no paid job wants the GPUs."
                .into();
        }
        let home = waiting.home().unwrap_or_default();
        let start = self.book.pools.get(home).map(|state| state.start_price);
        let start = start.map(|price| market::order::least_limit_ceil(price, waiting.tier));
        match start {
            Some(start) if waiting.limit >= start => {
                format!("Its limit of {} reaches the start price of {start} in pool {home}.", waiting.limit)
            }
            Some(start) => {
                format!("Its limit of {} is below the start price of {start} in pool {home}.", waiting.limit)
            }
            None => format!("Its limit is {}.", waiting.limit),
        }
    }

    /// Why the last change of it was refused.
    fn refusal_sentence(&self, waiting: &Waiting) -> Option<String> {
        let of_record = |(job_id, submit_s): &(u32, i64)| {
            self.refused.get(job_id).filter(|refused| refused.submit_s == *submit_s)
        };
        let refused = waiting.records.iter().find_map(of_record)?;
        let prefix = format!("bid: job {}: ", refused.job_id);
        let sentence = refused.sentence.strip_prefix(&prefix).unwrap_or(&refused.sentence);
        Some(format!("The last change of it was refused: {sentence}."))
    }

    /// The least round limit that gives more priority than the other has.
    fn bid_to_pass(&self, order: &Order, waiting: &Waiting, other: &Waiting) -> Option<Price> {
        if waiting.tier == Tier::Free {
            return None;
        }
        let passes = |micros: i64| {
            Price::from_micros(micros)
                .is_some_and(|limit| waiting.factor_at(limit, order.age_s, &self.terms).1 > other.factor)
        };
        let unit = if other.limit.micros() < 10 * ROUND_TO_USU { 1 } else { ROUND_TO_USU };
        let most = Price::PARSE_MAX.micros() / unit;
        let (mut low, mut high) = (waiting.limit.micros() / unit, most);
        if !passes(high * unit) {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if passes(middle * unit) { high = middle } else { low = middle + 1 }
        }
        Price::from_micros(high * unit)
    }
}

/// `named` are those `ahead` whom the caller may see.
fn place_sentence(waiting: &Waiting, ahead: &[&Waiting], named: &[&Waiting], of: usize) -> String {
    let asked: Vec<String> =
        waiting.asked.iter().map(|asked| format!("{} {}", asked.q, asked.pools.join(" or "))).collect();
    let what = format!("Job {} waits for {}", waiting.display_id, asked.join(" and "));
    if ahead.is_empty() {
        return if of > 1 {
            format!("{what}. It is the first of {of}.")
        } else {
            format!("{what}. Nobody else waits for them.")
        };
    }
    let place = format!("{what}. It is number {} of {of}", ahead.len() + 1);
    let is_one = ahead.len() == 1;
    let all_bid_more = ahead.iter().all(|other| other.effective > waiting.effective);
    let (verb, why) = match (all_bid_more, is_one) {
        (true, true) => ("bids more", ""),
        (true, false) => ("bid more", ""),
        (false, true) => ("stands", " before it, by bid and time waited"),
        (false, false) => ("stand", " before it, by bid and time waited"),
    };
    format!("{place}: {} {verb}{why}.", jobs(named, ahead.len()))
}

/// `job 2`, `jobs 2 and 3`, `jobs 2, 3, 4, 5 and 6 and 7 more`, `8 jobs`.
fn jobs(named: &[&Waiting], of: usize) -> String {
    let noun = if of == 1 { "job" } else { "jobs" };
    let names: Vec<&str> = named.iter().take(AHEAD_NAMED).map(|job| job.display_id.as_str()).collect();
    match of - names.len() {
        _ if names.is_empty() => format!("{of} {noun}"),
        0 => format!("{noun} {}", list(&names)),
        more => format!("{noun} {} and {more} more", list(&names)),
    }
}

fn funds_sentence(waiting: &Waiting, free: Amount, may_see_funds: bool) -> String {
    match (waiting.tier, waiting.funded, may_see_funds) {
        (Tier::Free, ..) => "Funds are not the reason: it needs none.".into(),
        (_, true, _) => format!(
            "Funds are not the reason: {} SU are earmarked for it in account {}.",
            waiting.earmark, waiting.account
        ),
        (_, false, true) => {
            let short = Amount::ZERO.checked_sub(free).unwrap_or(Amount::ZERO);
            format!(
                "It needs {} SU, and account {} is {short} SU short; until then it has no priority.",
                waiting.earmark, waiting.account
            )
        }
        (_, false, false) => {
            format!("Account {} is short of funds; until then it has no priority.", waiting.account)
        }
    }
}

fn obstacle_sentence(waiting: &Waiting) -> Option<String> {
    if !waiting.competes {
        return Some(format!(
            "Slurm does not consider it yet ({}); it does not age until then.",
            waiting.reason
        ));
    }
    let ordinary = ["Priority", "Resources", "None", ""].contains(&waiting.reason.as_str());
    (!ordinary).then(|| format!("Slurm gives {} as its reason.", waiting.reason))
}

fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).into(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn explain_segment(order: &Order, segment: &Segment, runs: usize, as_of_s: i64) -> v1::ExplainReply {
    let job = segment_job(order, segment);
    let held: Vec<String> = segment
        .held
        .iter()
        .map(|(pool, held)| {
            let price = held.prices.last().map_or(Price::ZERO, |interval| interval.price);
            format!("{} {pool} at {price} SU per GPU-hour", held.q)
        })
        .collect();
    let held = held.join(" and ");
    let mut sentences = match &segment.settled {
        None => vec![format!(
            "Job {} runs on {held}; its limit is {}, and {} SU are in escrow for it.",
            segment.display_id, segment.limit, segment.escrow
        )],
        Some(settled) => {
            let mut sentences = vec![format!(
                "Job {} ran {} s on {held}, with a limit of {}, and was charged {} SU.",
                segment.display_id, settled.metered_s, segment.limit, settled.charge
            )];
            if settled.loss > Amount::ZERO {
                sentences.push(format!("{} SU of that nobody could pay; they are house loss.", settled.loss));
            }
            if segment.receipt_outstanding.is_some() {
                sentences.push("Its receipt is not in sacct yet; slurmdbd has not taken it.".into());
            }
            sentences
        }
    };
    if runs > 1 {
        sentences.push(format!("It is the last of {runs} runs; sbid jobs -j {} shows each.", segment.job_id));
    }
    v1::ExplainReply { as_of_s, job: Some(job), sentences, ..Default::default() }
}
