//! The real `sbid` against a market with fixed replies: whole outputs, what was sent, and exit statuses.

mod market_server;

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use market_server::{Ran, Site, bare_command};
use serde_json::{Value, json};

fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).expect("a JSON document")
}

#[test]
fn price_shows_a_table_between_its_unit_and_its_reasons() {
    let expected = "\
(SU per GPU-hour, tier standard)
Pool  GPUs  Free  Waiting  Reserve  Charge  StartNow
a100    16     0       24   0.3125    1.25      2.01
h100     8     8        0   0.9375  0.9375    0.9375
a100: job 4 is the first that does not fit and sets the start price.
h100: nobody waits, so the reserve holds.
";
    assert_eq!(Site::start().run(&["price"]), Ran::printed(expected));
}

#[test]
fn programs_get_delimited_rows() {
    let site = Site::start();
    let without_end = "\
Pool|GPUs|Free|Waiting|Reserve|Charge|StartNow
a100|16|0|24|0.3125|1.25|2.01
h100|8|8|0|0.9375|0.9375|0.9375
";
    assert_eq!(site.run(&["price", "-P"]), Ran::printed(without_end));
    assert_eq!(site.run(&["-P", "price"]), Ran::printed(without_end));
    assert_eq!(site.run(&["price", "-p", "--parsable2"]), Ran::printed(without_end));
    let with_end = "a100|2.01|\nh100|0.9375|\n";
    assert_eq!(site.run(&["price", "-np", "-o", "pool%2,startnow%1"]), Ran::printed(with_end));
    let other = "a100,16\nh100,8\n";
    assert_eq!(site.run(&["price", "-nP", "--delimiter=,", "-opool", "-ogpus"]), Ran::printed(other));
}

#[test]
fn formats_choose_size_and_cut_columns_for_people() {
    let site = Site::start();
    let expected = "\
(SU per GPU-hour, tier standard)
 Pool  GPUs    In+
 a100  16       15
 h100  8         8
a100: job 4 is the first that does not fit and sets the start price.
h100: nobody waits, so the reserve holds.
";
    assert_eq!(site.run(&["price", "--format=POOL%5,gpus%-6,insupply%3"]), Ran::printed(expected));
    assert_eq!(
        site.run(&["price", "-n", "-o", "why%10,pool%-3"]),
        Ran::printed("job 4 is +  a1+\nnobody wa+  h1+\n")
    );
    let unknown = "\"colour\" is no field of this command; --helpformat lists them";
    assert_eq!(site.run(&["price", "-o", "colour"]), Ran::failed(2, unknown));
    assert_eq!(site.requests().len(), 2, "a wrong format asks nobody");
}

#[test]
fn fields_are_listed_without_a_daemon() {
    let listed = "\
Account             Available           Earmarked           Free
Escrow              Charged
";
    assert_eq!(Site::without_daemon().run(&["balance", "--helpformat"]), Ran::printed(listed));
}

