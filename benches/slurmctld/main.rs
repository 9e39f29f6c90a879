//! What the plugins cost a real slurmctld: submissions per second from one process with four threads through libslurm
//! and CPU time, memory and threads of slurmctld, with the plugins in slurm.conf and without, on one private cluster.
//!
//! Blocks with and without take turns within one slurmctld, seconds apart, so that whatever else the machine does meets
//! both alike; memory is that of a slurmctld just started. The jobs are held. Needs root, as the cluster does.

mod arm;
mod footprint;
mod repricing;
/// The same border to Slurm as in the plugins' tests, which use more of it.
#[allow(dead_code)]
#[path = "../../slurm-plugin/tests/dlopen/slurm.rs"]
mod slurm;
mod submitter;

use benches::Spread;
use system_tests::{Cluster, Setting};

use arm::{Arm, Bench, Block, Footprints};
use footprint::Footprint;

const ROUNDS: usize = 24;
const RESTARTS: usize = 3;
const JOBS: u32 = 1_000;
const FIRST_PORT: u16 = 29_500;
const PROMISE: f64 = 0.97;
const REPRICED_JOBS: u32 = 10_000;
const REPRICED_TIMES: u32 = 5;
const ARMS: [Arm; 3] = [Arm::Without, Arm::Plugins, Arm::Product];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [submitter::WORD, jobs, how @ ..] => {
            submitter::run(jobs.parse().expect("a number of jobs"), how == [submitter::WAITING]);
        }
        options if options.contains(&"--repricing") => {
            let jobs = option(options, "--repricing").unwrap_or(REPRICED_JOBS);
            repricing::measure(&cluster(), jobs, REPRICED_TIMES);
        }
        options => {
            compare(option(options, "--rounds").unwrap_or(ROUNDS), option(options, "--jobs").unwrap_or(JOBS))
        }
    }
}

fn option<T: std::str::FromStr>(words: &[&str], name: &str) -> Option<T> {
    let place = words.iter().position(|word| *word == name)?;
    let value = words.get(place + 1).and_then(|value| value.parse().ok());
    Some(value.unwrap_or_else(|| panic!("{name} needs a number")))
}

/// With as many teams and as much money as submissions need.
fn cluster() -> Cluster {
    let built =
        benches::build(&["quotamarketd", "sbid", "job-submit-bid", "site-factor-bid", "priority-bid"]);
    let setting = Setting {
        built: Some(built),
        teams: Some(submitter::teams()),
        poll_s: 3,
        conf: "MinJobAge=2\nMaxJobCount=100000\n".into(),
        first_port: FIRST_PORT,
        ..Setting::default()
    };
    let cluster = Cluster::with(&setting);
    for account in submitter::accounts() {
        cluster.deposit(&account, "100000000");
    }
    cluster
}

fn compare(rounds: usize, jobs: u32) {
    let cluster = cluster();
    let bench = Bench::new(&cluster, jobs);
    let footprints: Vec<_> =
        (0..RESTARTS).map(|_| [Arm::Without, Arm::Product].map(|arm| bench.footprints(arm))).collect();
    bench.restart(Arm::Product);
    println!("{rounds} rounds of three blocks of {jobs} held jobs, from one process with four threads");
    let blocks: Vec<_> = (0..rounds).map(|round| blocks_of_round(&bench, round)).collect();
    bench.switch_to(Arm::Product);
    tell_blocks(&blocks);
    tell_footprints(&footprints);
    let told = bench.told();
    println!("job_submit of a bid as the plugin itself counts it, us:");
    println!("    p50 {:.1}", Spread::of(told.iter().map(|(p50, _)| *p50)));
    println!("    p99 {:.1}", Spread::of(told.iter().map(|(_, p99)| *p99)));
}

/// A block of each arm, in the order of [`ARMS`]; each is first, second and last as often.
fn blocks_of_round(bench: &Bench<'_>, round: usize) -> [Block; 3] {
    let mut order = [0, 1, 2];
    order.rotate_left(round % 3);
    let mut blocks: Vec<(usize, Block)> = order
        .into_iter()
        .map(|arm| {
            bench.switch_to(ARMS[arm]);
            (arm, bench.block())
        })
        .collect();
    bench.cancel_all();
    blocks.sort_by_key(|(arm, _)| *arm);
    let blocks = blocks.into_iter().map(|(_, block)| block).collect::<Vec<_>>();
    let rates = blocks.iter().map(|block| format!("{:.0}", block.per_second)).collect::<Vec<_>>();
    println!("submissions/s without, with plugins, with plugins and daemon: {}", rates.join(", "));
    blocks.try_into().expect("one for each arm")
}

fn tell_blocks(blocks: &[[Block; 3]]) {
    println!(
        "\nMedian (middle half; all) over the rounds; ratios are to the block without of the same round:"
    );
    let tell = |what: &str, of: fn(&Block) -> f64| {
        let spread = |arm: usize| Spread::of(blocks.iter().map(|round| of(&round[arm])));
        let ratio = |arm: usize| Spread::of(blocks.iter().map(|round| of(&round[arm]) / of(&round[0])));
        println!("{what}");
        println!("    without            {:.0}", spread(0));
        println!("    plugins            {:.0}", spread(1));
        println!("    plugins and daemon {:.0}", spread(2));
        println!("    ratio, plugins     {:.3}", ratio(1));
        println!("    ratio, both        {:.3}", ratio(2));
        [1, 2].map(|arm| (ratio(arm).median, spread(arm).middle_half.1 / spread(0).middle_half.1))
    };
    let ratios = tell("submissions per second", |block| block.per_second);
    tell("CPU of slurmctld per submission, us", |block| block.cpu_us);
    tell("submission as slurmctld's log times it, us", |block| block.logged_p50_us);
    tell("submission as the client sees it, us", |block| block.client_p50_us);
    let daemon = Spread::of(blocks.iter().map(|[_, _, product]| product.daemon_cpu_us));
    println!("CPU of quotamarketd per submission, us\n    {daemon:.0}");
    for (what, (ratio, undisturbed)) in ["plugins", "plugins and daemon"].into_iter().zip(ratios) {
        let verdict = if ratio >= PROMISE { "kept" } else { "MISSED" };
        println!("submissions per second, {what} : without >= {PROMISE}: {ratio:.3}, {verdict}");
        println!("    of the upper quartiles, which other load disturbs least: {undisturbed:.3}");
    }
}

fn tell_footprints(footprints: &[[Footprints; 2]]) {
    println!("What the plugins add to slurmctld, over {} restarts:", footprints.len());
    let tell = |when: &str, of: fn(&Footprints) -> &Footprint| {
        let added = |figure: fn(&Footprint) -> f64| {
            Spread::of(footprints.iter().map(|[without, with]| figure(of(with)) - figure(of(without))))
        };
        println!("    {when}");
        println!("        RSS, KiB           {:.0}", added(|at| at.rss_kib));
        println!("        private dirty, KiB {:.0}", added(|at| at.private_dirty_kib));
        println!("        threads            {:.0}", added(|at| at.threads));
    };
    tell("before any job", |at| &at.idle);
    tell("with a block's jobs", |at| &at.full);
}
