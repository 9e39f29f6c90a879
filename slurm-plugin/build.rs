//! Compiles the C shim against the private headers of exactly the Slurm whose public headers are installed.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// job_modify has an `err_msg` argument from this version on.
const JOB_MODIFY_ERR_MSG_SINCE: u32 = 0x17_02_00;

fn main() {
    println!("cargo::rerun-if-changed=csrc");
    println!("cargo::rerun-if-env-changed=SLURM_SOURCE_DIR");
    println!("cargo::rustc-check-cfg=cfg(job_modify_has_err_msg)");
    if let Err(sentence) = build() {
        println!("cargo::error={sentence}");
    }
}

fn build() -> Result<(), String> {
    let number: u32 = cargo_variable("DEP_SLURM_HEADERS_VERSION_NUMBER")?
        .parse()
        .map_err(|error| format!("the version of Slurm's headers is no number: {error}"))?;
    let version = format!("{}.{:02}.{}", number >> 16, number >> 8 & 0xff, number & 0xff);
    println!("cargo::rustc-env=SLURM_VERSION={version}");
    if number >= JOB_MODIFY_ERR_MSG_SINCE {
        println!("cargo::rustc-cfg=job_modify_has_err_msg");
    }
    let source = source_tree(&version)?;
    let include = cargo_variable("DEP_SLURM_HEADERS_INCLUDE")?;
    // For the tests, which build a stand-in of slurmctld against the same headers.
    println!("cargo::rustc-env=SLURM_SOURCE_TREE={}", source.display());
    println!("cargo::rustc-env=SLURM_INCLUDE={include}");
    println!("cargo::metadata=SOURCE_TREE={}", source.display());
    compile_shim(&source, &include)
}

/// The source tree whose META names `version`.
fn source_tree(version: &str) -> Result<PathBuf, String> {
    let beside = Path::new(&cargo_variable("CARGO_MANIFEST_DIR")?).join("../.slurm-source").join(version);
    let tree = env::var_os("SLURM_SOURCE_DIR").map_or(beside, PathBuf::from);
    let meta = tree.join("META");
    println!("cargo::rerun-if-changed={}", meta.display());
    let text = fs::read_to_string(&meta).map_err(|_| {
        format!(
            "the source of Slurm {version} is not in {}: run contrib/setup, or set SLURM_SOURCE_DIR",
            tree.display()
        )
    })?;
    let found = text.lines().find_map(|line| line.trim().strip_prefix("Version:")).map_or("", str::trim);
    if found == version {
        return Ok(tree);
    }
    Err(format!(
        "{} is Slurm {found:?}, but the installed headers are {version}: run contrib/setup, or set SLURM_SOURCE_DIR",
        tree.display()
    ))
}

fn compile_shim(source: &Path, include: &str) -> Result<(), String> {
    let generated = PathBuf::from(cargo_variable("OUT_DIR")?).join("include");
    // Slurm's configure would write config.h; none of its switches touches the structs the shim knows.
    fs::create_dir_all(&generated)
        .and_then(|()| fs::write(generated.join("config.h"), ""))
        .map_err(|error| format!("cannot write config.h: {error}"))?;
    let system = |path: &Path| ["-isystem".into(), path.display().to_string()];
    cc::Build::new()
        .files(["csrc/shim.c", "csrc/multifactor.c"])
        .include(&generated)
        .flags(system(source))
        .flags(system(Path::new(include)))
        .define("_GNU_SOURCE", None)
        .define("NDEBUG", None)
        .flag("-fvisibility=hidden")
        .warnings(true)
        .try_compile("bid_shim")
        .map_err(|error| format!("the shim does not compile against the source of Slurm: {error}"))
}

fn cargo_variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}: the build must be run by cargo"))
}