#[test]
fn balance_shows_accounts() {
    let site = Site::start();
    let expected = "\
Account  Available   Earmarked        Free  Escrow  Charged
vision       112.5  128.000001  -15.500001    12.4        0
";
    assert_eq!(site.run(&["balance", "-A", "Vision,speech"]), Ran::printed(expected));
    assert_eq!(site.requests(), [r#"BalancesRequest { accounts: ["vision", "speech"] }"#]);
}

#[test]
fn jobs_show_what_is_absent_as_slurm_does() {
    let site = Site::start();
    let expected = "\
JobID  User  Account  Tier      Pools  GPUs  State    Bid  Price  Earmark  Escrow   Charged  Rank
12_3   ada   vision   standard  a100      2  RUNNING  3.5   1.25        0      10  1.340001   N/A
2      bob   speech   standard  a100      8  PENDING  0.8    N/A     25.6       0         0     3
";
    assert_eq!(site.run(&["jobs"]), Ran::printed(expected));
    let times = "15|2026-12-01T08:00:00|Unknown|Yes\n2|Unknown|Unknown|Yes\n";
    assert_eq!(site.run(&["jobs", "-nP", "-o", "jobidraw,start,end,funded"]), Ran::printed(times));
    let mut elsewhere = site.command(&["jobs", "-nP", "-o", "start"]);
    let ran = Ran::of(elsewhere.env("TZ", "CET-1").output().expect("sbid runs"));
    assert_eq!(ran, Ran::printed("2026-12-01T09:00:00\nUnknown\n"));
}

#[test]
fn jobs_can_be_named() {
    let site = Site::start();
    assert_eq!(site.run(&["jobs", "--me", "-j", "2,7", "-A", "a"]).status, Some(0));
    assert_eq!(site.run(&["jobs", "-j2", "-j12_3"]).status, Some(0));
    let request = |job_ids: &str, accounts: &str, only_mine| {
        format!("JobsRequest {{ job_ids: [{job_ids}], accounts: [{accounts}], only_mine: {only_mine} }}")
    };
    let expected = [request("2, 7", r#""a""#, true), request("", "", false), request("2, 15", "", false)];
    assert_eq!(site.requests(), expected);
}

#[test]
fn explain_lays_out_sentences_and_commands() {
    let expected = "\
Job 2 waits for 8 a100. It is third of three: jobs 3 and 4 bid more. \
Your limit is 0.8; funds are not the reason.
To pass job 4 bid 2.01, to be first 3.51:   sbid bid 2 3.51
";
    let site = Site::start();
    assert_eq!(site.run(&["explain", "2"]), Ran::printed(expected));
    assert_eq!(site.run(&["explain", "12_3"]), Ran::printed(expected));
    assert_eq!(site.requests()[2], "ExplainRequest { job_id: 15 }");
    let unknown =
        "the market knows no job 12_4 of its own; tasks that wait are one order of their array: try 12";
    assert_eq!(site.run(&["explain", "12_4"]), Ran::failed(1, unknown));
    assert_eq!(site.run(&["explain", "99"]), Ran::failed(1, "no job 99 is in the market"));
}

#[test]
fn ledger_shows_six_decimals_and_its_sum() {
    let site = Site::start();
    let expected = "\
Transfer  Time                 Kind     LedgerAccount       Amount  JobID  Memo
       7  2026-12-01T09:00:00  charge   vision           -1.340000     12  one|two?three
       7  2026-12-01T09:00:00  charge   burn              1.340000     12  one|two?three
       8  2026-12-01T09:00:00  deposit  mint           -100.000000    N/A
Sum of all accounts: 0.000000 SU
";
    assert_eq!(site.run(&["ledger"]), Ran::printed(expected));
    let cut = site.run(&["ledger", "-nP", "-o", "transfer,amount", "--limit", "3"]);
    assert_eq!(cut.stdout, "7|-1.340000\n7|1.340000\n8|-100.000000\n");
    assert_eq!(cut.stderr, "sbid: warning: these are the last 3 entries; --limit=N shows more\n");
    assert_eq!(cut.status, Some(0));
    assert_eq!(site.requests()[1], "LedgerRequest { accounts: [], limit: 3 }");
}

#[test]
fn a_broken_ledger_is_an_error() {
    let ran = Site::start().run(&["ledger", "-A", "broken"]);
    assert!(ran.stdout.ends_with("\nSum of all accounts: 0.000001 SU\n"), "{}", ran.stdout);
    let sentence =
        "the ledger is broken: its accounts sum to 0.000001 SU and not to 0; tell the administrator";
    assert_eq!((ran.status, ran.stderr), (Some(1), format!("sbid: error: {sentence}\n")));
}

#[test]
fn deposit_sends_amount_comment_and_key() {
    let site = Site::start();
    let sentence = "Deposited 100.5 SU to vision (transfer 42); 212.5 SU are available there.\n";
    let keyed = ["deposit", "-i", "Vision", "100.5", "-c", "start; gift", "--idempotency-key", "again"];
    assert_eq!(site.run(&keyed), Ran::printed(sentence));
    let request = r#"DepositRequest { account: "vision", amount_usu: 100500000, memo: "start; gift", idempotency_key: "again" }"#;
    assert_eq!(site.requests(), [request]);

    for _ in 0..2 {
        assert_eq!(site.run(&["-i", "deposit", "vision", "100.5"]), Ran::printed(sentence));
    }
    let keys: Vec<String> = site.requests()[1..]
        .iter()
        .map(|request| request.split('"').nth(5).expect("a key").to_owned())
        .collect();
    assert!(keys.iter().all(|key| key.len() == 36 && key.as_bytes()[14] == b'4'), "{keys:?}");
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn bid_tells_the_change_and_the_rank() {
    let site = Site::start();
    let waiting = "Job 2 bids 3.51 SU per GPU-hour, before 0.8. It is number 1 of 3 in the queue.\n";
    assert_eq!(site.run(&["bid", "2", "3.51", "--idempotency-key=k"]), Ran::printed(waiting));
    assert_eq!(
        site.run(&["bid", "12_3", "0"]),
        Ran::printed("Job 12_3 bids 0 SU per GPU-hour, before 0.8.\n")
    );
    let requests = site.requests();
    assert_eq!(
        requests[0],
        r#"ChangeBidRequest { job_id: 2, limit_usu: 3510000, idempotency_key: "k", tier: "" }"#
    );
    assert!(requests[2].starts_with("ChangeBidRequest { job_id: 15, limit_usu: 0, "), "{}", requests[2]);
}

#[test]
fn evict_names_both_jobs() {
    let site = Site::start();
    let warned = "Job 2 is warned, with the signal it asked for, and requeued 60 s later, for job 15.\n";
    let keyed = ["admin", "evict", "2", "--for", "12_3", "--idempotency-key=k"];
    assert_eq!(site.run(&keyed), Ran::printed(warned));
    let requests = site.requests();
    let last = requests.last().expect("asked");
    assert_eq!(last, r#"EvictRequest { job_id: 2, beneficiary_job_id: 15, idempotency_key: "k" }"#);
    let cancelled = "Job 3 is warned and cancelled 60 s later, for job 2.\n";
    assert_eq!(site.run(&["admin", "evict", "3", "--for=2"]), Ran::printed(cancelled));
}

#[test]
fn json_has_slurms_frame_and_every_field() {
    let site = Site::start();
    let meta = |command: &str, as_of: Value| json!({"schema": 1, "as_of": as_of, "command": command});
    let frame = |command: &str, plural: &str, rows: Value| {
        let as_of = market_server::AS_OF_S.into();
        json!({"meta": meta(command, as_of), "errors": [], "warnings": [], plural: rows})
    };
    let price = site.run(&["price", "--json"]);
    assert!(price.stdout.starts_with("{\n  \"meta\": {\n    \"schema\": 1,\n"), "{}", price.stdout);
    let h100 = json!({
        "pool": "h100", "gpus": 8, "gpus_in_supply": 8, "gpus_idle": 8, "gpus_waiting": 0,
        "reserve_price": "0.9375", "charge_price": "0.9375", "start_price": "0.9375",
        "why": "nobody waits, so the reserve holds."
    });
    assert_eq!(json_of(&price)["pools"][1], h100);

    let balance = json!([{
        "account": "vision", "available": "112.5", "earmarked": "128.000001", "free": "-15.500001",
        "escrow": "12.4", "charged": "0"
    }]);
    assert_eq!(json_of(&site.run(&["balance", "--json"])), frame("balance", "accounts", balance));

    let pending = json!({
        "job_name": "2", "job_id": 2, "user": "bob", "account": "speech", "tier": "standard",
        "pools": "a100", "gpus": 8, "state": "PENDING", "bid": "0.8", "price": null, "earmark": "25.6",
        "escrow": "0", "charged": "0", "rank": 3, "funded": true, "start": null, "end": null
    });
    assert_eq!(json_of(&site.run(&["--json", "jobs"]))["jobs"][1], pending);
    let explanation = json!([{
        "job": pending,
        "sentences": [
            "Job 2 waits for 8 a100.", "It is third of three: jobs 3 and 4 bid more.",
            "Your limit is 0.8; funds are not the reason.", "To pass job 4 bid 2.01, to be first 3.51:"
        ],
        "jobs_ahead": [3, 4], "of": 3, "pass_next": "2.01", "pass_all": "3.51",
        "slurm_reason": "Priority", "account_free": "15.5", "hints": ["sbid bid 2 3.51"]
    }]);
    let explained = json_of(&site.run(&["explain", "2", "--json"]));
    assert_eq!(explained, frame("explain", "explanations", explanation));

    let ledger = json_of(&site.run(&["ledger", "--json", "--limit=3"]));
    let charge = json!({
        "transfer_id": 7, "time": market_server::AS_OF_S, "kind": "charge", "ledger_account": "vision",
        "amount": "-1.34", "job_id": 12, "memo": "one|two\nthree"
    });
    assert_eq!(ledger["entries"][0], charge);
    assert_eq!(ledger["entries"][2]["job_id"], Value::Null);
    assert_eq!(ledger["sum"], "0");
    assert_eq!(ledger["warnings"], json!(["these are the last 3 entries; --limit=N shows more"]));

    let deposit = json!([{
        "transfer_id": 42, "account": "vision", "amount": "100", "available": "212.5", "idempotency_key": "k"
    }]);
    assert_eq!(
        json_of(&site.run(&["deposit", "vision", "100", "--json", "--idempotency-key=k"])),
        json!({"meta": meta("deposit", Value::Null), "errors": [], "warnings": [], "deposits": deposit})
    );
    let bid = json!([{
        "job_name": "2", "job_id": 2, "old_bid": "0.8", "bid": "0", "rank": null, "of": 3,
        "idempotency_key": "k"
    }]);
    assert_eq!(
        json_of(&site.run(&["bid", "2", "0", "--json", "--idempotency-key=k"])),
        json!({"meta": meta("bid", Value::Null), "errors": [], "warnings": [], "bids": bid})
    );
}

#[test]
fn refusals_of_the_daemon_are_its_own_sentences() {
    let site = Site::start();
    assert_eq!(site.run(&["balance", "-A", "secret"]), Ran::failed(1, "account secret is not yours"));
    let older = "quotamarketd does not know this request; it is older than sbid";
    assert_eq!(site.run(&["balance", "-A", "old"]), Ran::failed(1, older));

    let ran = site.run(&["balance", "-A", "secret", "--json"]);
    let document = json!({
        "meta": {"schema": 1, "as_of": null, "command": "balance"},
        "errors": ["account secret is not yours"], "warnings": []
    });
    assert_eq!(json_of(&ran), document);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(1), "sbid: error: account secret is not yours\n"));
}

#[test]
fn wrong_usage_is_one_sentence_and_status_2() {
    let site = Site::without_daemon();
    let table: &[(&[&str], &str)] = &[
        (
            &["deposit", "vision", "1e3"],
            "\"1e3\" is no amount: only digits and one dot with digits on both sides are allowed; \
             write SU above 0, for example 100 or 12.5",
        ),
        (
            &["deposit", "vision", "-5"],
            "\"-5\" is no amount: only digits and one dot with digits on both sides are allowed; \
             write SU above 0, for example 100 or 12.5",
        ),
        (
            &["deposit", "vision", "0"],
            "a deposit of 0 SU moves nothing; write SU above 0, for example 100 or 12.5",
        ),
        (&["bid", "2", "x"], "cannot read \"x\" at column 1; write e.g. 3.5"),
        (&["bid", "2", "-1"], "cannot read \"-1\" at column 1; write e.g. 3.5"),
        (&["explain", "12+0"], "\"12+0\" is no job id; write for example 12, or 12_3 for a task of an array"),
        (&["jobs", "-j", "0"], "\"0\" is no job id; write for example 12, or 12_3 for a task of an array"),
        (&["ledger", "--limit=0"], "\"0\" is no number of entries; write for example 5000"),
        (&["balance", "-A", ","], "an account is missing; write for example vision, or vision,speech"),
        (
            &["explain", "2", "-P"],
            "explain prints sentences and no table; of the options for output it takes only --json",
        ),
        (&[], "a command is missing; sbid --help lists them"),
    ];
    for (arguments, sentence) in table {
        assert_eq!(site.run(arguments), Ran::failed(2, sentence), "{arguments:?}");
    }
    for arguments in [&["bid", "2"][..], &["haggle"], &["price", "--cheap"]] {
        let ran = site.run(arguments);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.stderr.starts_with("sbid: error: "), "{}", ran.stderr);
    }
}

#[test]
fn help_and_version_succeed() {
    let site = Site::without_daemon();
    assert_eq!(site.run(&["--version"]), Ran::printed("sbid 0.1.0\n"));
    assert_eq!(site.run(&["-V"]), Ran::printed("sbid 0.1.0\n"));
    for arguments in [&["-h"][..], &["--help"], &["jobs", "-h"], &["deposit", "--help"]] {
        let ran = site.run(arguments);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(ran.stdout.contains("Usage: sbid"), "{}", ran.stdout);
    }
}

#[test]
fn an_absent_daemon_is_told_with_its_socket() {
    let site = Site::without_daemon();
    let absent = |socket: &std::path::Path| {
        let socket = socket.display();
        format!("quotamarketd does not answer at {socket}; is it running? (systemctl status quotamarketd)")
    };
    let sentence = absent(&site.socket());
    assert_eq!(site.run(&["price"]), Ran::failed(1, &sentence));
    drop(std::os::unix::net::UnixListener::bind(site.socket()).expect("socket"));
    assert_eq!(site.run(&["deposit", "vision", "1"]), Ran::failed(1, &sentence), "a socket left behind");

    let config = site.config();
    let by_option = bare_command(&["price", "--config", config.to_str().expect("UTF-8")]).output();
    assert_eq!(Ran::of(by_option.expect("sbid runs")), Ran::failed(1, &sentence));
    let mut beside = bare_command(&["price"]);
    beside.env("SLURM_CONF", config.with_file_name("slurm.conf"));
    assert_eq!(Ran::of(beside.output().expect("sbid runs")), Ran::failed(1, &sentence));
}

#[test]
fn a_configuration_that_was_named_must_be_there_and_right() {
    let site = Site::without_daemon();
    std::fs::remove_file(site.config()).expect("market.toml was there");
    let ran = site.run(&["price"]);
    let begin = format!("sbid: error: cannot read {}: ", site.config().display());
    assert_eq!((ran.status, ran.stderr.starts_with(&begin)), (Some(1), true), "{}", ran.stderr);

    std::fs::write(site.config(), "quantum_s = 60\ncolour = 3\n").expect("market.toml");
    let ran = site.run(&["price"]);
    let begin = format!("sbid: error: {}:2: colour: ", site.config().display());
    assert_eq!((ran.status, ran.stderr.starts_with(&begin)), (Some(1), true), "{}", ran.stderr);
}

#[test]
fn a_frozen_daemon_keeps_nobody_waiting() {
    let (site, _listener) = Site::with_frozen_daemon();
    let started = Instant::now();
    let spawn = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sbid runs")
    };
    let read = spawn(&["price"]);
    let write = spawn(&["deposit", "vision", "1", "--idempotency-key", "k"]);
    let sentence = format!(
        "quotamarketd does not answer at {}; is it running? (systemctl status quotamarketd)",
        site.socket().display()
    );
    let read = Ran::of(read.wait_with_output().expect("sbid ends"));
    assert_eq!(read, Ran::failed(1, &sentence));
    let unsure = format!(
        "{sentence}; whether it has acted is not known: repeat the same command with --idempotency-key k, \
         which counts once"
    );
    let write = Ran::of(write.wait_with_output().expect("sbid ends"));
    assert_eq!(write, Ran::failed(1, &unsure));
    assert!(started.elapsed() < Duration::from_secs(30), "the deadline is 10 s");
}

#[test]
fn a_daemon_that_hangs_up_is_told_at_once() {
    let (site, listener) = Site::with_frozen_daemon();
    let child = site.command(&["price"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    drop(listener.accept().expect("sbid connects"));
    let ran = Ran::of(child.expect("sbid runs").wait_with_output().expect("sbid ends"));
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.starts_with("sbid: error: quotamarketd does not answer at "), "{}", ran.stderr);
}

#[test]
fn a_reader_that_leaves_early_ends_the_command_quietly() {
    let site = Site::start();
    let mut child = site
        .command(&["jobs", "-A", "huge"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sbid runs");
    // One byte of several MiB, as `| head -c 1` reads it.
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0]).expect("output begins");
    drop(stdout);
    let ran = Ran::of(child.wait_with_output().expect("sbid ends"));
    assert_eq!(ran, Ran::printed(""));
}

#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = Site::start().command(&["price"]).stdout(full).output().expect("sbid runs");
    let ran = Ran::of(output);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.starts_with("sbid: error: cannot write the output: "), "{}", ran.stderr);
}

#[test]
fn a_job_that_enters_the_market_is_told_so() {
    let site = Site::start();
    let expected =
        "Job 77 is in the market now and bids 2 SU per GPU-hour. It is number 1 of 3 in the queue.\n";
    assert_eq!(site.run(&["bid", "77", "2"]), Ran::printed(expected));
    let document = json_of(&site.run(&["bid", "77", "2", "--json"]));
    assert_eq!(document["bids"][0]["old_bid"], Value::Null);
}

#[test]
fn drain_says_what_is_left() {
    let site = Site::start();
    let drains = "\
The market drains since 2026-12-01T09:00:00: new bids are accepted as jobs without a bid.
3 jobs with a bid still wait to be reset.
2 jobs of the market run, until 2026-12-01T10:00:00 at the latest, and are settled at their end.
1 job ended and wait for slurmdbd to take their receipts.
Repeat this command until no waiting job is left.
";
    assert_eq!(site.run(&["admin", "drain"]), Ran::printed(drains));
    let undone = "The market is in service. Jobs that were reset stay without a bid until sbid bid or another submission.\n";
    assert_eq!(site.run(&["admin", "drain", "--undo"]), Ran::printed(undone));
    let document = json_of(&site.run(&["--json", "admin", "drain"]));
    assert_eq!(document["drains"][0]["waiting"], 3);
}

#[test]
fn doctor_shows_findings_and_remedies_and_fails_with_an_error() {
    let site = Site::start();
    let path = site.config().display().to_string();
    let expected = format!(
        "\
Level  Subject           Finding
ok     market.toml       {path} is good.
ok     ledger            sums to 0 SU.
hint   PrivateData       lacks jobs.
error  JobSubmitPlugins  lacks bid.
What helps:
   PrivateData: PrivateData=jobs
   JobSubmitPlugins: JobSubmitPlugins=bid
"
    );
    let stderr = "sbid: error: 1 finding is an error\n".to_owned();
    let ran = site.run(&["admin", "doctor"]);
    assert_eq!(ran, Ran { status: Some(1), stdout: expected, stderr });
    let rows = site.run(&["admin", "doctor", "-nP", "-o", "level,remedy"]);
    assert!(rows.stdout.ends_with("hint|PrivateData=jobs\nerror|JobSubmitPlugins=bid\n"), "{rows:?}");
    let document = json_of(&site.run(&["admin", "doctor", "--json"]));
    assert_eq!(document["findings"][3]["remedy"], "JobSubmitPlugins=bid");
}

/// `sbid admin doctor` beside a slurm.conf with this text.
fn doctor_alone(site: &Site, slurm_conf: &str) -> Vec<Value> {
    let path = site.config().with_file_name("slurm.conf");
    std::fs::write(&path, slurm_conf).expect("writes");
    let output = site.command(&["admin", "doctor", "--json"]).env("SLURM_CONF", &path).output();
    let ran = Ran::of(output.expect("sbid runs"));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    json_of(&ran)["findings"].as_array().expect("findings").clone()
}

fn told<'a>(findings: &'a [Value], subject: &str) -> (&'a str, &'a str, &'a str) {
    let finding = findings.iter().find(|finding| finding["subject"] == subject);
    let finding = finding.unwrap_or_else(|| panic!("no {subject} in {findings:?}"));
    let text = |key: &str| finding[key].as_str().expect("text");
    (text("level"), text("finding"), text("remedy"))
}

