use std::time::Duration;

use market_api::config::{Config, NoBid, WhenUnavailable};

use super::*;

fn file() -> Settings {
    Settings::from_config(&Config::default())
}

fn upsert(item: item::Item) -> v1::Item {
    v1::Item { item: Some(item) }
}

fn account(name: &str, free_usu: i64) -> v1::Item {
    upsert(item::Item::Account(v1::AccountTerms { name: name.into(), free_usu }))
}

fn factor(job_id: u32, factor: u32) -> v1::Item {
    let job = Some(v1::JobKey { job_id, submit_s: 7 });
    upsert(item::Item::Factor(v1::Factor { job, factor }))
}

fn message(reset: bool, commit: bool, upsert: Vec<v1::Item>) -> v1::Update {
    v1::Update { reset, commit, read_began_monotonic_ns: 5, upsert, remove: Vec::new() }
}

fn commit_of(staging: &mut Staging, update: v1::Update) -> Commit {
    let (commit, told) = staging.apply(update);
    assert_eq!(told, Ok(()));
    commit.expect("a commit")
}

fn key(job_id: u32) -> JobKey {
    JobKey { job_id, submit_s: 7 }
}

#[test]
fn rows_count_from_the_commit_on_and_all_at_once() {
    let mut staging = Staging::new(file());
    let (commit, told) = staging.apply(message(true, false, vec![account("vision", 5)]));
    assert!(commit.is_none() && told.is_ok());
    let commit = commit_of(&mut staging, message(false, true, vec![account("nlp", 6)]));
    assert_eq!(commit.snapshot.accounts.len(), 2);
    assert_eq!(commit.read_began_ns, 5);
    let earlier = commit.snapshot;
    let later = commit_of(&mut staging, message(false, true, vec![account("nlp", 7)])).snapshot;
    assert_eq!(earlier.accounts["nlp"], Amount::from_micros(6));
    assert_eq!(later.accounts["nlp"], Amount::from_micros(7));
    // Tables that did not change are the same ones.
    assert!(Arc::ptr_eq(&earlier.pools, &later.pools));
}

#[test]
fn a_reset_voids_what_was_held_and_staged() {
    let mut staging = Staging::new(file());
    commit_of(&mut staging, message(true, true, vec![account("vision", 5), factor(1, 65)]));
    let _ = staging.apply(message(false, false, vec![account("nlp", 6)]));
    let commit = commit_of(&mut staging, message(true, true, vec![account("robotics", 7), factor(2, 65)]));
    assert_eq!(commit.snapshot.accounts.keys().collect::<Vec<_>>(), ["robotics"]);
    assert_eq!(commit.changed, [(key(2), 65)]);
    assert!(commit.known.is_empty());
}

#[test]
fn a_commit_before_the_first_reset_means_nothing() {
    let mut staging = Staging::new(file());
    let (commit, _) = staging.apply(message(false, true, vec![account("vision", 5)]));
    assert!(commit.is_none());
}

#[test]
fn only_factors_that_changed_are_told() {
    let mut staging = Staging::new(file());
    let commit = commit_of(&mut staging, message(true, true, vec![factor(1, 65), factor(2, 129)]));
    assert_eq!(commit.changed, [(key(1), 65), (key(2), 129)]);
    let commit = commit_of(&mut staging, message(false, true, vec![factor(1, 65), factor(2, 193)]));
    assert_eq!(commit.changed, [(key(2), 193)]);
    let gone = v1::Key { key: Some(key::Key::Factor(v1::JobKey { job_id: 2, submit_s: 7 })) };
    let _ = staging.apply(message(false, false, vec![factor(2, 257)]));
    let commit = commit_of(&mut staging, v1::Update { remove: vec![gone], ..message(false, true, vec![]) });
    assert_eq!(commit.changed, []);
    assert_eq!(commit.snapshot.factors.len(), 1);
}

