//! The answer of `policy check` for people: the explanation on standard output, what to look at on standard error.

use super::answer::{Answer, ApiAnswer, PolicyAnswer};
use crate::failure::Failure;
use crate::output::{FAINT, GOOD, Output, STRONG, WARN};
use crate::words;

/// Where lines of sentences end.
const COLUMNS: usize = 110;

/// Writes the answer. Who wants quiet gets the verdict, and the changes if asked for.
pub(super) fn write(answer: &Answer, output: &Output) -> Result<(), Failure> {
    if !output.is_quiet() {
        output.line(format_args!("{STRONG}{}{STRONG:#}: {}", answer.file, contents(answer)))?;
        output.line(format_args!("store: {}\n", answer.store_explained))?;
        answer.policies.iter().try_for_each(|policy| write_policy(policy, output))?;
        answer.apis.iter().try_for_each(|api| write_api(api, output))?;
    }
    if let Some(changes) = &answer.against {
        changes.write(output)?;
    }
    // Both streams may go to one terminal.
    output.flush()?;
    answer.warnings.iter().chain(&answer.notes).for_each(|finding| finding.say(output));
    output.line(verdict(answer))
}

fn contents(answer: &Answer) -> String {
    let limits = answer.policies.iter().map(|policy| policy.limits.len()).sum();
    let mut parts =
        vec![number(answer.policies.len(), "policy", "policies"), number(limits, "limit", "limits")];
    if !answer.apis.is_empty() {
        let apis = number(answer.apis.len(), "api", "apis");
        parts.push(format!("{apis} (apis are checked and not used by this version yet)"));
    }
    parts.join(", ")
}

fn verdict(answer: &Answer) -> String {
    match answer.warnings.len() {
        0 => format!("{GOOD}good: no warnings{GOOD:#}"),
        warnings => format!("{WARN}right, with {}{WARN:#}", number(warnings, "warning", "warnings")),
    }
}

fn write_policy(policy: &PolicyAnswer, output: &Output) -> Result<(), Failure> {
    output.line(format_args!("policy {STRONG}{}{STRONG:#}", policy.name))?;
    write_wrapped(output, "  ", &policy.explained)?;
    for limit in &policy.limits {
        output
            .line(format_args!("  {STRONG}{}{STRONG:#}  {FAINT}{}{FAINT:#}", limit.address, limit.limit))?;
        write_wrapped(output, "    ", &limit.explained)?;
    }
    output.line("")
}

fn write_api(api: &ApiAnswer, output: &Output) -> Result<(), Failure> {
    output.line(format_args!("api {STRONG}{}{STRONG:#}  {FAINT}{}{FAINT:#}", api.name, api.base_url))?;
    write_wrapped(output, "  ", &api.explained)?;
    output.line("")
}

fn number(number: usize, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{} {word}", words::count(number.try_into().unwrap_or(u64::MAX)))
}

/// A sentence over as many lines as it needs.
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
