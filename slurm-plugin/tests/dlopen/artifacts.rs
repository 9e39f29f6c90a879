//! The shared objects under test, built by cargo and copied under the names that Slurm gives them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

/// Tells a process that runs one case where the shared objects are.
pub(crate) const FOLDER_VARIABLE: &str = "QUOTAMARKET_TEST_PLUGINS";

pub(crate) const JOB_SUBMIT: &str = "job_submit_bid.so";
pub(crate) const SITE_FACTOR: &str = "site_factor_bid.so";
pub(crate) const PRIORITY: &str = "priority_bid.so";
pub(crate) const PLUGINS: [&str; 3] = [JOB_SUBMIT, SITE_FACTOR, PRIORITY];

/// In the name of a build that panics when asked to.
const PANIC_MARK: &[u8] = b"(panics when asked to)";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// As it is installed.
    Plain,
    /// With the feature `force-panic`.
    Panicking,
}

impl Build {
    fn folder(self) -> PathBuf {
        let name = match self {
            Self::Plain => "plain",
            Self::Panicking => "panicking",
        };
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins").join(name)
    }
}

/// The folder with all plugins of a build. A dev-dependency on a cdylib gives a test nothing to load, so cargo is
/// asked for them; both builds have the same file names in the target folder, the plain one is the last to lie there.
pub(crate) fn folder(build: Build) -> PathBuf {
    if let Some(folder) = env::var_os(FOLDER_VARIABLE) {
        return folder.into();
    }
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        for build in [Build::Panicking, Build::Plain] {
            // Another cargo may replace the files between the build and the copy.
            assert!((0..3).any(|_| build_and_copy(build)), "another build keeps replacing the plugins");
        }
    });
    build.folder()
}

fn build_and_copy(build: Build) -> bool {
    let deps = env::current_exe().expect("the test's own path");
    let profile = deps.parent().and_then(Path::parent).expect("target/<profile>/deps");
    let profile_name = profile.file_name().and_then(|name| name.to_str()).expect("a profile");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args(["build", "--offline", "--quiet"]);
    cargo.args(["-p", "job-submit-bid", "-p", "site-factor-bid", "-p", "priority-bid"]);
    cargo.arg("--target-dir").arg(profile.parent().expect("target"));
    cargo.args(["--profile", if profile_name == "debug" { "dev" } else { profile_name }]);
    if build == Build::Panicking {
        cargo.args(["--features", "slurm-plugin/force-panic"]);
    }
    assert!(cargo.status().expect("cargo runs").success(), "the plugins do not build");
    let folder = build.folder();
    fs::create_dir_all(&folder).expect("a folder");
    PLUGINS.iter().all(|name| {
        let bytes = fs::read(profile.join(format!("lib{name}"))).expect("cargo built it");
        fs::write(folder.join(name), &bytes).expect("room for a copy");
        bytes.windows(PANIC_MARK.len()).any(|part| part == PANIC_MARK) == (build == Build::Panicking)
    })
}