#[test]
fn every_kind_of_row_comes_and_goes() {
    let uuid = "0d9f4f5e-8f5c-4e0a-9a39-0b1f3a2c4d5e";
    let association = v1::AssociationKey { account: "vision".into(), uid: 1001, partition: String::new() };
    let rows = vec![
        upsert(item::Item::Pool(v1::PoolTerms {
            name: "a100".into(),
            reserve_usu: 1,
            rho0_usu: 2,
            node_gpus_max: 8,
        })),
        upsert(item::Item::Partition(v1::PartitionTerms {
            name: "gpu".into(),
            default_time_min: Some(60),
            ..Default::default()
        })),
        account("vision", 5),
        upsert(item::Item::Association(v1::AssociationTerms {
            key: Some(association.clone()),
            default_qos: "normal".into(),
            qos: vec!["normal".into()],
        })),
        upsert(item::Item::User(v1::UserTerms {
            uid: 1001,
            name: "alice".into(),
            default_account: "vision".into(),
        })),
        upsert(item::Item::KnownJob(v1::KnownJob { uuid: uuid.into() })),
        factor(1, 65),
    ];
    let mut staging = Staging::new(file());
    let commit = commit_of(&mut staging, message(true, true, rows));
    assert_eq!(commit.snapshot.pools["a100"].node_gpus_max, 8);
    assert_eq!(commit.snapshot.partitions["gpu"].default_time_min, Some(60));
    assert_eq!(commit.snapshot.associations[&association_key(association.clone())], "normal");
    assert_eq!(commit.snapshot.users[&1001].default_account, "vision");
    assert!(commit.known.contains(&Uuid::parse_str(uuid).expect("a uuid")));
    let remove = [
        key::Key::Pool("a100".into()),
        key::Key::Partition("gpu".into()),
        key::Key::Account("vision".into()),
        key::Key::Association(association),
        key::Key::UserUid(1001),
        key::Key::KnownUuid(uuid.into()),
        key::Key::Factor(v1::JobKey { job_id: 1, submit_s: 7 }),
    ];
    let remove = remove.into_iter().map(|key| v1::Key { key: Some(key) }).collect();
    let commit = commit_of(&mut staging, v1::Update { remove, ..message(false, true, vec![]) });
    let Snapshot { pools, partitions, accounts, associations, users, factors, .. } = commit.snapshot;
    assert!(pools.is_empty() && partitions.is_empty() && accounts.is_empty() && associations.is_empty());
    assert!(users.is_empty() && factors.is_empty() && commit.known.is_empty());
}

#[test]
fn settings_of_the_daemon_go_before_the_files() {
    let mut staging = Staging::new(file());
    let commit = commit_of(
        &mut staging,
        message(true, true, vec![upsert(item::Item::Settings(v1::Settings::default()))]),
    );
    // It says nothing but that OverTimeLimit is unlimited.
    assert_eq!(*commit.snapshot.settings, Settings { over_time_limit_s: None, ..file() });
    let said = v1::Settings {
        when_unavailable: v1::WhenUnavailable::Reject.into(),
        no_bid: v1::NoBid::Reject.into(),
        stale_after_ms: 2_500,
        tier_qos: Some(v1::TierQos { standard: "Paid".into(), ..v1::TierQos::default() }),
        factor_per_doubling: 1_024,
        factor_step: 8,
        over_time_limit_s: Some(60),
        ..Default::default()
    };
    let commit = commit_of(&mut staging, message(false, true, vec![upsert(item::Item::Settings(said))]));
    let settings = &commit.snapshot.settings;
    assert_eq!((settings.when_unavailable, settings.no_bid), (WhenUnavailable::Reject, NoBid::Reject));
    assert_eq!(settings.stale_after, Duration::from_millis(2_500));
    assert_eq!((settings.qos.standard.as_str(), settings.qos.free.as_str()), ("paid", "free"));
    assert_eq!((settings.factor.per_doubling, settings.factor.step), (1_024, 8));
    assert_eq!(settings.over_time_limit_s, Some(60));
}

#[test]
fn rows_that_mean_nothing_are_left_out() {
    let bad = [
        v1::Item { item: None },
        upsert(item::Item::Pool(v1::PoolTerms {
            name: "a100".into(),
            reserve_usu: -1,
            ..Default::default()
        })),
        upsert(item::Item::Association(v1::AssociationTerms::default())),
        upsert(item::Item::KnownJob(v1::KnownJob { uuid: "7".into() })),
        upsert(item::Item::Factor(v1::Factor { job: None, factor: 1 })),
    ];
    for row in bad {
        let mut staging = Staging::new(file());
        let (commit, told) = staging.apply(message(true, true, vec![row, account("vision", 5)]));
        assert!(told.is_err());
        assert_eq!(commit.expect("a commit").snapshot.accounts.len(), 1);
    }
    let mut staging = Staging::new(file());
    let (_, told) =
        staging.apply(v1::Update { remove: vec![v1::Key { key: None }], ..message(true, true, vec![]) });
    assert!(told.is_err());
}
