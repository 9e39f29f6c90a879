use std::collections::{HashMap, HashSet};

use market::amount::Amount;
use market_api::config::Config;
use uuid::Uuid;

use super::*;
use crate::funds::{Ask, Refusal};

const SECOND_NS: u64 = 1_000_000_000;

fn commit(free: i64) -> Commit {
    let accounts = HashMap::from([("vision".to_owned(), Amount::from_micros(free))]);
    Commit {
        snapshot: Snapshot { accounts: Arc::new(accounts), ..Snapshot::of_file(&Config::default()) },
        known: Arc::new(HashSet::new()),
        read_began_ns: SECOND_NS,
        changed: Vec::new(),
    }
}

#[test]
fn the_market_is_there_from_the_first_commit_and_while_it_speaks() {
    let picture = Picture::new(Snapshot::of_file(&Config::default()));
    let stale_ns = u64::from(Config::default().stale_after_s) * SECOND_NS;
    assert!(!picture.is_available(SECOND_NS));
    picture.heard(SECOND_NS);
    assert!(!picture.is_available(SECOND_NS));
    picture.take_up(&commit(5), SECOND_NS, &mut Retired::default());
    assert!(picture.is_available(SECOND_NS + stale_ns));
    assert!(!picture.is_available(SECOND_NS + stale_ns + 1));
    // A message is enough to be back, whatever became of the connection.
    picture.heard(SECOND_NS + stale_ns + 2);
    assert!(picture.is_available(SECOND_NS + stale_ns + 2));
}

#[test]
fn figures_and_rows_come_together() {
    let picture = Picture::new(Snapshot::of_file(&Config::default()));
    picture.take_up(&commit(5), 0, &mut Retired::default());
    assert!(picture.snapshot().accounts.contains_key("vision"));
    let ask = |uuid, micros| Ask {
        uuid: Uuid::from_u128(uuid),
        uid: 1,
        account: "vision",
        amount: Amount::from_micros(micros),
        at_ns: 0,
    };
    assert_eq!(picture.funds.check_and_add(&ask(1, 6)), Err(Refusal::Short { free: Amount::from_micros(5) }));
    assert_eq!(picture.funds.check_and_add(&ask(2, 5)), Ok(()));
}

#[test]
fn the_file_counts_only_until_the_daemon_spoke() {
    let config = |quantum_free: &str| {
        let mut config = Config::default();
        config.tiers.free = quantum_free.into();
        config
    };
    let picture = Picture::new(Snapshot::of_file(&config("one")));
    picture.read_file_again(Snapshot::of_file(&config("two")));
    assert_eq!(picture.snapshot().settings.qos.free, "two");
    picture.take_up(&commit(5), 0, &mut Retired::default());
    picture.read_file_again(Snapshot::of_file(&config("three")));
    assert_eq!(picture.snapshot().settings.qos.free, "free");
}

#[test]
fn a_replaced_snapshot_is_freed_by_its_keeper() {
    let picture = Picture::new(Snapshot::of_file(&Config::default()));
    let mut retired = Retired::default();
    let reader = picture.snapshot();
    picture.take_up(&commit(5), 0, &mut retired);
    picture.take_up(&commit(6), 1, &mut retired);
    assert_eq!(retired.0.len(), 2);
    // The oldest is still read; younger ones wait behind it.
    retired.drop_unused(RETIRED_KEPT_NS + 1);
    assert_eq!(retired.0.len(), 2);
    drop(reader);
    retired.drop_unused(RETIRED_KEPT_NS);
    assert_eq!(retired.0.len(), 1);
    retired.drop_unused(RETIRED_KEPT_NS + 1);
    assert!(retired.0.is_empty());
}
