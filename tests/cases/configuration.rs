//! market.toml and the daemon's start.

use std::process::Command;

use system_tests::{Outcome, built_dir};

fn check(text: &str) -> Outcome {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("market.toml");
    std::fs::write(&path, text).expect("writes");
    let output = Command::new(built_dir().join("quotamarketd"))
        .arg("--config")
        .arg(&path)
        .arg("--check")
        .output()
        .expect("runs");
    output.into()
}

#[test]
fn a_wrong_configuration_ends_the_start_with_file_line_and_key() {
    for (text, expected) in [
        ("poll_s = 3\nquantums = 5\n", "market.toml:2: quantums: unknown field"),
        ("[pools.a100]\nweight = -1\n", "market.toml:2: weight: -1 is no price"),
        ("mode = \"shadow\"\n", "market.toml:1: mode: unknown variant"),
    ] {
        let outcome = check(text);
        assert_eq!(outcome.code, Some(78), "{outcome:?}");
        assert!(outcome.stderr.contains(expected), "{outcome:?}");
    }
    assert!(check("").success);
}

#[test]
fn the_example_of_the_guide_is_a_good_configuration() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/market.toml");
    let output = Command::new(built_dir().join("quotamarketd"))
        .args(["--check", "--config", example])
        .output()
        .expect("runs");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_missing_slurm_conf_is_one_sentence() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let config = directory.path().join("market.toml");
    std::fs::write(&config, "").expect("writes");
    let output = Command::new(built_dir().join("quotamarketd"))
        .args(["--config", &config.to_string_lossy(), "--slurm-conf", "/nonexistent/slurm.conf"])
        .output()
        .expect("runs");
    let outcome = Outcome::from(output);
    assert!(!outcome.success && outcome.stderr.contains("/nonexistent/slurm.conf"), "{outcome:?}");
}
