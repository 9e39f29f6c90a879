//! Charges against an oracle that counts second by second, and the promises about what is paid.

use market::amount::{Amount, MilliGpus, Price};
use market::index::time_weighted_mean_floor;
use market::metering::{
    Candidate, Line, PriceInterval, Taker, charge_floor, displaced_price, earmark_ceil, escrow_ceil,
    numerator, start_price_paid,
};
use market::order::{Tier, effective_bid_floor, least_limit_ceil};
use proptest::prelude::*;

/// Longest metered time of these tests: every second of it is counted out.
const LONGEST_S: i64 = 500;
/// 1/3,600,000 µSU is the unit of a numerator.
const PER_MICRO: i128 = 3_600_000;

fn price(micros: i64) -> Price {
    Price::from_micros(micros).expect("a test's price is not below zero")
}

fn milli(count: i64) -> MilliGpus {
    MilliGpus::from_milli(count).expect("a test's GPUs are not below zero")
}

#[derive(Debug, Clone)]
struct Held {
    q: MilliGpus,
    intervals: Vec<PriceInterval>,
}

fn lines(held: &[Held]) -> Vec<Line<'_>> {
    held.iter().map(|held| Line { q: held.q, intervals: &held.intervals }).collect()
}

fn any_held() -> impl Strategy<Value = Held> {
    let steps = prop::collection::vec((0..LONGEST_S + 50, 0..5_000_000_i64), 0..6);
    (1..20_000_i64, 0..5_000_000_i64, steps).prop_map(|(q, first, mut steps)| {
        steps.push((0, first));
        steps.sort_unstable();
        let interval = |(from_metered_s, micros)| PriceInterval { from_metered_s, price: price(micros) };
        Held { q: milli(q), intervals: steps.into_iter().map(interval).collect() }
    })
}

fn any_segment() -> impl Strategy<Value = Vec<Held>> {
    prop::collection::vec(any_held(), 1..4)
}

fn price_at(held: &Held, second: i64) -> i64 {
    let mut past = held.intervals.iter().rev().filter(|interval| interval.from_metered_s <= second);
    past.next().expect("the first interval begins at 0").price.micros()
}

fn numerator_by_seconds(held: &[Held], metered_s: i64) -> i128 {
    (0..metered_s)
        .flat_map(|second| held.iter().map(move |h| i128::from(price_at(h, second) * h.q.milli())))
        .sum()
}

fn charge(held: &[Held], from_s: i64, to_s: i64) -> i64 {
    let reading = |metered_s| numerator(&lines(held), metered_s).expect("small numbers");
    charge_floor(reading(from_s), reading(to_s)).expect("small numbers").micros()
}

proptest! {
    #[test]
    fn the_numerator_counts_every_second_once(held in any_segment(), metered_s in 0..LONGEST_S) {
        prop_assert_eq!(numerator(&lines(&held), metered_s), Ok(numerator_by_seconds(&held, metered_s)));
    }

    #[test]
    fn any_partition_of_the_time_bills_the_same(
        held in any_segment(),
        mut cuts in prop::collection::vec(0..LONGEST_S, 2..12),
    ) {
        cuts.sort_unstable();
        let parts: i64 = cuts.windows(2).map(|part| charge(&held, part[0], part[1])).sum();
        prop_assert_eq!(parts, charge(&held, cuts[0], cuts[cuts.len() - 1]));
    }

    /// A job cut into k jobs, each metered from its own zero.
    #[test]
    fn pieces_of_a_job_cost_as_much_as_the_job_within_a_micro_each(
        q in 1..20_000_i64,
        micros in 0..5_000_000_i64,
        times_s in prop::collection::vec(0..LONGEST_S, 1..8),
    ) {
        let intervals = vec![PriceInterval { from_metered_s: 0, price: price(micros) }];
        let held = [Held { q: milli(q), intervals }];
        let whole = charge(&held, 0, times_s.iter().sum());
        let pieces: i64 = times_s.iter().map(|time_s| charge(&held, 0, *time_s)).sum();
        prop_assert!(pieces <= whole && whole - pieces < times_s.len() as i64);
    }

    #[test]
    fn use_never_costs_more_than_limit_times_time(held in any_segment(), from_s in 0..LONGEST_S, to_s in 0..LONGEST_S) {
        let (from_s, to_s) = (from_s.min(to_s), from_s.max(to_s));
        let limit = held.iter().flat_map(|h| h.intervals.iter().map(|i| i.price.micros())).max().unwrap_or(0);
        let gpus: i64 = held.iter().map(|h| h.q.milli()).sum();
        let at_limit = i128::from(limit) * i128::from(gpus) * i128::from(to_s - from_s);
        // A part of a segment may hold the µSU that the parts before it did not fill; from the start there is none.
        prop_assert!(i128::from(charge(&held, 0, to_s)) * PER_MICRO <= i128::from(limit) * i128::from(gpus) * i128::from(to_s));
        prop_assert!((i128::from(charge(&held, from_s, to_s)) - 1) * PER_MICRO < at_limit);
    }

    #[test]
    fn an_escrow_covers_its_time_and_no_whole_micro_more(micros in 0..5_000_000_i64, q in 0..20_000_i64, time_s in 0..LONGEST_S) {
        let intervals = vec![PriceInterval { from_metered_s: 0, price: price(micros) }];
        let charged = charge(&[Held { q: milli(q), intervals }], 0, time_s);
        let escrow = escrow_ceil(price(micros), milli(q), time_s).map(Amount::micros);
        prop_assert!(escrow == Ok(charged) || escrow == Ok(charged + 1));
        prop_assert_eq!(earmark_ceil(price(micros), milli(q), time_s).map(Amount::micros), escrow);
    }

    #[test]
    fn the_mean_counts_every_second_once(
        mut points in prop::collection::vec((0..LONGEST_S, 0..5_000_000_i64), 1..8),
        from_s in -50..LONGEST_S,
        length_s in 1..LONGEST_S,
    ) {
        points.sort_unstable();
        let at = |second: i64| {
            let past = points.iter().rev().find(|(at_s, _)| *at_s <= second);
            past.unwrap_or(&points[0]).1
        };
        let sum: i64 = (from_s..from_s + length_s).map(at).sum();
        let priced: Vec<(i64, Price)> = points.iter().map(|(at_s, micros)| (*at_s, price(*micros))).collect();
        let mean = time_weighted_mean_floor(&priced, from_s, from_s + length_s);
        prop_assert_eq!(mean.map(Price::micros), Some(sum / length_s));
    }
}

