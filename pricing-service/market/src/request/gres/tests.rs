use super::*;

type Counts<'a> = &'a [(Option<&'a str>, u64)];

fn gpus(counts: Counts<'_>) -> Gpus {
    let mut gpus = Gpus::default();
    for (model, count) in counts {
        gpus.add(*model, *count);
    }
    gpus
}

#[test]
fn requests_in_every_spelling() {
    const A100: Option<&str> = Some("a100");
    let table: &[(&str, Counts<'_>)] = &[
        ("", &[]),
        ("none", &[]),
        ("gres:gpu", &[(None, 1)]),
        ("gres:gpu:2", &[(None, 2)]),
        ("gres:gpu:a100", &[(A100, 1)]),
        ("gres:gpu:a100:2", &[(A100, 2)]),
        ("gres/gpu:a100:2", &[(A100, 2)]),
        ("gres/gpu:a100=2", &[(A100, 2)]),
        ("gres/gpu=4", &[(None, 4)]),
        ("gpu:A100:2", &[(A100, 2)]),
        ("gpu=2", &[(None, 2)]),
        ("gres:gpu:a100:1,gres:gpu:h100:1", &[(A100, 1), (Some("h100"), 1)]),
        ("gres:gpu:a100:1,gres:gpu:a100:4", &[(A100, 4)]),
        ("gres:gpu:a100:4,gres:gpu:a100:1", &[(A100, 4)]),
        ("gres:gpu:a100_3g.20gb:1", &[(Some("a100_3g.20gb"), 1)]),
        ("gres:gpu:1g.5gb", &[(Some("1g.5gb"), 1)]),
        ("gres:gpu:2080ti", &[(Some("2080ti"), 1)]),
        ("gres:gpu:rtx-a6000:3", &[(Some("rtx-a6000"), 3)]),
        ("gres:gpu:1k", &[(None, 1_024)]),
        ("gres:gpu:a100:2KiB", &[(A100, 2_048)]),
        ("gres:gpu:2kb", &[(None, 2_000)]),
        ("gres:gpu:1m", &[(None, 1_048_576)]),
        ("gres:gpu:99999999999999999999", &[(None, u64::MAX)]),
        ("gres:gpu:9999999999999999p", &[(None, u64::MAX)]),
        ("gres:gpu:0", &[]),
        ("gres:gpu:a100:0", &[]),
        ("gres:shard:0", &[]),
        ("gres:nic:2,gres:gpu:1,license:x:3", &[(None, 1)]),
        ("cpu=4,gres/gpu:a100:2", &[(A100, 2)]),
        ("xgres:gpu:8", &[(None, 8)]),
        ("gres:gpux:8,gres/gpuutil=3", &[]),
        (",gres:gpu:1,,", &[(None, 1)]),
        ("(x,gres:gpu:8)", &[(None, 8)]),
    ];
    for (text, expected) in &table[..table.len() - 1] {
        assert_eq!(gpus_of_request(text), Ok(gpus(expected)), "{text}");
    }
    // Slurm splits at every comma, so a bracket must not hide an entry: here it spoils the count.
    assert!(gpus_of_request(table[table.len() - 1].0).is_err());
}

#[test]
fn malformed_requests_and_parts_of_gpus_are_named() {
    for text in [
        "gres:gpu:",
        "gres:gpu::1",
        "gres:gpu:a100:",
        "gres:gpu:a100:x",
        "gres:gpu:a100:2:3",
        "gres:gpu:-1",
        "gres:gpu:+2",
        "gres:gpu:a100:-1",
        "gres:gpu: 2",
        "gres/gpu=",
        "gres/gpu=x",
        "gres:gpu:1(S:0)",
    ] {
        assert_eq!(gpus_of_request(text), Err(GresError::Malformed { entry: text.to_owned() }));
    }
    for (text, name) in [
        ("gres:shard:4", "shard"),
        ("gres:mps:50", "mps"),
        ("gres:gpu:1,gres/shard=1", "shard"),
        ("mps", "mps"),
    ] {
        assert_eq!(gpus_of_request(text), Err(GresError::PartOfGpu { name: name.to_owned() }));
    }
}

#[test]
fn nodes_and_details() {
    let table: &[(&str, Counts<'_>)] = &[
        ("", &[]),
        ("gpu:a100:8", &[(Some("a100"), 8)]),
        ("gpu:a100:8(S:0-1)", &[(Some("a100"), 8)]),
        ("gpu:a100:2(IDX:0-1,3),gpu:h100:1(IDX:4)", &[(Some("a100"), 2), (Some("h100"), 1)]),
        ("gpu:a100:0(IDX:N/A)", &[]),
        ("gpu:(null):2(IDX:0-1)", &[(None, 2)]),
        ("gpu:2(IDX:0-1)", &[(None, 2)]),
        ("gpu:a100:4(S:0),gpu:a100:4(S:1)", &[(Some("a100"), 8)]),
        ("gpu:a100:no_consume:4", &[(Some("a100"), 4)]),
        ("gpu:no_consume:4", &[(None, 4)]),
        ("gpu:a100:8,shard:a100:32,nic:2", &[(Some("a100"), 8)]),
        ("gpu", &[(None, 1)]),
    ];
    for (text, expected) in table {
        assert_eq!(gpus_of_node(text), Ok(gpus(expected)), "{text}");
    }
    assert!(gpus_of_node("gpu:a100:x(S:0)").is_err());
}

#[test]
fn records_count_typed_gpus_once() {
    let table: &[(&str, Counts<'_>)] = &[
        ("", &[]),
        ("cpu=8,mem=4G,node=1,billing=8", &[]),
        ("cpu=8,mem=4G,node=1,billing=8,gres/gpu=8,gres/gpu:a100=8", &[(Some("a100"), 8)]),
        ("cpu=10,gres/gpu=1,gres/gpu:a100=1", &[(Some("a100"), 1)]),
        ("gres/gpu:a100=1,gres/gpu=3,gres/gpu:h100=1", &[(None, 1), (Some("a100"), 1), (Some("h100"), 1)]),
        ("gres/gpu=3", &[(None, 3)]),
        ("gres/gpu:a100=2", &[(Some("a100"), 2)]),
        ("gres/gpu=1,gres/gpu:a100=2", &[(Some("a100"), 2)]),
        ("gres/gpu=1,gres/gpumem=10G,gres/gpuutil=50,gres/shard=4", &[(None, 1)]),
    ];
    for (text, expected) in table {
        assert_eq!(gpus_of_tres(text), Ok(gpus(expected)), "{text}");
    }
    assert!(gpus_of_tres("gres/gpu=many").is_err());
}

#[test]
fn sums_saturate_and_models_are_found() {
    let mut many = gpus(&[(Some("A100"), u64::MAX), (None, 2)]);
    many.add(Some("a100"), 1);
    assert_eq!(
        (many.total(), many.of(Some("a100")), many.of(None), many.of(Some("x"))),
        (u64::MAX, u64::MAX, 2, 0)
    );
    assert!(Gpus::default().is_empty() && !many.is_empty());
    assert_eq!(many.iter().next(), Some((None, 2)));
}
