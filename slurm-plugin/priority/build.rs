//! Keeps the plugin mapped after Slurm's dlclose: its thread may still be on the way out.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
