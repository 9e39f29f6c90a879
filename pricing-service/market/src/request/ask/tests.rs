use super::*;

type Counts = Vec<(Option<String>, u64)>;

fn asked(ask: Ask<'_>) -> Counts {
    let gpus = gpus_asked(&ask).unwrap_or_else(|error| panic!("{ask:?}: {error}"));
    gpus.iter().map(|(model, count)| (model.map(str::to_owned), count)).collect()
}

fn typed(model: &str, count: u64) -> (Option<String>, u64) {
    (Some(model.to_owned()), count)
}

fn nodes(min: u32, max: u32) -> Ask<'static> {
    Ask { min_nodes: Some(min), max_nodes: Some(max), ..anywhere() }
}

fn anywhere() -> Ask<'static> {
    Ask { node_gpus_max: 8, node_sockets_max: 2, ..Ask::default() }
}

#[test]
fn a_count_per_job_is_the_total_at_any_shape() {
    let ask = Ask { tres_per_job: Some("gres:gpu:8"), tres_per_node: Some("gres:gpu:4"), ..nodes(1, 4) };
    assert_eq!(asked(ask), [(None, 8)]);
    assert_eq!(asked(Ask { min_nodes: Some(3), ..ask }), [(None, 12)]);
}

/// Command lines with the fields that sbatch 22.05 fills for them.
#[test]
fn command_lines() {
    let table: Vec<(&str, Ask<'_>, Counts)> = vec![
        (
            "--gres=gpu:a100:2 -N1",
            Ask { tres_per_node: Some("gres:gpu:a100:2"), ..nodes(1, 1) },
            vec![typed("a100", 2)],
        ),
        (
            "-N4 --gpus-per-node=h100:8 --exclusive",
            Ask { tres_per_node: Some("gres:gpu:h100:8"), exclusive: true, ..nodes(4, 4) },
            vec![typed("h100", 32)],
        ),
        (
            "-n3 --gpus-per-task=2",
            Ask { tres_per_task: Some("gres:gpu:2"), num_tasks: Some(3), ..anywhere() },
            vec![(None, 6)],
        ),
        ("--gpus=12", Ask { tres_per_job: Some("gres:gpu:12"), ..anywhere() }, vec![(None, 12)]),
        ("-G 4", Ask { tres_per_job: Some("gres:gpu:4"), ..anywhere() }, vec![(None, 4)]),
        (
            "--gpus a100:4",
            Ask { tres_per_job: Some("gres:gpu:a100:4"), ..anywhere() },
            vec![typed("a100", 4)],
        ),
        (
            "-N1-4 --gpus-per-node=4",
            Ask { tres_per_node: Some("gres:gpu:4"), ..nodes(1, 4) },
            vec![(None, 16)],
        ),
        (
            "--gres=gpu:a100:1,gpu:h100:1 -N2",
            Ask { tres_per_node: Some("gres:gpu:a100:1,gres:gpu:h100:1"), ..nodes(2, 2) },
            vec![typed("a100", 2), typed("h100", 2)],
        ),
        (
            "--tres-per-task=gres/gpu:a100:1 -n8",
            Ask { tres_per_task: Some("gres/gpu:a100:1"), num_tasks: Some(8), ..anywhere() },
            vec![typed("a100", 8)],
        ),
        (
            "--gpus-per-socket=2 --sockets-per-node=2 -N1",
            Ask {
                tres_per_socket: Some("gres:gpu:2"),
                sockets_per_node: Some(2),
                num_tasks: Some(2),
                ..nodes(1, 1)
            },
            vec![(None, 4)],
        ),
        (
            "--gpus=8 --ntasks-per-gpu=4",
            Ask {
                tres_per_job: Some("gres:gpu:8"),
                ntasks_per_tres: Some(4),
                num_tasks: Some(32),
                ..anywhere()
            },
            vec![(None, 8)],
        ),
        (
            "--gpus-per-node=1 -n1",
            Ask { tres_per_node: Some("gres:gpu:1"), num_tasks: Some(1), ..anywhere() },
            vec![(None, 1)],
        ),
        (
            "--gres=gpu:a100_3g.20gb:1",
            Ask { tres_per_node: Some("gres:gpu:a100_3g.20gb:1"), ..anywhere() },
            vec![typed("a100_3g.20gb", 1)],
        ),
        ("--gres=none", anywhere(), vec![]),
        ("-C a100|h100 --gpus=1", Ask { tres_per_job: Some("gres:gpu:1"), ..anywhere() }, vec![(None, 1)]),
        ("-N2-8 --gpus=8", Ask { tres_per_job: Some("gres:gpu:8"), ..nodes(2, 8) }, vec![(None, 8)]),
        (
            "-N1-4 --gpus=8 --gpus-per-node=4",
            Ask { tres_per_job: Some("gres:gpu:8"), tres_per_node: Some("gres:gpu:4"), ..nodes(2, 2) },
            vec![(None, 8)],
        ),
        (
            "-N2 --gpus-per-node=4 --gpus-per-task=2 -n4",
            Ask {
                tres_per_node: Some("gres:gpu:4"),
                tres_per_task: Some("gres:gpu:2"),
                num_tasks: Some(4),
                ..nodes(2, 2)
            },
            vec![(None, 8)],
        ),
        (
            "-N2 --ntasks-per-node=4 --gpus-per-task=1",
            Ask {
                tres_per_task: Some("gres:gpu:1"),
                ntasks_per_node: Some(4),
                num_tasks: Some(8),
                ..nodes(2, 2)
            },
            vec![(None, 8)],
        ),
        ("-N3 --gpus-per-task=2", Ask { tres_per_task: Some("gres:gpu:2"), ..nodes(3, 3) }, vec![(None, 6)]),
        (
            "-n8 --ntasks-per-gpu=4",
            Ask { ntasks_per_tres: Some(4), num_tasks: Some(8), ..anywhere() },
            vec![(None, 2)],
        ),
        ("-N2 --ntasks-per-gpu=4", Ask { ntasks_per_tres: Some(4), ..nodes(2, 2) }, vec![(None, 2)]),
        ("-n8", Ask { num_tasks: Some(8), ..anywhere() }, vec![]),
        ("-N2 --exclusive", Ask { exclusive: true, ..nodes(2, 2) }, vec![(None, 16)]),
        (
            "-N2 --exclusive --gres=gpu:a100:1",
            Ask { exclusive: true, tres_per_node: Some("gres:gpu:a100:1"), ..nodes(2, 2) },
            vec![(None, 14), typed("a100", 2)],
        ),
    ];
    for (line, ask, expected) in table {
        assert_eq!(asked(ask), expected, "{line}");
    }
}

