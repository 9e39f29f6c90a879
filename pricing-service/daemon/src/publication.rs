//! What the plugins are told: a table of rows, and the difference between two tables as bounded messages.

use std::collections::BTreeMap;

use market_api::v1;

/// Rows of one message; keeps it far below gRPC's limit of 4 MiB.
const ROWS_PER_MESSAGE: usize = 500;

/// Names a row, in the order in which rows are sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowKey {
    Settings,
    Pool(String),
    Partition(String),
    Account(String),
    User(u32),
    Association { account: String, uid: u32, partition: String },
    KnownJob(String),
    Factor { job_id: u32, submit_s: i64 },
}

impl RowKey {
    fn is_for(&self, role: v1::Role) -> bool {
        match self {
            Self::Settings => true,
            Self::Factor { .. } => role == v1::Role::Repricer,
            _ => role == v1::Role::JobSubmit,
        }
    }
}

/// A whole snapshot, for every role.
#[derive(Debug, Clone, Default)]
pub(crate) struct Publication {
    pub(crate) read_began_monotonic_ns: u64,
    pub(crate) rows: BTreeMap<RowKey, v1::item::Item>,
}

impl Publication {
    /// A sign of life: nothing has changed.
    pub(crate) fn unchanged(&self) -> v1::Update {
        let read_began_monotonic_ns = self.read_began_monotonic_ns;
        v1::Update { commit: true, read_began_monotonic_ns, ..v1::Update::default() }
    }

    /// The messages that turn `before` into this, as far as the role looks at it; without it, the whole. The last one
    /// commits.
    pub(crate) fn since(&self, before: Option<&Self>, role: v1::Role) -> Vec<v1::Update> {
        let none = BTreeMap::new();
        let old = before.map_or(&none, |before| &before.rows);
        let upserts = self.rows.iter().filter(|(key, item)| key.is_for(role) && old.get(key) != Some(item));
        let upserts: Vec<v1::Item> = upserts.map(|(_, item)| v1::Item { item: Some(item.clone()) }).collect();
        let removed = old.keys().filter(|key| key.is_for(role) && !self.rows.contains_key(key));
        let removed: Vec<v1::Key> = removed.filter_map(wire_key).collect();

        let mut updates: Vec<v1::Update> = upserts
            .chunks(ROWS_PER_MESSAGE)
            .map(|rows| v1::Update { upsert: rows.to_vec(), ..v1::Update::default() })
            .chain(
                removed
                    .chunks(ROWS_PER_MESSAGE)
                    .map(|keys| v1::Update { remove: keys.to_vec(), ..v1::Update::default() }),
            )
            .collect();
        if updates.is_empty() {
            updates.push(v1::Update::default());
        }
        if let Some(first) = updates.first_mut() {
            first.reset = before.is_none();
        }
        if let Some(last) = updates.last_mut() {
            last.commit = true;
        }
        for update in &mut updates {
            update.read_began_monotonic_ns = self.read_began_monotonic_ns;
        }
        updates
    }
}

fn wire_key(key: &RowKey) -> Option<v1::Key> {
    use v1::key::Key;
    let key = match key.clone() {
        // Replaced, never removed.
        RowKey::Settings => return None,
        RowKey::Pool(name) => Key::Pool(name),
        RowKey::Partition(name) => Key::Partition(name),
        RowKey::Account(name) => Key::Account(name),
        RowKey::User(uid) => Key::UserUid(uid),
        RowKey::Association { account, uid, partition } => {
            Key::Association(v1::AssociationKey { account, uid, partition })
        }
        RowKey::KnownJob(uuid) => Key::KnownUuid(uuid),
        RowKey::Factor { job_id, submit_s } => Key::Factor(v1::JobKey { job_id, submit_s }),
    };
    Some(v1::Key { key: Some(key) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB_SUBMIT: v1::Role = v1::Role::JobSubmit;

    fn with_accounts(rows: impl IntoIterator<Item = (usize, i64)>) -> Publication {
        let row = |(number, free_usu)| {
            let name = format!("account{number:04}");
            (RowKey::Account(name.clone()), v1::item::Item::Account(v1::AccountTerms { name, free_usu }))
        };
        Publication { read_began_monotonic_ns: 7, rows: rows.into_iter().map(row).collect() }
    }

    /// What a plugin would hold after these messages.
    fn applied(updates: &[v1::Update], mut rows: BTreeMap<String, i64>) -> BTreeMap<String, i64> {
        for update in updates {
            if update.reset {
                rows.clear();
            }
            for item in &update.upsert {
                if let Some(v1::item::Item::Account(account)) = &item.item {
                    rows.insert(account.name.clone(), account.free_usu);
                }
            }
            for key in &update.remove {
                if let Some(v1::key::Key::Account(name)) = &key.key {
                    rows.remove(name);
                }
            }
        }
        rows
    }

    #[test]
    fn the_first_message_resets_and_only_the_last_commits() {
        let updates = with_accounts((0..1200).map(|n| (n, 1))).since(None, JOB_SUBMIT);
        assert_eq!(updates.len(), 3);
        assert_eq!(updates.iter().map(|u| u.reset).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(updates.iter().map(|u| u.commit).collect::<Vec<_>>(), [false, false, true]);
        assert!(updates.iter().all(|u| u.upsert.len() <= ROWS_PER_MESSAGE && u.read_began_monotonic_ns == 7));
    }

    #[test]
    fn a_difference_carries_only_what_changed() {
        let before = with_accounts([(1, 10), (2, 20), (3, 30)]);
        let after = with_accounts([(1, 10), (2, 21), (4, 40)]);
        let updates = after.since(Some(&before), JOB_SUBMIT);
        let rows: usize = updates.iter().map(|u| u.upsert.len() + u.remove.len()).sum();
        assert_eq!(rows, 3);
        let held = applied(&before.since(None, JOB_SUBMIT), BTreeMap::new());
        assert_eq!(applied(&updates, held), applied(&after.since(None, JOB_SUBMIT), BTreeMap::new()));
    }

    #[test]
    fn nothing_new_is_still_a_message() {
        let same = with_accounts([(1, 10)]);
        let updates = same.since(Some(&same), JOB_SUBMIT);
        assert_eq!(updates.len(), 1);
        assert!(updates[0].commit && !updates[0].reset && updates[0].upsert.is_empty());
        assert_eq!(updates, [same.unchanged()]);
    }

    #[test]
    fn each_role_gets_its_own_rows() {
        let mut all = with_accounts([(1, 10)]);
        let factor = v1::Factor { job: Some(v1::JobKey { job_id: 1, submit_s: 2 }), factor: 3 };
        all.rows.insert(RowKey::Factor { job_id: 1, submit_s: 2 }, v1::item::Item::Factor(factor));
        all.rows.insert(RowKey::Settings, v1::item::Item::Settings(v1::Settings::default()));
        let settings = || v1::item::Item::Settings(v1::Settings::default());
        let account = all.rows[&RowKey::Account("account0001".into())].clone();
        let rows = |role| {
            let updates = all.since(None, role);
            updates
                .into_iter()
                .flat_map(|update| update.upsert)
                .filter_map(|row| row.item)
                .collect::<Vec<_>>()
        };
        assert_eq!(rows(v1::Role::Repricer), [settings(), v1::item::Item::Factor(factor)]);
        assert_eq!(rows(JOB_SUBMIT), [settings(), account]);
        let none = Publication::default();
        assert_eq!(none.since(Some(&all), v1::Role::Repricer)[0].remove.len(), 1, "the factor");
        assert_eq!(none.since(Some(&all), JOB_SUBMIT)[0].remove.len(), 1, "the account");
    }
}
