//! A job as text.

use tollway_pipeline::State;
use tollway_pipeline::view::{JobFacts, Reason};

use crate::failure::Failure;
use crate::humanize;
use crate::layout::{COLUMNS, cut, printable, printable_name, wrap};
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, WARN};
use crate::pipeline::job_text::{field, tries, write_attempts};

/// How much of a result is shown.
const RESULT_CHARS_MAX: usize = 400;

pub(super) fn write(facts: &JobFacts, reason: &Reason, output: &Output) -> Result<(), Failure> {
    let job = &facts.job;
    let mut key = wrap(&printable_name(&job.key), COLUMNS - 20).into_iter();
    let first = key.next().unwrap_or_default();
    output.line(format_args!("{STRONG}job {}{STRONG:#}  {first}", job.id))?;
    for more in key {
        output.line(format_args!("  {more}"))?;
    }
    let since = humanize::span(facts.now.since(job.changed_at));
    let style = match job.state {
        State::Dead => BAD,
        State::Done => GOOD,
        State::Delayed | State::Held => WARN,
        _ => STRONG,
    };
    let state = if job.state == State::Dead { "dead letter" } else { job.state.as_str() };
    let at = humanize::moment(job.changed_at, facts.now);
    output.line(format_args!(
        "  {FAINT}{:10}{FAINT:#}{style}{state}{style:#} since {at}, {since} ago",
        "state"
    ))?;
    field(output, "stage", job.stage.as_str())?;
    if let Some(group) = &job.group {
        field(output, "group", &printable_name(group))?;
    }
    if job.priority != 0 {
        field(output, "priority", &job.priority.to_string())?;
    }
    if !job.cost.as_str().is_empty() {
        field(output, "takes", job.cost.as_str())?;
    }
    field(output, "attempts", &tries(job, facts.stage.as_ref()))?;
    for (index, sentence) in reason.why.iter().enumerate() {
        field(output, if index == 0 { "why" } else { "" }, sentence)?;
    }
    if let Some(result) = facts.result.as_ref().and_then(|result| result.result.as_deref()) {
        field(output, "result", &cut(&printable(result), RESULT_CHARS_MAX))?;
    }
    for (index, handed) in facts.outputs.iter().enumerate() {
        let text = format!("job {} in {}, {}", handed.id, handed.stage, handed.state);
        field(output, if index == 0 { "handed on" } else { "" }, &text)?;
    }
    for (index, command) in reason.next.iter().enumerate() {
        field(output, if index == 0 { "next" } else { "" }, command)?;
    }
    if !facts.evidence.is_empty() {
        output.line(format_args!("{STRONG}attempts that did not finish it{STRONG:#}"))?;
        write_attempts(&facts.evidence, false, facts.now, output)?;
    }
    Ok(())
}
