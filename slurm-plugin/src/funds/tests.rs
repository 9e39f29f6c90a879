use super::*;

const SECOND_NS: u64 = 1_000_000_000;

fn su(micros: i64) -> Amount {
    Amount::from_micros(micros)
}

fn free(of: &[(&str, i64)]) -> Arc<FreeByAccount> {
    Arc::new(of.iter().map(|(account, micros)| ((*account).to_owned(), su(*micros))).collect())
}

fn with_free(of: &[(&str, i64)]) -> Funds {
    let funds = Funds::default();
    funds.renew(free(of), &HashSet::new(), 0);
    funds
}

fn ask(uuid: u128, account: &str, micros: i64, at_s: u64) -> Ask<'_> {
    Ask { uuid: Uuid::from_u128(uuid), uid: 1001, account, amount: su(micros), at_ns: at_s * SECOND_NS }
}

fn known(uuids: &[u128]) -> HashSet<Uuid> {
    uuids.iter().map(|uuid| Uuid::from_u128(*uuid)).collect()
}

#[test]
fn the_last_micro_can_be_spent_and_no_more() {
    let funds = with_free(&[("vision", 100)]);
    assert_eq!(funds.check_and_add(&ask(1, "vision", 60, 1)), Ok(()));
    assert_eq!(funds.check_and_add(&ask(2, "vision", 41, 1)), Err(Refusal::Short { free: su(40) }));
    assert_eq!(funds.check_and_add(&ask(3, "vision", 40, 1)), Ok(()));
    assert_eq!(funds.check_and_add(&ask(4, "vision", 1, 1)), Err(Refusal::Short { free: su(0) }));
    assert_eq!(funds.check_and_add(&ask(5, "nobody", 1, 1)), Err(Refusal::Short { free: su(0) }));
}

#[test]
fn an_account_in_debt_has_nothing_free() {
    let funds = with_free(&[("vision", -7)]);
    assert_eq!(funds.check_and_add(&ask(1, "vision", 1, 1)), Err(Refusal::Short { free: su(-7) }));
}

#[test]
fn a_known_job_is_counted_by_the_daemon_alone() {
    let funds = with_free(&[("vision", 100)]);
    funds.check_and_add(&ask(1, "vision", 60, 1)).expect("fits");
    funds.check_and_add(&ask(2, "vision", 30, 1)).expect("fits");
    // The daemon earmarked the first: 40 are free in its figures, of which the second holds 30.
    funds.renew(free(&[("vision", 40)]), &known(&[1]), 2 * SECOND_NS);
    assert_eq!(funds.check_and_add(&ask(3, "vision", 11, 3)), Err(Refusal::Short { free: su(10) }));
    assert_eq!(funds.check_and_add(&ask(4, "vision", 10, 3)), Ok(()));
}

#[test]
fn a_snapshot_that_does_not_know_a_job_keeps_its_escrow() {
    let funds = with_free(&[("vision", 100)]);
    funds.check_and_add(&ask(1, "vision", 60, 10)).expect("fits");
    for read_began_s in [5, 10, 11, 39, 40] {
        funds.renew(free(&[("vision", 100)]), &HashSet::new(), read_began_s * SECOND_NS);
        assert_eq!(funds.check_and_add(&ask(2, "vision", 41, 10)), Err(Refusal::Short { free: su(40) }));
    }
}

#[test]
fn what_made_no_job_lapses_after_the_time_to_live_of_the_daemons_reading() {
    let funds = with_free(&[("vision", 100)]);
    funds.check_and_add(&ask(1, "vision", 60, 10)).expect("fits");
    funds.renew(free(&[("vision", 100)]), &HashSet::new(), 40 * SECOND_NS + 1);
    assert_eq!(funds.check_and_add(&ask(2, "vision", 100, 41)), Ok(()));
}

#[test]
fn an_escrow_that_ended_does_not_end_again() {
    let funds = with_free(&[("vision", 100)]);
    funds.check_and_add(&ask(1, "vision", 60, 10)).expect("fits");
    funds.renew(free(&[("vision", 40)]), &known(&[1]), 11 * SECOND_NS);
    funds.check_and_add(&ask(2, "vision", 40, 50)).expect("fits");
    // Lapses the entry of the first, which is no longer open; the second stays.
    funds.renew(free(&[("vision", 40)]), &known(&[1]), 60 * SECOND_NS);
    assert_eq!(funds.check_and_add(&ask(3, "vision", 1, 60)), Err(Refusal::Short { free: su(0) }));
}

#[test]
fn a_user_and_all_users_have_a_cap() {
    let funds = with_free(&[("vision", i64::MAX)]);
    let of = |uuid: u32, uid| Ask { uid, ..ask(uuid.into(), "vision", 1, 1) };
    for number in 0..TENTATIVE_PER_USER_MAX {
        assert_eq!(funds.check_and_add(&of(number, 1)), Ok(()));
    }
    assert_eq!(funds.check_and_add(&of(u32::MAX, 1)), Err(Refusal::TooManyInFlight));
    let per_user = TENTATIVE_PER_USER_MAX;
    for number in per_user..u32::try_from(TENTATIVE_MAX).expect("small") {
        assert_eq!(funds.check_and_add(&of(number, 2 + number / per_user)), Ok(()));
    }
    assert_eq!(funds.check_and_add(&of(u32::MAX, 0)), Err(Refusal::TooManyInFlight));
    funds.renew(free(&[("vision", i64::MAX)]), &known(&[5]), SECOND_NS);
    assert_eq!(funds.check_and_add(&of(u32::MAX, 1)), Ok(()));
}

#[test]
fn concurrent_submissions_never_spend_more_than_there_is() {
    let funds = with_free(&[("vision", 1_000)]);
    let spent: i64 = std::thread::scope(|scope| {
        let spend = |thread: u128| {
            let funds = &funds;
            move || {
                (0..500)
                    .filter(|i| funds.check_and_add(&ask(thread * 1_000 + i, "vision", 1, 1)).is_ok())
                    .count()
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(spend(thread))).collect();
        threads
            .into_iter()
            .map(|thread| i64::try_from(thread.join().expect("no panic")).expect("small"))
            .sum()
    });
    assert_eq!(spent, 1_000.min(i64::from(TENTATIVE_PER_USER_MAX)));
}

#[test]
fn sums_that_do_not_fit_are_refused() {
    let funds = with_free(&[("vision", i64::MAX)]);
    funds.check_and_add(&ask(1, "vision", i64::MAX, 1)).expect("fits");
    funds.renew(free(&[("vision", i64::MIN)]), &HashSet::new(), SECOND_NS);
    assert_eq!(funds.check_and_add(&ask(2, "vision", 1, 1)), Err(Refusal::Short { free: su(i64::MIN) }));
}
