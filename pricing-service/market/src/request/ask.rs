//! How many GPUs a request may come to hold (src/common/gres.c: `gres_job_state_validate`, `_test_gres_cnt`).

use std::collections::BTreeSet;

use super::gres::{Gpus, GresError, gpus_of_request};

/// The fields of a job request that decide its GPUs, as job_submit sees them: raw, so `None` where Slurm says NO_VAL
/// or NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ask<'a> {
    /// `--gpus`.
    pub tres_per_job: Option<&'a str>,
    /// `--gres`, `--gpus-per-node`.
    pub tres_per_node: Option<&'a str>,
    /// `--gpus-per-socket`.
    pub tres_per_socket: Option<&'a str>,
    /// `--gpus-per-task`.
    pub tres_per_task: Option<&'a str>,
    /// `--nodes`; sbatch fills both ends for a single number.
    pub min_nodes: Option<u32>,
    pub max_nodes: Option<u32>,
    /// `--ntasks`.
    pub num_tasks: Option<u32>,
    pub ntasks_per_node: Option<u32>,
    /// `--ntasks-per-gpu`.
    pub ntasks_per_tres: Option<u32>,
    pub sockets_per_node: Option<u32>,
    /// `--exclusive`, an exclusive partition or core specialisation: Slurm then gives all GPUs of the nodes.
    pub exclusive: bool,
    /// Most GPUs and most sockets of any node that the job may use; 0 if unknown.
    pub node_gpus_max: u32,
    pub node_sockets_max: u32,
    /// Nodes that the job may use at all.
    pub nodes_usable_max: Option<u32>,
}

/// The most GPUs of each model that the request may come to hold, which is what funds must cover. Saturating.
///
/// A count per job is the job's total, whatever the shape; else the largest of the counts per node, socket and task at
/// the largest shape. Without `--nodes` there are at most as many nodes as tasks. GPUs that come with whole nodes
/// beyond those asked for have no model.
///
/// # Errors
/// As [`gpus_of_request`]. What Slurm would refuse as inconsistent is not an error here; its count is an upper bound.
pub fn gpus_asked(ask: &Ask<'_>) -> Result<Gpus, GresError> {
    let read = |text: Option<&str>| text.map_or(Ok(Gpus::default()), gpus_of_request);
    let per_job = read(ask.tres_per_job)?;
    let per_node = read(ask.tres_per_node)?;
    let per_socket = read(ask.tres_per_socket)?;
    let per_task = read(ask.tres_per_task)?;
    let models: BTreeSet<_> = [&per_job, &per_node, &per_socket, &per_task]
        .into_iter()
        .flat_map(Gpus::iter)
        .map(|(model, _)| model)
        .collect();
    let smallest = Shape::smallest(ask);
    let largest = Shape::largest(ask);

    let mut gpus = Gpus::default();
    for &model in &models {
        let within = |shape: Shape| {
            let of_socket = per_socket.of(model).saturating_mul(sockets_per_node(ask));
            let of_node = per_node.of(model).max(of_socket).saturating_mul(shape.nodes);
            of_node.max(per_task.of(model).saturating_mul(shape.tasks))
        };
        let of_job = per_job.of(model);
        gpus.add(model, if of_job > 0 { of_job.max(within(smallest)) } else { within(largest) });
    }
    if models.is_empty() {
        gpus.add(None, gpus_by_tasks(ask, smallest));
    }
    if ask.exclusive {
        let of_nodes = u64::from(ask.node_gpus_max).saturating_mul(largest.nodes);
        gpus.add(None, of_nodes.saturating_sub(gpus.total()));
    }
    Ok(gpus)
}

/// Without `--sockets-per-node` Slurm refuses a count per socket unless it can be had from one per node; the largest
/// node bounds both.
fn sockets_per_node(ask: &Ask<'_>) -> u64 {
    ask.sockets_per_node.unwrap_or(ask.node_sockets_max).max(1).into()
}

/// `--ntasks-per-gpu` without a word about GPUs asks for tasks ÷ tasks per GPU, rounded down as Slurm does.
fn gpus_by_tasks(ask: &Ask<'_>, smallest: Shape) -> u64 {
    match (ask.ntasks_per_tres, ask.num_tasks) {
        (None | Some(0), _) => 0,
        (Some(per_gpu), Some(tasks)) => (tasks / per_gpu).into(),
        (Some(_), None) => smallest.nodes,
    }
}

/// Nodes and tasks, both at least 1.
#[derive(Debug, Clone, Copy)]
struct Shape {
    nodes: u64,
    tasks: u64,
}

impl Shape {
    fn smallest(ask: &Ask<'_>) -> Self {
        Self::of(ask, u64::from(ask.min_nodes.unwrap_or(1)))
    }

    /// At most one node per task, or per full load of tasks where `--ntasks-per-node` is given: then Slurm takes only
    /// nodes with room for that many (src/slurmctld/job_mgr.c: `_copy_job_desc_to_job_record`, pn_min_cpus).
    fn largest(ask: &Ask<'_>) -> Self {
        let nodes_min = u64::from(ask.min_nodes.unwrap_or(1));
        let tasks_per_node = ask.ntasks_per_node.unwrap_or(1).max(1);
        let by_tasks = ask.num_tasks.map(|tasks| u64::from(tasks.div_ceil(tasks_per_node)));
        let stated = ask.max_nodes.filter(|max| *max > 0).map(u64::from);
        let wanted = [by_tasks, stated].into_iter().flatten().min().unwrap_or(nodes_min);
        let usable = ask.nodes_usable_max.map_or(wanted, |usable| wanted.min(usable.into()));
        Self::of(ask, usable.max(nodes_min))
    }

    fn of(ask: &Ask<'_>, nodes: u64) -> Self {
        let nodes = nodes.max(1);
        let tasks = match ask.num_tasks {
            Some(tasks) => tasks.into(),
            None => nodes.saturating_mul(ask.ntasks_per_node.unwrap_or(1).max(1).into()),
        };
        Self { nodes, tasks: tasks.max(1) }
    }
}

#[cfg(test)]
mod tests;
