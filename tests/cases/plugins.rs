//! What slurmctld loads, refuses to load, and survives.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use system_tests::{Cluster, Setting, built_dir, eventually};

/// For three reconfigurations; its clients give up after ten seconds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(8);
const PLUGINS: [&str; 3] = ["libjob_submit_bid.so", "libsite_factor_bid.so", "libpriority_bid.so"];

#[test]
fn the_plugins_do_not_pull_libslurm_into_slurmctld() {
    for plugin in PLUGINS {
        let path = built_dir().join(plugin);
        let output =
            std::process::Command::new("readelf").arg("-d").arg(&path).output().expect("readelf runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("NODELETE"), "{text}");
        let needed: Vec<&str> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
        assert!(!needed.is_empty() && needed.iter().all(|line| !line.contains("libslurm")), "{needed:?}");
    }
}

/// Copies the build with another Slurm's version in one plugin's `plugin_version`.
fn build_for_another_slurm(into: &Path) {
    for file in PLUGINS.into_iter().chain(["quotamarketd", "sbid"]) {
        std::fs::copy(built_dir().join(file), into.join(file)).expect("copies");
    }
    let path = into.join(PLUGINS[0]);
    let output =
        std::process::Command::new("readelf").args(["-sW", "--dyn-syms"]).arg(&path).output().expect("runs");
    let symbols = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = symbols.lines().find(|line| line.ends_with(" plugin_version")).expect("exported");
    let address =
        u64::from_str_radix(line.split_whitespace().nth(1).expect("value"), 16).expect("hexadecimal");
    let output = std::process::Command::new("readelf").args(["-SW"]).arg(&path).output().expect("runs");
    let sections = String::from_utf8_lossy(&output.stdout).into_owned();
    let offset = sections.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(']').nth(1)?.split_whitespace().collect();
        let number = |index: usize| u64::from_str_radix(fields.get(index)?, 16).ok();
        let (start, offset, size) = (number(2)?, number(3)?, number(4)?);
        (start > 0 && (start..start + size).contains(&address)).then(|| offset + address - start)
    });
    let offset = usize::try_from(offset.expect("the symbol lies in a section")).expect("fits");
    let mut bytes = std::fs::read(&path).expect("reads");
    bytes[offset..offset + 4].copy_from_slice(&0x0016_0509_u32.to_le_bytes());
    std::fs::write(&path, bytes).expect("writes");
}

#[test]
fn a_plugin_for_another_slurm_is_refused_by_slurmctld() {
    let other = tempfile::Builder::new().prefix("qm-other-").tempdir_in("/tmp").expect("temporary directory");
    build_for_another_slurm(other.path());
    let setting = Setting { built: Some(other.path().to_path_buf()), ..Setting::default() };
    let told = Cluster::start(&setting).expect_err("slurmctld started with a plugin of another Slurm");
    assert!(told.contains("22.05.9"), "{told}");
}

#[test]
fn a_build_against_another_slurm_stops_with_one_sentence() {
    let other = tempfile::tempdir().expect("temporary directory");
    std::fs::write(other.path().join("META"), "  Version:\t22.05.9\n").expect("writes");
    // The test build's own target directory: the shipped plugins are not touched.
    let target = panicking_build().parent().expect("target directory").to_path_buf();
    let output = std::process::Command::new(env!("CARGO"))
        .args(["build", "--locked", "-p", "slurm-plugin", "--target-dir"])
        .arg(&target)
        .env("SLURM_SOURCE_DIR", other.path())
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("is Slurm \"22.05.9\", but the installed headers are"), "{text}");
}

/// The build whose callbacks panic when asked to.
pub(crate) fn panicking_build() -> PathBuf {
    let built = built_dir();
    let built = built
        .parent()
        .expect("target directory")
        .join("force-panic")
        .join(built.file_name().expect("profile"));
    assert!(built.is_dir(), "{} is missing; contrib/test builds it", built.display());
    built
}

#[test]
fn a_panic_in_a_callback_leaves_slurmctld_alive() {
    let cluster = Cluster::with(&Setting { built: Some(panicking_build()), ..Setting::default() });
    cluster.deposit("vision", "100");
    for _ in 0..3 {
        let id = cluster.sbatch(
            "vis1",
            &["-J", "force-panic", "--gres=gpu:a100:1", "-t1", "--comment=bid:1"],
            "true",
        );
        eventually("the job is known", Duration::from_secs(20), || cluster.job(id, "QOS"));
    }
    assert!(cluster.runs("slurmctld"));
    let id = cluster.sbatch("vis1", &["--gres=gpu:a100:1", "-t1", "--comment=bid:1"], "true");
    assert!(cluster.receipt(id).starts_with("paid="));
}

#[test]
fn the_plugin_can_be_taken_out_and_put_back() {
    let cluster = Cluster::up();
    cluster.deposit("vision", "100");
    let conf = cluster.dir().join("etc/slurm.conf");
    let with = std::fs::read_to_string(&conf).expect("reads");
    let without: String = with
        .lines()
        .filter(|line| !line.starts_with("JobSubmitPlugins"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_ne!(with, without);
    for (text, priced) in [(&without, false), (&with, true), (&without, false), (&with, true)] {
        std::fs::write(&conf, text).expect("writes");
        // Submissions come in meanwhile.
        let submit = ["sbatch", "--hold", "--gres=gpu:a100:1", "-t1", "--comment=bid:0.5", "--wrap", "true"];
        let submission = |_| {
            cluster
                .command("vis2", &submit)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("starts")
        };
        let busy: Vec<_> = (0..4).map(submission).collect();
        // fini and init run under every lock that slurmctld has: with a thread that waits for one it would stand still.
        let asked = Instant::now();
        for _ in 0..3 {
            cluster.ok("root", &["scontrol", "reconfigure"]);
            cluster.ok("root", &["squeue"]);
        }
        assert!(asked.elapsed() < ANSWERS_WITHIN, "slurmctld took {:?}", asked.elapsed());
        // While slurmctld reads slurm.conf it knows no AuthInfo, so one may fail; none may hang.
        for mut submission in busy {
            submission.wait().expect("ends");
        }
        eventually("the change is in force", Duration::from_secs(20), || {
            let id =
                cluster.sbatch("vis1", &["--hold", "--gres=gpu:a100:1", "-t1", "--comment=bid:1"], "true");
            let stamped = cluster.job(id, "AdminComment").is_some_and(|text| text.ends_with("tier=standard"));
            (stamped == priced).then_some(())
        });
    }
}
