//! Compiles what stands for slurmctld in the benchmark of callbacks, against the headers that the plugins are built
//! with.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=callbacks/slurmctld.c");
    if let Err(sentence) = compile() {
        println!("cargo::error={sentence}");
    }
}

fn compile() -> Result<(), String> {
    let out = PathBuf::from(variable("OUT_DIR")?);
    fs::write(out.join("config.h"), "").map_err(|error| format!("cannot write config.h: {error}"))?;
    let library = out.join("slurmctld.so");
    let status = cc::Build::new()
        .get_compiler()
        .to_command()
        .args(["-shared", "-fPIC", "-D_GNU_SOURCE", "-DNDEBUG", "-I"])
        .arg(&out)
        .args(["-isystem", &variable("DEP_BID_SHIM_SOURCE_TREE")?])
        .args(["-isystem", &variable("DEP_SLURM_HEADERS_INCLUDE")?, "-o"])
        .arg(&library)
        .arg("callbacks/slurmctld.c")
        .status()
        .map_err(|error| format!("cannot run the C compiler: {error}"))?;
    if !status.success() {
        return Err("the stand-in of slurmctld does not compile".to_owned());
    }
    println!("cargo::rustc-env=SLURMCTLD_STAND_IN={}", library.display());
    Ok(())
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}
