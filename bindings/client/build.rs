//! Generates the declarations of the functions that the client calls, from Slurm's headers, so that no
//! signature can drift, and links Slurm's library.
//!
//! A package with an executable that uses this crate gives the folder of the library to the loader in
//! a build.rs of its own, since cargo does not hand link arguments on:
//! `println!("cargo::rustc-link-arg=-Wl,-rpath,{}", env::var("DEP_SLURM_LIB_DIR")?)`.

use std::env;
use std::path::{Path, PathBuf};

/// Functions by name. Their types come from slurm-sys.
const FUNCTIONS: &str = "slurm_(init|api_version|strerror|ping|get_statistics)\
    |slurm_load_(jobs|node|partitions|ctl_conf|assoc_mgr_info)\
    |slurm_free_(job_info|node_info|partition_info|assoc_mgr_info|stats_response)_msg\
    |slurm_free_ctl_conf\
    |slurm_init_job_desc_msg|slurm_update_job|slurm_(notify_job|kill_job2|requeue)\
    |slurm_hostlist_(create|shift|destroy)\
    |slurm_list_(create|append|count|destroy|next|iterator_create|iterator_destroy)\
    |slurm_bit_(size|test)\
    |slurmdb_connection_(get|close|commit)\
    |slurmdb_(jobs|qos|tres)_get|slurmdb_init_tres_cond|slurmdb_job_modify";

/// Where the library may be if SLURM_LIB_DIR does not say: Debian, SchedMD's RPMs, `make install`.
const DEFAULT_FOLDERS: [&str; 4] =
    ["/usr/lib/{arch}-linux-gnu/slurm-wlm", "/usr/lib64/slurm", "/usr/lib/slurm", "/usr/local/lib/slurm"];

fn main() {
    println!("cargo::rerun-if-changed=wrapper.h");
    println!("cargo::rerun-if-env-changed=SLURM_LIB_DIR");
    match library_folder().and_then(|folder| {
        generate()?;
        Ok(folder)
    }) {
        Ok(folder) => {
            println!("cargo::rustc-link-search=native={folder}");
            println!("cargo::rustc-link-lib=dylib=slurmfull");
            println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
            println!("cargo::metadata=LIB_DIR={folder}");
        }
        Err(sentence) => println!("cargo::error={sentence}"),
    }
}

/// The folder of libslurmfull.so, which no package puts on the loader's path.
///
/// Why not libslurm.so: Slurm's plugins expect names that only libslurmfull.so exports. Under
/// libslurm.so the plugin for slurmdbd ends the process ("symbol lookup error") as soon as it has an
/// error to report, such as a lost connection. Slurm's own commands link libslurmfull.so too.
fn library_folder() -> Result<String, String> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let folders = match env::var("SLURM_LIB_DIR") {
        Ok(folder) => vec![folder],
        Err(_) => DEFAULT_FOLDERS.map(|folder| folder.replace("{arch}", &arch)).to_vec(),
    };
    let found = folders.iter().find(|folder| Path::new(folder).join("libslurmfull.so").is_file());
    found.cloned().ok_or_else(|| {
        format!(
            "libslurmfull.so is not in {}: install slurm-wlm-basic-plugins, or set SLURM_LIB_DIR to its folder",
            folders.join(", ")
        )
    })
}

fn generate() -> Result<(), String> {
    let out = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run by cargo")?;
    let include = env::var("DEP_SLURM_HEADERS_INCLUDE")
        .map_err(|_| "slurm-sys did not say where Slurm's headers are")?;
    bindgen::Builder::default()
        .header("wrapper.h")
        .clang_arg(format!("-I{include}"))
        .allowlist_function(FUNCTIONS)
        .allowlist_recursively(false)
        .generate_comments(false)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate()
        .map_err(|error| format!("bindgen cannot read Slurm's headers: {error}"))?
        .write_to_file(PathBuf::from(out).join("functions.rs"))
        .map_err(|error| format!("cannot write the bindings: {error}"))
}
