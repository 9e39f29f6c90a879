//! Nodes that a request comes to have beyond its `--nodes`: those it names, and those its CPUs need. sbatch says all
//! three alike, but any program may talk to slurmctld.

use super::Case;

impl Case<'_> {
    /// Slurm raises the least number of nodes to those that are named (job_mgr.c: `validate_job_create_req`).
    pub(super) fn nodes_min(&self) -> Option<u32> {
        let named = self.submission.req_nodes.as_deref().map(hosts_named_max).filter(|named| *named > 0);
        self.submission.ask.min_nodes.max(named)
    }

    /// Without a word about nodes and tasks Slurm spreads the CPUs over as many nodes as it takes.
    pub(super) fn nodes_max(&self) -> Option<u32> {
        let ask = &self.submission.ask;
        let stated = ask.max_nodes.filter(|max| *max > 0);
        let at_least_1 = |count: Option<u32>| count.unwrap_or(1).max(1);
        let by_cpus = || {
            let tasks = self.submission.min_cpus?.div_ceil(at_least_1(self.submission.cpus_per_task));
            ask.num_tasks.is_none().then(|| tasks.div_ceil(at_least_1(ask.ntasks_per_node)))
        };
        stated.or_else(by_cpus)
    }
}

/// At most so many nodes are named by one of Slurm's host lists, e.g. 5 by `gpu[1-4],login`; saturating. What Slurm
/// cannot read counts as one name: it refuses it. One pass, since anybody may send any text.
pub(crate) fn hosts_named_max(list: &str) -> u32 {
    let mut hosts: u32 = 0;
    let mut of_name: u32 = 0;
    let mut bracket = None;
    for (index, character) in list.char_indices() {
        match (character, bracket) {
            (']', Some(start)) => {
                of_name = of_name.saturating_mul(numbers_listed(&list[start..index]));
                bracket = None;
            }
            (_, Some(_)) => {}
            (separator, None) if separator == ',' || separator.is_whitespace() => {
                hosts = hosts.saturating_add(std::mem::take(&mut of_name));
            }
            (character, None) => {
                of_name = of_name.max(1);
                bracket = (character == '[').then_some(index + 1);
            }
        }
    }
    hosts.saturating_add(of_name)
}

/// How many numbers `1-4,7` stands for.
fn numbers_listed(text: &str) -> u32 {
    let of_range = |range: &str| {
        let (low, high) = range.split_once('-')?;
        let span = high.trim().parse::<u32>().ok()?.checked_sub(low.trim().parse().ok()?)?;
        Some(span.saturating_add(1))
    };
    text.split(',').fold(0, |sum: u32, range| sum.saturating_add(of_range(range).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_lists_are_counted() {
        for (list, hosts) in [
            ("", 0),
            (",", 0),
            ("gpu1", 1),
            ("gpu1,gpu2", 2),
            ("gpu[1-4]", 4),
            ("gpu[1-4,7],login, gpu[09-10]", 8),
            ("r[1-2]n[1-3]", 6),
            ("a-[1,3,5-6]-ib", 4),
            ("gpu[1-4294967295]x[1-4294967295]", u32::MAX),
            // Nothing that Slurm would take, and no trap.
            ("gpu[", 1),
            ("gpu[4-1]", 1),
            ("gpu[a-b]é,ü[", 2),
            ("gpu[1,[2]", 2),
            ("]", 1),
        ] {
            assert_eq!(hosts_named_max(list), hosts, "{list}");
        }
        // Quadratic, this would take minutes.
        assert_eq!(hosts_named_max(&"[".repeat(4 << 20)), 1);
    }
}