#[test]
fn doctor_says_first_why_the_daemon_cannot_be_asked() {
    let site = Site::without_daemon();
    let first = |site: &Site| {
        let findings = doctor_alone(site, "");
        assert_eq!(findings[0]["subject"], "quotamarketd");
        let (level, finding, remedy) = told(&findings, "quotamarketd");
        assert_eq!(level, "error");
        (finding.to_owned(), remedy.to_owned())
    };
    let (finding, remedy) = first(&site);
    assert!(finding.starts_with("does not run: there is no socket "), "{finding}");
    assert!(remedy.starts_with("systemctl enable --now quotamarketd"), "{remedy}");
    // Left behind by a daemon that was killed.
    drop(std::os::unix::net::UnixListener::bind(site.socket()).expect("socket"));
    let (finding, remedy) = first(&site);
    assert!(finding.contains("nobody listens there"), "{finding}");
    assert!(remedy.starts_with("systemctl restart quotamarketd"), "{remedy}");
}

#[test]
fn doctor_reads_the_files_when_the_daemon_is_gone() {
    let site = Site::without_daemon();
    let directory = site.config().parent().expect("directory").to_path_buf();
    std::fs::write(directory.join("job_submit_bid.so"), "").expect("writes");
    std::fs::write(directory.join("market.conf"), "JobSubmitPlugins=bid,lua\n").expect("writes");
    let slurm_conf =
        format!("Include market.conf\nPriorityType=priority/bid\nPluginDir={}\n", directory.display());
    let findings = doctor_alone(&site, &slurm_conf);
    assert_eq!(told(&findings, "market.toml").0, "ok");
    assert_eq!(told(&findings, "JobSubmitPlugins").2, "JobSubmitPlugins=lua,bid");
    assert!(told(&findings, "PluginDir").1.starts_with("priority_bid.so is missing from "), "{findings:?}");
    assert_eq!(told(&findings, "SchedulerParameters").0, "warning");

    std::fs::write(site.config(), "poll_s = 3\nquantums = 5\n").expect("writes");
    let findings = doctor_alone(&site, &slurm_conf);
    let (level, finding, _) = told(&findings, "market.toml");
    assert_eq!(level, "error");
    assert!(finding.contains("market.toml:2: quantums: unknown field"), "{finding}");
}
