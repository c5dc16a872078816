//! The report of `policy check` as text: explanations on standard output, warnings on standard error.

use super::report::{ApiReport, PolicyReport, Report};
use crate::failure::Failure;
use crate::humanize;
use crate::output::{FAINT, GOOD, Output, STRONG, WARN};

/// The line width of explanations.
const COLUMNS: usize = 110;

/// Writes the report. With `--quiet` only the summary, and the changes of `--against`.
pub(super) fn write(report: &Report, output: &Output) -> Result<(), Failure> {
    if !output.is_quiet() {
        output.line(format_args!("{STRONG}{}{STRONG:#}: {}", report.file, contents(report)))?;
        output.line(format_args!("store: {}\n", report.store_explained))?;
        report.policies.iter().try_for_each(|policy| write_policy(policy, output))?;
        report.apis.iter().try_for_each(|api| write_api(api, output))?;
    }
    if let Some(changes) = &report.against {
        changes.write(output)?;
    }
    // Both streams may go to the same terminal.
    output.flush()?;
    report.warnings.iter().chain(&report.notes).for_each(|finding| finding.say(output));
    output.line(summary(report))
}

fn contents(report: &Report) -> String {
    let limits = report.policies.iter().map(|policy| policy.limits.len()).sum();
    let mut parts =
        vec![number(report.policies.len(), "policy", "policies"), number(limits, "limit", "limits")];
    if !report.apis.is_empty() {
        parts.push(number(report.apis.len(), "api", "apis"));
    }
    parts.join(", ")
}

fn summary(report: &Report) -> String {
    match report.warnings.len() {
        0 => format!("{GOOD}valid, no warnings{GOOD:#}"),
        warnings => format!("{WARN}valid, with {}{WARN:#}", number(warnings, "warning", "warnings")),
    }
}

fn write_policy(policy: &PolicyReport, output: &Output) -> Result<(), Failure> {
    output.line(format_args!("policy {STRONG}{}{STRONG:#}", policy.name))?;
    write_wrapped(output, "  ", &policy.explained)?;
    for limit in &policy.limits {
        output
            .line(format_args!("  {STRONG}{}{STRONG:#}  {FAINT}{}{FAINT:#}", limit.address, limit.limit))?;
        write_wrapped(output, "    ", &limit.explained)?;
    }
    output.line("")
}

fn write_api(api: &ApiReport, output: &Output) -> Result<(), Failure> {
    output.line(format_args!("api {STRONG}{}{STRONG:#}  {FAINT}{}{FAINT:#}", api.name, api.base_url))?;
    write_wrapped(output, "  ", &api.explained)?;
    output.line("")
}

fn number(number: usize, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{} {word}", humanize::count(number.try_into().unwrap_or(u64::MAX)))
}

/// Writes a sentence, wrapped.
fn write_wrapped(output: &Output, indent: &str, sentence: &str) -> Result<(), Failure> {
    let mut line = String::new();
    for word in sentence.split(' ') {
        if !line.is_empty() && indent.len() + line.chars().count() + 1 + word.chars().count() > COLUMNS {
            output.line(format_args!("{indent}{line}"))?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    output.line(format_args!("{indent}{line}"))
}
