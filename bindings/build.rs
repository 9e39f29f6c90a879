//! Generates the Rust side of Slurm's public headers: types and constants, no functions.

use std::path::{Path, PathBuf};
use std::{env, fs};

use bindgen::callbacks::{IntKind, ParseCallbacks};

/// Types that the plugin and the client name. What these refer to comes along by itself.
const TYPES: &str = "job_desc_msg_t|job_array_resp_msg_t|job_info_msg_t|slurm_job_info_t\
    |job_states|job_state_reason|node_states|slurm_err_t\
    |node_info_msg_t|node_info_t|partition_info_msg_t|partition_info_t|slurm_conf_t\
    |assoc_mgr_info_msg_t|assoc_mgr_info_request_msg_t|stats_info_(request|response)_msg_t\
    |slurm_selected_step_t|update_(node|part)_msg_t|slurmdb_admin_level_t\
    |slurmdb_(account|assoc|job|qos|tres|user)_(cond|rec)_t|slurmdb_coord_rec_t\
    |slurmdb_assoc_usage_t|slurmdb_qos_usage_t|xlist|List(Iterator|DelF)?|list_(t|itr_t)|hostlist(_t)?|bitstr_t";

/// Constants by name: the version, sentinels, states, flags and error numbers.
const CONSTANTS: &str = "SLURM_VERSION_NUMBER|SLURM_(SUCCESS|ERROR)|E?SLURM_.*|SLURMCTLD_.*\
    |(NO_VAL|INFINITE)(8|16|64)?|NICE_OFFSET|MEM_PER_CPU|SHARED_FORCE|CRON_JOB\
    |(SHOW|JOB|NODE|KILL|GRES|CORE_SPEC|STAT_COMMAND)_.*|PART(ITION|_FLAG)_.*\
    |ASSOC_(FLAG|MGR_INFO_FLAG)_.*|PREEMPT_MODE_.*|PRI(ORITY_FLAGS|VATE_DATA)_.*\
    |QOS_FLAG_.*|JOBCOND_FLAG_.*|SLURMDB_(ADMIN|JOB|FS)_.*";

/// Where Debian's libslurm-dev and Slurm's own packages put `slurm/slurm.h`.
const DEFAULT_INCLUDE: &str = "/usr/include";

fn main() {
    println!("cargo::rerun-if-changed=wrapper.h");
    println!("cargo::rerun-if-env-changed=SLURM_INCLUDE_DIR");
    let include = PathBuf::from(env::var_os("SLURM_INCLUDE_DIR").unwrap_or_else(|| DEFAULT_INCLUDE.into()));
    match version_number(&include).and_then(|version| {
        generate(&include)?;
        Ok(version)
    }) {
        Ok(version) => {
            println!("cargo::metadata=VERSION_NUMBER={version}");
            println!("cargo::metadata=INCLUDE={}", include.display());
        }
        Err(sentence) => println!("cargo::error={sentence}"),
    }
}

/// Reads SLURM_VERSION_NUMBER (major<<16 | minor<<8 | micro) without a compiler, so that missing
/// headers give one clear sentence and not a page of clang's.
fn version_number(include: &Path) -> Result<u32, String> {
    let header = include.join("slurm/slurm_version.h");
    println!("cargo::rerun-if-changed={}", header.display());
    let text = fs::read_to_string(&header).map_err(|error| {
        format!(
            "Slurm's public headers are missing ({}: {error}): install libslurm-dev, or set \
             SLURM_INCLUDE_DIR to the folder that holds slurm/slurm.h",
            header.display()
        )
    })?;
    text.lines()
        .find_map(|line| line.strip_prefix("#define SLURM_VERSION_NUMBER 0x"))
        .and_then(|digits| u32::from_str_radix(digits.trim(), 16).ok())
        .ok_or_else(|| format!("{} has no SLURM_VERSION_NUMBER", header.display()))
}

fn generate(include: &Path) -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run by cargo")?);
    bindgen::Builder::default()
        .header("wrapper.h")
        .clang_arg(format!("-I{}", include.display()))
        .allowlist_type(TYPES)
        .allowlist_var(CONSTANTS)
        .ignore_functions()
        .prepend_enum_name(false)
        .derive_default(true)
        .generate_comments(false)
        // SLURM_BIT(n) contains a cast, which only clang itself can evaluate.
        .clang_macro_fallback()
        .clang_macro_fallback_build_dir(&out)
        .parse_callbacks(Box::new(Constants))
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate()
        .map_err(|error| format!("bindgen cannot read Slurm's headers: {error}"))?
        .write_to_file(out.join("slurm.rs"))
        .map_err(|error| format!("cannot write the bindings: {error}"))
}

/// Gives constants the type of the C expressions they are compared with.
#[derive(Debug)]
struct Constants;

impl ParseCallbacks for Constants {
    fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
        match name {
            "SLURM_SUCCESS" => Some(IntKind::I32),
            "NO_VAL8" | "INFINITE8" => Some(IntKind::U8),
            "NO_VAL16" | "INFINITE16" => Some(IntKind::U16),
            "NO_VAL64" | "INFINITE64" | "MEM_PER_CPU" => Some(IntKind::U64),
            _ => None,
        }
    }
}
