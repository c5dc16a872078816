//! The report of `policy check` as text: explanations on standard output, warnings on standard error.

use anstyle::Style;

use super::report::{ApiReport, CheckReport, DescriptorReport, PolicyReport};
use crate::failure::Failure;
use crate::humanize;
use crate::layout::{COLUMNS, INDENT};
use crate::output::{FAINT, GOOD, Output, STRONG, WARN};

/// Writes the report. With `--quiet` only the summary, and the changes of `--against`.
pub(super) fn write(report: &CheckReport, output: &Output) -> Result<(), Failure> {
    if !output.is_quiet() {
        output.line(format_args!("{STRONG}{}{STRONG:#}: {}", report.file, contents(report)))?;
        output.line(format_args!("store: {}\n", report.store_explained))?;
        report.policies.iter().try_for_each(|policy| write_policy(policy, output))?;
        report.apis.iter().try_for_each(|api| write_api(api, output))?;
        write_descriptors(&report.descriptors, output)?;
    }
    if let Some(changes) = &report.against {
        changes.write(output)?;
    }
    // Both streams may go to the same terminal.
    output.flush()?;
    report.warnings.iter().chain(&report.notes).for_each(|finding| finding.say(output));
    output.line(summary(report))
}

fn contents(report: &CheckReport) -> String {
    let limits = report.policies.iter().map(|policy| policy.limits.len()).sum();
    let mut parts =
        vec![number(report.policies.len(), "policy", "policies"), number(limits, "limit", "limits")];
    if !report.apis.is_empty() {
        parts.push(number(report.apis.len(), "api", "apis"));
    }
    let included = match report.includes.len() {
        0 => String::new(),
        files => format!(" in it and {}", number(files, "included file", "included files")),
    };
    parts.join(", ") + &included
}

fn summary(report: &CheckReport) -> String {
    match report.warnings.len() {
        0 => format!("{GOOD}valid, no warnings{GOOD:#}"),
        warnings => format!("{WARN}valid, with {}{WARN:#}", number(warnings, "warning", "warnings")),
    }
}

fn write_policy(policy: &PolicyReport, output: &Output) -> Result<(), Failure> {
    output.line(format_args!("policy {STRONG}{}{STRONG:#}", policy.name))?;
    output.sentence("  ", Style::new(), &policy.explained)?;
    for limit in &policy.limits {
        let (address, text) = (&limit.address, &limit.limit);
        if address.len() + text.len() + 2 * INDENT.len() <= COLUMNS {
            output.line(format_args!("  {STRONG}{address}{STRONG:#}  {FAINT}{text}{FAINT:#}"))?;
        } else {
            output.line(format_args!("  {STRONG}{address}{STRONG:#}"))?;
            output.sentence("    ", FAINT, text)?;
        }
        output.sentence("    ", Style::new(), &limit.explained)?;
    }
    output.line("")
}

fn write_api(api: &ApiReport, output: &Output) -> Result<(), Failure> {
    output.line(format_args!("api {STRONG}{}{STRONG:#}  {FAINT}{}{FAINT:#}", api.name, api.base_url))?;
    output.sentence("  ", Style::new(), &api.explained)?;
    output.line("")
}

fn write_descriptors(rules: &[DescriptorReport], output: &Output) -> Result<(), Failure> {
    if rules.is_empty() {
        return Ok(());
    }
    let heading = "descriptors of Envoy: the most specific rule wins, entry by entry; without a rule, a request is not limited";
    output.sentence("", Style::new(), heading)?;
    for rule in rules {
        output.sentence("  ", Style::new(), &rule.rule)?;
        output.sentence("    ", Style::new(), &rule.explained)?;
    }
    output.line("")
}

fn number(number: usize, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{} {word}", humanize::count(number.try_into().unwrap_or(u64::MAX)))
}
