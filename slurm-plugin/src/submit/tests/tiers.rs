//! Tiers, and the QOS that stand for them.

use super::*;

#[test]
fn an_explicit_qos_must_be_that_of_the_tier() {
    let with_qos = |comment, qos: &'static str| Submission { qos: Some(qos.into()), ..job(comment) };
    check(
        &with_qos("bid:0.625", "standard"),
        &format!("0.625 standard(standard) {FACTOR_OF_0_625} vision 5"),
    );
    check(&with_qos("bid:0", "FREE"), "0 free(free) 0");
    for (comment, qos, of_tier) in [
        ("bid:0.625", "free", "standard"),
        ("bid:0.625", "normal", "standard"),
        ("bid:0", "standard", "free"),
        ("bid:0", "normal", "free"),
    ] {
        let sentence = format!(
            "bid: --qos={qos} and {comment}, which means QOS {of_tier}, contradict each other; choose one of them"
        );
        check(&with_qos(comment, qos), &sentence);
    }
}

/// Several QOS for one job, since Slurm 24.11: Slurm would take whichever starts it.
#[test]
fn a_bid_has_one_qos_and_a_market_qos_is_none_of_several() {
    let with_qos = |comment, qos: &'static str| Submission { qos: Some(qos.into()), ..job(comment) };
    for (comment, qos, of_tier) in [
        ("bid:0.625", "standard,normal", "standard"),
        ("bid:0.625", "spot,standard", "standard"),
        ("bid:0.625", "standard,", "standard"),
        ("bid:0", "free,normal", "free"),
    ] {
        let sentence = format!(
            "bid: --qos={qos} names several QOS, but {comment} means QOS {of_tier} alone; leave --qos out"
        );
        check(&with_qos(comment, qos), &sentence);
    }
    let sentence =
        "bid: --qos=normal,long names several QOS, but bid:3.5 means QOS standard alone; leave --qos out";
    let free = |settings: &mut Settings| settings.when_unavailable = WhenUnavailable::Free;
    check_with(free, &with_qos("bid:3.5", "normal,long"), false, sentence);

    check(&with_qos("", "normal,long"), "untouched");
    let sentence = "bid: QOS Spot is for jobs with a bid; add --comment=bid:PRICE, or choose another --qos";
    check(&with_qos("", "normal,Spot"), sentence);
}

#[test]
fn a_tier_is_named_in_the_bid_or_by_its_qos() {
    let with_qos = |comment, qos: &'static str| Submission { qos: Some(qos.into()), ..job(comment) };
    // The same place in the queue: e = 0.5 by each tier's multiple.
    let spot = format!("0.5 spot(spot) {FACTOR_OF_0_625} vision 4");
    let urgent = format!("1 urgent(urgent) {FACTOR_OF_0_625} vision 8");
    check(&job("bid:0.5,tier=spot"), &spot);
    check(&with_qos("bid:0.5", "SPOT"), &spot);
    check(&with_qos("bid:0.5,tier=spot", "spot"), &spot);
    check(&job("bid:1,tier=urgent"), &urgent);
    check(&with_qos("bid:1", "urgent"), &urgent);
    // The least price is that of the tier.
    check(&job("bid:0.25,tier=spot"), "0.25 spot(spot) 131073 vision 2");
    check(
        &job("bid:0.499999,tier=urgent"),
        "bid: limit 0.499999 is under the least price 0.5 SU/GPU-hour of tier urgent in pool a100; \
         bid at least 0.5, or bid:0 for the free tier",
    );
    for (comment, qos, of_tier) in [
        ("bid:1,tier=spot", "urgent", "spot"),
        ("bid:1,tier=standard", "spot", "standard"),
        ("bid:1", "parked", "standard"),
    ] {
        let sentence = format!(
            "bid: --qos={qos} and {comment}, which means QOS {of_tier}, contradict each other; choose one of them"
        );
        check(&with_qos(comment, qos), &sentence);
    }
    let sentence = "bid: QOS parked is for jobs with a bid; add --comment=bid:PRICE, or choose another --qos";
    check(&with_qos("", "parked"), sentence);
}

#[test]
fn a_spot_job_that_would_be_cancelled_is_told_so() {
    let of = |comment, is_interactive| {
        told(&market(), &Submission { can_be_requeued: false, is_interactive, ..job(comment) }, true)
    };
    let warned = |what: &str| {
        format!(
            "0.5 spot(spot) {FACTOR_OF_0_625} vision 4 bid: a spot job can be outbid while it runs; {what}"
        )
    };
    assert_eq!(
        of("bid:0.5,tier=spot", true),
        warned("one of salloc or srun is then cancelled, not requeued")
    );
    assert_eq!(of("bid:0.5,tier=spot", false), warned("without --requeue it is then cancelled"));
    assert_eq!(of("bid:0.625", true), format!("0.625 standard(standard) {FACTOR_OF_0_625} vision 5"));
}

#[test]
fn a_free_job_can_be_requeued_or_ends_within_the_hour() {
    let sentence = "bid: the free tier gives way to every paid job: it takes batch jobs that may be requeued, or jobs \
                    of at most 1 h; lower --time, use sbatch --requeue, or bid";
    let of = |walltime| Submission { can_be_requeued: false, walltime, ..job("bid:0") };
    check(&of(Walltime::Minutes(61)), sentence);
    check(&of(Walltime::Unlimited), sentence);
    check(&of(Walltime::Minutes(60)), "0 free(free) 0");
    check(&of(Walltime::OfPartition), "0 free(free) 0");
    check(&Submission { partition: Some("long".into()), ..of(Walltime::OfPartition) }, sentence);
    // The market being away is not the user's choice.
    let standard = Submission { can_be_requeued: false, ..job("bid:0.625") };
    assert_eq!(told(&market(), &standard, false), "0.625 free(free) 0 unavailable");
}

#[test]
fn a_site_can_bid_for_those_who_do_not() {
    let by_default = |settings: &mut Settings| {
        settings.no_bid = NoBid::DefaultBid;
        settings.default_bid = Some(price("0.625"));
    };
    let accepted = format!("0.625 standard(standard) {FACTOR_OF_0_625} vision 5");
    check_with(by_default, &job(""), true, &accepted);
    check_with(by_default, &job("bid:0"), true, "0 free(free) 0");
    check_with(by_default, &Submission { qos: Some("standard".into()), ..job("") }, true, &accepted);
    check_with(
        by_default,
        &Submission { qos: Some("normal".into()), ..job("") },
        true,
        "bid: --qos=normal and no bid, which counts as bid:0.625 here, which means QOS standard, contradict each other; \
         choose one of them",
    );
    check_with(by_default, &job(""), false, "0.625 free(free) 0 unavailable");
    check_with(by_default, &gpus(job(""), "gpu:t4:1"), true, "untouched");
}

#[test]
fn a_bid_of_0_asks_for_the_free_tier() {
    for is_available in [true, false] {
        assert_eq!(told(&market(), &job("bid:0"), is_available), "0 free(free) 0");
    }
    check(&gpus(job("bid:0"), "shard:4"), "0 free(free) 0");
    check(&Submission { is_scrontab: true, ..job("bid:0") }, "0 free(free) 0");
    check(&Submission { uid: NEW, ..job("bid:0") }, "0 free(free) 0");
}
