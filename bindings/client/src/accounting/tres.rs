//! slurmdbd's TRES strings: ids in the database, names for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use slurm_sys as sys;

/// Names of the trackable resources by their id in the accounting database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TresNames(BTreeMap<u32, String>);

impl TresNames {
    /// From (id, type, name): `(4, "node", None)`, `(1001, "gres", Some("gpu:a100"))`.
    pub(super) fn new(records: impl IntoIterator<Item = (u32, String, Option<String>)>) -> Self {
        let full = |kind: String, name: Option<String>| match name {
            Some(name) => format!("{kind}/{name}"),
            None => kind,
        };
        Self(records.into_iter().map(|(id, kind, name)| (id, full(kind, name))).collect())
    }

    /// `gres/gpu:a100` for its id.
    pub fn get(&self, id: u32) -> Option<&str> {
        self.0.get(&id).map(String::as_str)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        self.0.iter().map(|(&id, name)| (id, name.as_str()))
    }

    /// `1=8,2=8000,1001=4` as slurmctld would write it: `cpu=8,mem=8000M,gres/gpu=4`. Counts that
    /// Slurm marks as unknown are left out.
    ///
    /// # Errors
    /// The first id that has no name, or 0 for text that is not of this form.
    pub(super) fn resolve(&self, counts: &str) -> Result<String, u32> {
        let mut named = String::new();
        for item in counts.split(',').filter(|item| !item.is_empty()) {
            let (id, count) = item.split_once('=').ok_or(0_u32)?;
            let id = id.parse().map_err(|_| 0_u32)?;
            let count: u64 = count.parse().map_err(|_| 0_u32)?;
            if count == sys::NO_VAL64 || count == sys::INFINITE64 {
                continue;
            }
            let name = self.get(id).ok_or(id)?;
            let comma = if named.is_empty() { "" } else { "," };
            // slurmdbd counts memory in MiB, and Slurm says so.
            let unit = if name == "mem" { "M" } else { "" };
            write!(named, "{comma}{name}={count}{unit}").map_err(|_| 0_u32)?;
        }
        Ok(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> TresNames {
        let row = |id, kind: &str, name: Option<&str>| (id, kind.to_owned(), name.map(str::to_owned));
        TresNames::new([
            row(1, "cpu", None),
            row(2, "mem", None),
            row(3, "energy", None),
            row(4, "node", None),
            row(5, "billing", None),
            row(1001, "gres", Some("gpu")),
            row(1002, "gres", Some("gpu:a100")),
        ])
    }

    #[test]
    fn ids_become_names() {
        assert_eq!(
            names().resolve("1=8,2=8000,4=1,5=8,1001=8,1002=8").as_deref(),
            Ok("cpu=8,mem=8000M,node=1,billing=8,gres/gpu=8,gres/gpu:a100=8")
        );
        assert_eq!(names().resolve("").as_deref(), Ok(""));
        assert_eq!(names().get(1002), Some("gres/gpu:a100"));
    }

    #[test]
    fn unknown_counts_are_left_out() {
        assert_eq!(names().resolve("3=18446744073709551614,1=2").as_deref(), Ok("cpu=2"));
    }

    #[test]
    fn unknown_ids_are_named() {
        assert_eq!(names().resolve("1=8,1003=1"), Err(1003));
        assert_eq!(names().resolve("cpu=8"), Err(0));
        assert_eq!(names().resolve("1"), Err(0));
    }
}
