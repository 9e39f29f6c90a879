use super::*;

#[test]
fn every_time_is_below_the_bound_of_its_bucket_and_not_far() {
    let doublings = (2..34).map(|power| 1_u64 << power);
    for ns in doublings.flat_map(|power| [power - 1, power, power + 1, power + power / 3, power * 2 - 1]) {
        let bound = upper_bound_ns(bucket(ns));
        assert!(ns < bound, "{ns} is counted as below {bound}");
        assert!(ns < 4 || bound <= ns + ns / PER_DOUBLING as u64 + 1, "{ns} is counted as up to {bound}");
    }
    let in_order: Vec<_> = (0..100_000).map(bucket).collect();
    assert!(in_order.is_sorted());
    assert_eq!(bucket(u64::MAX), BUCKETS - 1);
}

#[test]
fn a_line_tells_calls_quantiles_and_the_longest() {
    let timing = Timing::new("job_submit");
    assert_eq!(timing.take_line(), None, "nothing to tell");
    for ns in std::iter::repeat_n(3_100, 98).chain([21_000, 180_000]) {
        timing.count(ns);
    }
    let line = "bid: job_submit 100 calls, p50 3.6 us, p99 25 us, max 180 us";
    assert_eq!(timing.take_line().as_deref(), Some(line));
    assert_eq!(timing.take_line(), None, "told once");
    timing.count(700);
    let line = "bid: job_submit 1 calls, p50 0.7 us, p99 0.7 us, max 0.7 us";
    assert_eq!(timing.take_line().as_deref(), Some(line));
}

#[test]
fn calls_of_several_threads_are_all_counted() {
    let timing = Timing::new("job_submit");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|call| assert_eq!(timing.of(|| call), call)));
        }
    });
    assert!(timing.take_line().is_some_and(|line| line.starts_with("bid: job_submit 4000 calls, ")));
}
