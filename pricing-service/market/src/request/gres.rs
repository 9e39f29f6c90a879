//! GPUs in Slurm's resource strings. One thing has many spellings: `gres:gpu:a100:2` (requests up to 23.02),
//! `gres/gpu:a100:2` (later), `gres/gpu:a100=2` (records), `gpu:a100:2` (users, nodes).

use std::collections::BTreeMap;

use thiserror::Error;

use crate::bid::printable;

/// GPUs by model, in lower case; `None` is a GPU of any model. No model with a count of 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gpus {
    by_model: BTreeMap<Option<String>, u64>,
}

impl Gpus {
    /// All GPUs; saturating.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_model.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_model.is_empty()
    }

    /// GPUs of one model, or with `None` those asked for without a model.
    #[must_use]
    pub fn of(&self, model: Option<&str>) -> u64 {
        self.iter().find(|(key, _)| *key == model).map_or(0, |(_, count)| count)
    }

    /// In order of model, those without a model first.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&str>, u64)> {
        self.by_model.iter().map(|(model, count)| (model.as_deref(), *count))
    }

    /// Saturating.
    pub fn add(&mut self, model: Option<&str>, count: u64) {
        self.combine(model, count, u64::saturating_add);
    }

    /// The larger of what is there and `count`.
    pub(super) fn raise(&mut self, model: Option<&str>, count: u64) {
        self.combine(model, count, u64::max);
    }

    fn combine(&mut self, model: Option<&str>, count: u64, rule: fn(u64, u64) -> u64) {
        if count > 0 {
            let model = model.map(str::to_ascii_lowercase);
            self.by_model
                .entry(model)
                .and_modify(|present| *present = rule(*present, count))
                .or_insert(count);
        }
    }
}

/// Why GPUs cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GresError {
    #[error("cannot read \"{entry}\"; write e.g. gpu:2 or gpu:a100:2")]
    Malformed { entry: String },
    /// A share of a GPU: `shard` or `mps`.
    #[error("\"{name}\" asks for a part of a GPU, which is not priced yet; ask for whole GPUs, e.g. gpu:1")]
    PartOfGpu { name: String },
}

/// Counts one of the `tres_per_*` strings of a request. A model named twice counts with the larger number: Slurm keeps
/// one record for it (src/common/gres.c: `_get_next_job_gres`). Entries that are not about GPUs are skipped.
///
/// # Errors
/// Both of [`GresError`].
pub fn gpus_of_request(text: &str) -> Result<Gpus, GresError> {
    let mut gpus = Gpus::default();
    for entry in text.split(',') {
        match Entry::read(entry)? {
            Some(Entry { name: GresName::Gpu, model, count }) => gpus.raise(model.as_deref(), count),
            Some(Entry { name: GresName::PartOfGpu(name), count: 1.., .. }) => {
                return Err(GresError::PartOfGpu { name: name.to_owned() });
            }
            _ => {}
        }
    }
    Ok(gpus)
}

/// Counts a node's `gres` or `gres_used`, or one node's `gres_detail` of a job: `gpu:a100:8(S:0-1)`,
/// `gpu:a100:2(IDX:0,3),shard:4`. Several entries of a model add up; parts of GPUs are skipped.
///
/// # Errors
/// `Malformed`.
pub fn gpus_of_node(text: &str) -> Result<Gpus, GresError> {
    let mut gpus = Gpus::default();
    for entry in split_outside_brackets(text) {
        let entry = match entry.strip_suffix(')').and_then(|inner| inner.rsplit_once('(')) {
            Some((before, _)) => before,
            None => entry,
        };
        // A flag of the configuration, not a model; and what C prints for a GPU without one.
        let entry = entry.replace(":no_consume", "").replace(":(null)", "");
        if let Some(Entry { name: GresName::Gpu, model, count }) = Entry::read(&entry)? {
            gpus.add(model.as_deref(), count);
        }
    }
    Ok(gpus)
}

/// Counts a record's TRES, `cpu=8,mem=4G,node=1,billing=8,gres/gpu=8,gres/gpu:a100=8`: the total is `gres/gpu` if that
/// is there, and what no model accounts for has none. The counts are the job's, not a node's.
///
/// # Errors
/// `Malformed`.
pub fn gpus_of_tres(text: &str) -> Result<Gpus, GresError> {
    let mut gpus = Gpus::default();
    let mut total: u64 = 0;
    for entry in text.split(',') {
        match Entry::read(entry)? {
            Some(Entry { name: GresName::Gpu, model: None, count }) => total = total.max(count),
            Some(Entry { name: GresName::Gpu, model, count }) => gpus.raise(model.as_deref(), count),
            _ => {}
        }
    }
    gpus.add(None, total.saturating_sub(gpus.total()));
    Ok(gpus)
}

enum GresName {
    Gpu,
    PartOfGpu(&'static str),
}

struct Entry {
    name: GresName,
    model: Option<String>,
    count: u64,
}

impl Entry {
    /// `None` for what is no GPU. A missing count is 1. Like Slurm, looks behind the first `gres:` wherever it stands.
    fn read(text: &str) -> Result<Option<Self>, GresError> {
        let entry = text.trim().to_ascii_lowercase();
        let start = ["gres:", "gres/"].iter().filter_map(|prefix| entry.find(prefix)).min();
        let spec = start.map_or(entry.as_str(), |start| &entry[start + "gres:".len()..]);
        let (name, rest) = match spec.find([':', '=']) {
            Some(end) => (&spec[..end], Some(&spec[end..])),
            None => (spec, None),
        };
        let name = match name {
            "gpu" => GresName::Gpu,
            "shard" => GresName::PartOfGpu("shard"),
            "mps" => GresName::PartOfGpu("mps"),
            _ => return Ok(None),
        };
        let Some((model, count)) = rest.map_or(Some((None, 1)), model_and_count) else {
            return Err(GresError::Malformed { entry: printable(text) });
        };
        Ok(Some(Self { name, model: model.map(str::to_owned), count }))
    }
}

/// Reads `:a100:2`, `:a100=2`, `:2`, `=2` or `:a100`.
fn model_and_count(rest: &str) -> Option<(Option<&str>, u64)> {
    if let Some(count) = rest.strip_prefix('=') {
        return Some((None, parse_count(count)?));
    }
    let rest = rest.strip_prefix(':')?;
    match rest.split_once([':', '=']) {
        Some((model, count)) => Some((Some(checked_model(model)?), parse_count(count)?)),
        None => match parse_count(rest) {
            Some(count) => Some((None, count)),
            None => Some((Some(checked_model(rest)?), 1)),
        },
    }
}

fn checked_model(model: &str) -> Option<&str> {
    let is_word = model.starts_with(|c: char| c.is_ascii_alphanumeric())
        && model.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '/'));
    is_word.then_some(model)
}

/// A number with Slurm's suffixes: `k` and `kib` are 1,024, `kb` is 1,000 (src/common/slurm_protocol_defs.c:
/// `suffix_mult`). Saturating.
fn parse_count(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    if digits.is_empty() {
        return None;
    }
    let power = match suffix.chars().next() {
        None => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('p') => 5,
        Some(_) => return None,
    };
    let base: u64 = match suffix.get(1..) {
        None | Some("" | "ib") => 1_024,
        Some("b") => 1_000,
        Some(_) => return None,
    };
    // Digits alone fail to parse only by being too many.
    Some(digits.parse().unwrap_or(u64::MAX).saturating_mul(base.pow(power)))
}

fn split_outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let mut depth: usize = 0;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests;
