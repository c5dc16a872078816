//! The findings, for people and for programs.

use super::finding::{Finding, Findings, Level};
use crate::failure::Failure;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, WARN};
use crate::words;

pub(super) fn write(findings: &Findings, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(findings);
    }
    if !output.is_quiet() {
        for place in &findings.looked_at {
            output.line(format_args!("{FAINT}looked at {place}{FAINT:#}"))?;
        }
    }
    findings.findings.iter().try_for_each(|finding| write_one(finding, output))?;
    match u64::try_from(findings.problems()).unwrap_or(u64::MAX) {
        0 => output.line(format_args!("{GOOD}nothing found that keeps limits from being enforced{GOOD:#}")),
        1 => output.line(format_args!("{BAD}1 finding{BAD:#}")),
        number => output.line(format_args!("{BAD}{}{BAD:#}", words::counted(number, "findings"))),
    }
}

fn write_one(Finding { level, code, what, why, fix }: &Finding, output: &Output) -> Result<(), Failure> {
    let (style, word) = match level {
        Level::Problem => (BAD, "found"),
        Level::Note => (WARN, "note"),
    };
    output.line(format_args!("{style}{word}:{style:#} {STRONG}{what}{STRONG:#} {FAINT}[{code}]{FAINT:#}"))?;
    output.line(format_args!("  why: {why}"))?;
    output.line(format_args!("  fix: {fix}"))
}
