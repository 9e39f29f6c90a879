//! The line before each pool, and the place of every pending order in it.

use std::collections::{BTreeMap, BTreeSet};

use super::waiting::Waiting;
use crate::model::OrderRow;

/// The pending orders of an order's pool, best first; unfunded ones have no priority and stand behind the funded of
/// their tier.
pub(crate) fn line_of(all: &[Waiting], order: OrderRow) -> Vec<&Waiting> {
    let pool = all.iter().find(|waiting| waiting.order == order).and_then(Waiting::home);
    pool.map_or_else(Vec::new, |pool| line(all, pool))
}

fn line<'a>(all: &'a [Waiting], pool: &str) -> Vec<&'a Waiting> {
    let mut line: Vec<&Waiting> = all.iter().filter(|waiting| waiting.stands_in(pool)).collect();
    line.sort_by_key(|waiting| (waiting.tier, !waiting.funded, waiting.key));
    line
}

/// Where an order stands in its line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// From 1 on; 0: it is not there.
    pub(crate) rank: u32,
    pub(crate) of: u32,
}

/// Every pending order's place.
pub(crate) fn places(all: &[Waiting]) -> BTreeMap<OrderRow, Place> {
    let pools: BTreeSet<&str> = all.iter().filter_map(Waiting::home).collect();
    let mut places = BTreeMap::new();
    for pool in pools {
        let line = line(all, pool);
        let at_home = line.iter().zip(places_of(&line)).filter(|(waiting, _)| waiting.home() == Some(pool));
        places.extend(at_home.map(|(waiting, place)| (waiting.order, place)));
    }
    places
}

fn places_of(line: &[&Waiting]) -> impl Iterator<Item = Place> {
    let of = u32::try_from(line.len()).unwrap_or(u32::MAX);
    (1..=of).map(move |rank| Place { rank, of })
}

/// The place of one order in its line.
pub(crate) fn place_in(line: &[&Waiting], order: OrderRow) -> Place {
    let mut places = line.iter().zip(places_of(line));
    places.find(|(waiting, _)| waiting.order == order).map(|(_, place)| place).unwrap_or_default()
}
