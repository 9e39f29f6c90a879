//! `sbid admin doctor`

mod files;

use std::path::Path;

use market_api::config::{self, Config};
use market_api::v1::{Finding, Level};

use crate::client::{CallError, Market};
use crate::failure::Failure;
use crate::field::{Cell, Field};
use crate::output::{Outcome, OutputArgs, Report};

pub(crate) const NAME: &str = "admin doctor";

pub(crate) const FIELDS: &[Field<Finding>] = &[
    Field::text("Level", "level", |finding| Cell::Text(level(finding).into())),
    Field::text("Subject", "subject", |finding| Cell::Text(finding.subject.clone())),
    Field::text("Finding", "finding", |finding| Cell::Text(finding.sentence.clone())),
    Field::text("Remedy", "remedy", |finding: &Finding| Cell::Text(finding.remedy.clone())).on_request(),
];

fn level(finding: &Finding) -> &'static str {
    match finding.level() {
        Level::Unspecified => "",
        Level::Ok => "ok",
        Level::Hint => "hint",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}

pub(crate) fn run(market: &Market, output: &OutputArgs, config: Option<&Path>) -> Result<Outcome, Failure> {
    let layout = output.layout(FIELDS)?;
    let path = config.map_or_else(|| config::path(None), Path::to_path_buf);
    let (file, config) = files::market(&path);
    // A file that cannot be understood does not tell where the daemon listens either.
    let Some(config) = config else {
        let findings = [vec![file], files::slurm_conf(&Config::default())].concat();
        return Ok(layout.lay_out(report(0, findings)));
    };
    let (as_of_s, findings) = match market.doctor() {
        Ok(reply) => (reply.as_of_s, [vec![file], reply.findings].concat()),
        Err(error @ (CallError::NoAnswer { .. } | CallError::Socket { .. })) => {
            let daemon = files::daemon(market.socket(), &error);
            (0, [vec![daemon, file], files::slurm_conf(&config)].concat())
        }
        Err(error) => return Err(error.into()),
    };
    Ok(layout.lay_out(report(as_of_s, findings)))
}

fn report(as_of_s: i64, findings: Vec<Finding>) -> Report<Finding> {
    let errors = findings.iter().filter(|finding| finding.level() == Level::Error).count();
    let mut report = Report::new(NAME, "findings", as_of_s, findings);
    let to_do = report.rows.iter().filter(|finding| finding.level() != Level::Ok);
    let remedies: Vec<String> =
        to_do.map(|finding| format!("   {}: {}", finding.subject, finding.remedy)).collect();
    if !remedies.is_empty() {
        report.after.push("What helps:".into());
        report.after.extend(remedies);
    }
    if errors > 0 {
        let noun = if errors == 1 { "finding is an error" } else { "findings are errors" };
        report.errors.push(format!("{errors} {noun}"));
    }
    report
}