/// Small numbers, so that equal times, sizes and accounts are common.
fn any_candidate() -> impl Strategy<Value = Candidate<'static>> {
    (
        prop::sample::select(vec!["vision", "speech", "robots"]),
        0..3_000_000_i64,
        0..4_i64,
        1..5_u32,
        any::<bool>(),
    )
        .prop_map(|(account, effective, eligible_s, gpus, fits)| Candidate {
            account,
            effective: price(effective),
            eligible_s,
            q: MilliGpus::from_gpus(gpus),
            fits,
        })
}

/// d by sorting: the first of the candidates, dearest first, that passes each test.
fn displaced_by_sorting(candidates: &[Candidate<'_>], taker: &Taker<'_>) -> i64 {
    let mut dearest_first = candidates.to_vec();
    dearest_first.sort_by_key(|candidate| -candidate.effective.micros());
    for candidate in dearest_first {
        let is_own = candidate.account == taker.account;
        let is_late = candidate.eligible_s > taker.started_s;
        let is_larger = candidate.q > taker.q;
        if !(is_own || is_late || is_larger || !candidate.fits) {
            return candidate.effective.micros();
        }
    }
    0
}

proptest! {
    #[test]
    fn a_start_pays_the_reserve_and_the_best_displaced_bid_within_its_limit(
        candidates in prop::collection::vec(any_candidate(), 0..8),
        started_s in 0..4_i64,
        gpus in 1..5_u32,
        limit in 0..3_000_000_i64,
        reserve in 0..1_000_000_i64,
    ) {
        let taker = Taker { account: "vision", started_s, q: MilliGpus::from_gpus(gpus) };
        let (limit, reserve) = (price(limit), price(reserve));
        let displaced = displaced_price(&candidates, &taker);
        prop_assert_eq!(displaced.micros(), displaced_by_sorting(&candidates, &taker));
        let paid = start_price_paid(limit, Tier::Standard, reserve, displaced);
        prop_assert!(limit.min(reserve) <= paid && paid <= limit);
        prop_assert!(paid >= displaced || paid == limit);
        // 4·π = ⌈5·max(reserve, d)⌉ to the next µSU, unless the limit is less.
        let quarters = 5 * reserve.max(displaced).micros();
        prop_assert!(paid == limit || (4 * paid.micros() >= quarters && 4 * (paid.micros() - 1) < quarters));
    }

    #[test]
    fn a_bid_reaches_a_price_exactly_from_the_least_limit_on(limit in 0..3_000_000_i64, reserve in 0..3_000_000_i64) {
        let (limit, reserve) = (price(limit), price(reserve));
        let least = least_limit_ceil(reserve, Tier::Standard);
        prop_assert_eq!(effective_bid_floor(limit, Tier::Standard) >= reserve, limit >= least);
        prop_assert_eq!(start_price_paid(least, Tier::Standard, reserve, Price::ZERO), least);
    }
}
