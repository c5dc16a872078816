//! One job as text.

use tollway_pipeline::{Evidence, Job, StageConfig};

use crate::failure::Failure;
use crate::humanize::{self, counted};
use crate::layout::{COLUMNS, printable, printable_lines, printable_name, wrap};
use crate::output::{FAINT, Output};

/// Where values begin.
const VALUES_AT: usize = 10;

/// A line with a name and a value, which may continue on further lines.
pub(super) fn field(output: &Output, name: &str, value: &str) -> Result<(), Failure> {
    for (number, line) in wrap(value, COLUMNS - VALUES_AT - 2).iter().enumerate() {
        let name = if number == 0 { name } else { "" };
        output.line(format_args!("  {FAINT}{name:VALUES_AT$}{FAINT:#}{line}"))?;
    }
    Ok(())
}

/// What was tried, out of what is allowed: `2 of 3 failed, 1 of 3 crashed`.
pub(super) fn tries(job: &Job, stage: Option<&StageConfig>) -> String {
    let of = |n: u32, most: Option<u32>, what: &str| match (n, most) {
        (0, _) => None,
        (n, Some(most)) => Some(format!("{n} of {most} {what}")),
        (n, None) => Some(format!("{n} {what}")),
    };
    let parts = [
        of(job.failures, stage.map(|stage| stage.tries), "failed"),
        of(job.crashes, stage.map(|stage| stage.crashes), "crashed"),
        of(job.rate_limited, None, "refused for the rate"),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none has failed".to_owned() } else { text }
}

/// Every attempt that is kept; with its details if wanted.
pub(super) fn write_attempts(
    evidence: &[Evidence],
    details: bool,
    now: tollway::Timestamp,
    output: &Output,
) -> Result<(), Failure> {
    for one in evidence {
        let (at, took) = (humanize::moment(one.started_at, now), one.ended_at.since(one.started_at));
        let (cause, took) = (one.attempt.cause().as_str().replace('_', "-"), humanize::span(took));
        let worker = printable_name(&one.worker);
        output
            .line(format_args!("  {}  {at}  {cause} after {took}, {FAINT}{worker}{FAINT:#}", one.number))?;
        for line in wrap(&printable(one.attempt.error()), COLUMNS - 5) {
            output.line(format_args!("     {line}"))?;
        }
        if details {
            for line in printable_lines(one.attempt.details()) {
                output.line(format_args!("     {FAINT}| {line}{FAINT:#}"))?;
            }
        }
    }
    if evidence.len() >= tollway_pipeline::bounds::EVIDENCE_MAX {
        let kept = counted(evidence.len() as u64, "attempts");
        output.line(format_args!("  {FAINT}the newest {kept} are kept{FAINT:#}"))?;
    }
    Ok(())
}
