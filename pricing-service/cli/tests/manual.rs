//! The manual names every command, option and field that `sbid` has.

use std::path::Path;
use std::process::Command;

const TABLES: [&str; 5] = ["price", "balance", "jobs", "ledger", "admin doctor"];
const SENTENCES: [&str; 6] = ["explain", "deposit", "bid", "admin drain", "admin evict", "admin setup"];

fn output_of(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sbid")).args(arguments).output().expect("sbid runs");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The manual without the escapes of its source.
fn manual() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/man/sbid.1");
    let source = std::fs::read_to_string(path).expect("sbid.1");
    let without_fonts = ["\\fB", "\\fI", "\\fR"].iter().fold(source, |text, font| text.replace(font, ""));
    without_fonts.replace("\\-", "-")
}

/// From a heading to the next of its kind.
fn section<'a>(manual: &'a str, heading: &str) -> &'a str {
    let (_, rest) = manual.split_once(heading).unwrap_or_else(|| panic!("no {heading:?} in the manual"));
    rest.split("\n.S").next().unwrap_or(rest)
}

#[test]
fn every_command_and_option_is_in_the_manual() {
    let manual = manual();
    for command in TABLES.iter().chain(&SENTENCES) {
        assert!(section(&manual, ".SH COMMANDS").contains(command), "{command}");
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = output_of(&words);
        let options = help.split_whitespace().filter(|word| word.starts_with("--"));
        for option in options.map(|option| option.trim_end_matches(',')) {
            assert!(
                manual.contains(&format!("{option}\n")) || manual.contains(&format!("{option}=")),
                "{option}"
            );
        }
    }
    let commands = output_of(&["--help"]);
    let listed =
        |help: &str| section(help, "Commands:\n").lines().take_while(|line| !line.is_empty()).count() - 1;
    // Each lists help, too. Admin is one of the commands, and has some of its own.
    let listed = listed(&commands) - 1 + listed(&output_of(&["admin", "--help"]));
    assert_eq!(listed, TABLES.len() + SENTENCES.len(), "none is missing above");
}

#[test]
fn every_field_is_in_the_manual() {
    let manual = manual();
    for table in TABLES {
        let fields = section(&manual, &format!("\n.SS {table}\n")).to_owned();
        let words: Vec<&str> = table.split(' ').chain(["--helpformat"]).collect();
        for field in output_of(&words).split_whitespace() {
            let is_named = [format!(".B {field}\n"), format!(".BR {field} *\n")];
            assert!(is_named.iter().any(|tag| fields.contains(tag)), "{table}: {field}");
        }
    }
}