#[test]
fn without_a_node_count_the_job_may_spread_over_one_node_per_task() {
    let ask = Ask { tres_per_node: Some("gres:gpu:2"), num_tasks: Some(64), ..anywhere() };
    assert_eq!(asked(ask), [(None, 128)]);
    assert_eq!(asked(Ask { nodes_usable_max: Some(10), ..ask }), [(None, 20)]);
    assert_eq!(asked(Ask { ntasks_per_node: Some(16), ..ask }), [(None, 8)]);
    assert_eq!(asked(Ask { min_nodes: Some(1), max_nodes: Some(3), ..ask }), [(None, 6)]);
    assert_eq!(asked(Ask { max_nodes: Some(0), ..ask }), [(None, 128)]);
    assert_eq!(asked(Ask { exclusive: true, nodes_usable_max: Some(10), ..ask }), [(None, 80)]);
}

#[test]
fn zeros_and_the_largest_numbers_do_no_harm() {
    let zeros = Ask {
        tres_per_node: Some("gres:gpu:2"),
        min_nodes: Some(0),
        max_nodes: Some(0),
        num_tasks: Some(0),
        ntasks_per_node: Some(0),
        ntasks_per_tres: Some(0),
        sockets_per_node: Some(0),
        nodes_usable_max: Some(0),
        ..Ask::default()
    };
    assert_eq!(asked(zeros), [(None, 2)]);
    let largest = Ask {
        tres_per_socket: Some("gres:gpu:a100:9999999999999p"),
        tres_per_task: Some("gres:gpu:9999999999999p"),
        min_nodes: Some(u32::MAX),
        max_nodes: Some(u32::MAX),
        num_tasks: Some(u32::MAX),
        ntasks_per_node: Some(u32::MAX),
        sockets_per_node: Some(u32::MAX),
        exclusive: true,
        node_gpus_max: u32::MAX,
        ..Ask::default()
    };
    assert_eq!(asked(largest), [(None, u64::MAX), typed("a100", u64::MAX)]);
}

#[test]
fn parts_of_gpus_and_malformed_counts_are_errors() {
    let shard = Ask { tres_per_node: Some("gres:shard:4"), ..anywhere() };
    assert_eq!(gpus_asked(&shard), Err(GresError::PartOfGpu { name: "shard".to_owned() }));
    let malformed = Ask { tres_per_task: Some("gres:gpu:"), ..anywhere() };
    assert_eq!(gpus_asked(&malformed), Err(GresError::Malformed { entry: "gres:gpu:".to_owned() }));
}
