//! slurm-client links the library that Slurm's own commands use, which lies outside the loader's path.

fn main() {
    if let Ok(directory) = std::env::var("DEP_SLURM_LIB_DIR") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{directory}");
    }
}
