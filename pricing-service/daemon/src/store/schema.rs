//! The tables, as migrations: one for each change, never edited after a release.

use rusqlite_migration::{M, Migrations};

pub(crate) fn migrations() -> Migrations<'static> {
    Migrations::new(vec![M::up(include_str!("0001_first.sql"))])
}
