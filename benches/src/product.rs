//! The product as it is shipped: what `cargo build --release` makes of it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds packages with the release profile and returns the folder with what came of it. A dev-dependency on a cdylib
/// or a program gives a benchmark nothing to load or to start, so cargo is asked for them.
///
/// # Panics
/// If they do not build.
pub fn build(packages: &[&str]) -> PathBuf {
    let benchmark = env::current_exe().expect("the benchmark's own path");
    let target = benchmark.ancestors().nth(3).expect("target/<profile>/deps");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args(["build", "--release", "--offline", "--quiet", "--target-dir"]).arg(target);
    cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    assert!(cargo.status().expect("cargo runs").success(), "the product does not build");
    target.join("release")
}

/// Copies a built plugin into `folder` under the name that Slurm gives it, `job_submit_bid.so`.
///
/// # Panics
/// If there is no such plugin.
pub fn copy_plugin(built: &Path, name: &str, folder: &Path) -> PathBuf {
    let copy = folder.join(name);
    fs::copy(built.join(format!("lib{name}")), &copy).expect("a built plugin and room for a copy");
    copy
}
