use market::amount::Amount;
use market::ledger::{LedgerAccount, Transfer, TransferKind};

use super::*;

const CONTEXT: TransferContext<'_> =
    TransferContext { at_s: 1, segment: None, actor_uid: None, memo: "test" };

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().expect("temporary directory");
    let store = Store::open(&directory.path().join(FILE_NAME)).expect("opens");
    (directory, store)
}

fn vision() -> LedgerAccount {
    LedgerAccount::Account("vision".into())
}

fn movement(from: LedgerAccount, to: LedgerAccount, micros: i64) -> Transfer {
    Transfer::movement(TransferKind::Deposit, from, to, Amount::from_micros(micros)).expect("balanced")
}

fn deposit(store: &mut Store, micros: i64) {
    let tx = store.begin().expect("begins");
    tx.insert_transfer(&movement(LedgerAccount::Mint, vision(), micros), CONTEXT).expect("writes");
    tx.commit().expect("commits");
}

#[test]
fn balances_come_back_as_they_were_committed() {
    let (directory, mut store) = store();
    deposit(&mut store, 7);
    drop(store);
    let store = Store::open(&directory.path().join(FILE_NAME)).expect("opens again");
    let balances = store.load(0).expect("loads").balances;
    assert_eq!(balances.of(&vision()), Amount::from_micros(7));
    assert_eq!(balances.of(&LedgerAccount::Mint), Amount::from_micros(-7));
    assert_eq!(balances.sum_micros(), 0);
}

#[test]
fn a_transaction_that_is_not_committed_never_was() {
    let (_directory, mut store) = store();
    let tx = store.begin().expect("begins");
    tx.insert_transfer(&movement(LedgerAccount::Mint, vision(), 5), CONTEXT).expect("writes");
    drop(tx);
    assert_eq!(store.load(0).expect("loads").balances.of(&vision()), Amount::ZERO);
    assert_eq!(ledger::entries(store.reader(), None, 10).expect("reads"), []);
}

#[test]
fn the_database_itself_refuses_an_overdraft() {
    let (_directory, mut store) = store();
    deposit(&mut store, 5);
    let tx = store.begin().expect("begins");
    let escrow = LedgerAccount::Escrow("vision".into());
    let refused = tx.insert_transfer(&movement(vision(), escrow, 6), CONTEXT);
    assert!(matches!(refused, Err(StoreError::Sqlite(_))), "{refused:?}");
    drop(tx);
    assert_eq!(store.load(0).expect("loads").balances.of(&vision()), Amount::from_micros(5));
}

#[test]
fn entries_and_transfers_are_for_ever() {
    let (_directory, mut store) = store();
    deposit(&mut store, 5);
    for sql in [
        "UPDATE entry SET amount_usu = 6",
        "DELETE FROM entry",
        "UPDATE transfer SET memo = 'other'",
        "DELETE FROM transfer",
    ] {
        let refused = store.connection.execute(sql, []);
        assert!(refused.is_err(), "{sql} was accepted");
    }
}

#[test]
fn a_broken_sum_is_found_at_the_start() {
    let (directory, mut store) = store();
    deposit(&mut store, 5);
    store
        .connection
        .execute("UPDATE ledger_account SET balance_usu = 6 WHERE kind = 'account'", [])
        .expect("tampers");
    drop(store);
    let opened = Store::open(&directory.path().join(FILE_NAME));
    assert!(matches!(opened, Err(StoreError::SumNotZero(1))), "{opened:?}");
}

#[test]
fn a_ledger_belongs_to_one_cluster() {
    let (_directory, mut store) = store();
    assert_eq!(store.bind("alpha", 100).expect("binds"), 100);
    assert_eq!(store.bind("alpha", 200).expect("binds again"), 100, "the ledger began at its first start");
    assert!(matches!(store.bind("beta", 300), Err(StoreError::OtherCluster { .. })));
}

#[test]
fn the_ledger_is_listed_in_order_of_time_and_by_account() {
    let (_directory, mut store) = store();
    deposit(&mut store, 5);
    let tx = store.begin().expect("begins");
    let nlp = LedgerAccount::Account("nlp".into());
    tx.insert_transfer(&movement(LedgerAccount::Mint, nlp, 9), CONTEXT).expect("writes");
    tx.commit().expect("commits");
    let amounts =
        |rows: Vec<ledger::LedgerRow>| rows.iter().map(|row| row.amount.micros()).collect::<Vec<_>>();
    let all = ledger::entries(store.reader(), None, 10).expect("reads");
    let mut of_all = amounts(all);
    of_all[..2].sort_unstable();
    of_all[2..].sort_unstable();
    assert_eq!(of_all, [-5, 5, -9, 9]);
    let names = ["nlp".to_owned(), "\"]quote".to_owned()];
    assert_eq!(amounts(ledger::entries(store.reader(), Some(&names), 10).expect("reads")), [9]);
    assert_eq!(ledger::sum_micros(store.reader()).expect("reads"), 0);
}

#[test]
fn charges_are_summed_and_nothing_else() {
    let (_directory, mut store) = store();
    deposit(&mut store, 100);
    let escrow = LedgerAccount::Escrow("vision".into());
    let moves = [
        (TransferKind::EscrowPlaced, vision(), escrow.clone(), 50),
        (TransferKind::Charge, escrow.clone(), LedgerAccount::Burn, 30),
        (TransferKind::EscrowReturned, escrow, vision(), 20),
        (TransferKind::Charge, vision(), LedgerAccount::Burn, 7),
        (TransferKind::Charge, LedgerAccount::HouseLoss, LedgerAccount::Burn, 5),
    ];
    let tx = store.begin().expect("begins");
    for (kind, from, to, micros) in moves {
        let transfer = Transfer::movement(kind, from, to, Amount::from_micros(micros)).expect("balanced");
        tx.insert_transfer(&transfer, CONTEXT).expect("writes");
    }
    tx.commit().expect("commits");
    let charged = |account| ledger::charged(store.reader(), account).expect("reads").micros();
    assert_eq!((charged("vision"), charged("nlp"), charged("")), (37, 0, 0));
}

#[test]
fn the_last_round_counts_and_not_the_latest_time() {
    let (_directory, mut store) = store();
    let state = crate::model::PoolState {
        index: market::index::Index::at(market::amount::Price::ZERO),
        start_price: market::amount::Price::ZERO,
        why: String::new(),
    };
    let tx = store.begin().expect("begins");
    // The h100 left the cluster, then the clock was set back.
    for (round, pool, at_s) in [(1, "a100", 9000), (1, "h100", 9000), (2, "a100", 100)] {
        let (supply, reserve) = (Default::default(), Default::default());
        tx.insert_pool_round(&PoolRound { round, pool, at_s, supply, reserve, state: &state })
            .expect("writes");
    }
    tx.commit().expect("commits");
    let book = store.load(0).expect("loads");
    assert_eq!((book.round, book.round_at_s, book.pools.len()), (2, Some(100), 2));
}
