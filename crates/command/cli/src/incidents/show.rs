//! `tollway incidents show`: one incident in full.

use tollway::Timestamp;
use tollway::incident::{Acquisition, Incident};

use super::list::used;
use super::read;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::layout::{COLUMNS, cut, printable, wrap};
use crate::output::{FAINT, Output, STRONG};

/// Where values begin.
const VALUES_AT: usize = 13;

/// Show one incident in full: the meters, the calls in flight, the last takes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway incidents show 1f3c
  tollway incidents show 1f3c --json | jq .limits")]
pub(crate) struct Arguments {
    /// The id, or the start of it; `tollway incidents` lists them
    id: String,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let incidents = read(context)?;
    let incident = find(&incidents, &arguments.id)?;
    if context.output().is_json() {
        context.output().json(incident)?;
    } else {
        write(incident, context)?;
    }
    Ok(Exit::DONE)
}

fn find<'a>(incidents: &'a [Incident], id: &str) -> Result<&'a Incident, Failure> {
    let mut found = incidents.iter().filter(|incident| !id.is_empty() && incident.id.starts_with(id));
    match (found.next(), found.next()) {
        (Some(incident), None) => Ok(incident),
        (Some(_), Some(_)) => Err(Failure::usage(format!("several incidents begin with {id:?}"))
            .advise("give more of the id; `tollway incidents --json` has all of it")),
        (None, _) => Err(Failure::not_found(format!("there is no incident {id:?}"))
            .advise("`tollway incidents` lists them; the oldest are dropped")),
    }
}

fn write(incident: &Incident, context: &Context) -> Result<(), Failure> {
    let (output, now) = (context.output(), context.now());
    output.line(format_args!("{STRONG}incident {}{STRONG:#}", printable(&incident.id)))?;
    let ago = humanize::span(now.since(incident.at));
    field(output, "time", &format!("{}, {ago} ago", humanize::moment_in_full(incident.at)))?;
    field(output, "policy", incident.policy.as_str())?;
    field(output, "subject", if_any(&printable(incident.subject.as_str())))?;
    field(output, "vendor said", if_any(&printable(&incident.said)))?;
    let in_flight = humanize::counted(incident.in_flight, "calls");
    field(output, "in flight", &format!("{in_flight} of the process {}", incident.process))?;
    field(
        output,
        "granted",
        if incident.degraded { "without the store: it was unavailable" } else { "by the store" },
    )?;
    write_meters(incident, output)?;
    write_takes(&incident.recent, incident.at, output)
}

fn write_meters(incident: &Incident, output: &Output) -> Result<(), Failure> {
    output.line("")?;
    if incident.limits.is_empty() {
        return output.line(format_args!("{FAINT}no meters: the store did not answer{FAINT:#}"));
    }
    output.line(format_args!("{STRONG}meters right after{STRONG:#}"))?;
    let width = incident.limits.iter().map(|limit| limit.name.as_str().len()).max().unwrap_or(0);
    for limit in &incident.limits {
        let line = format!("  {:width$}  {}", limit.name.as_str(), used(limit));
        output.line(cut(&line, COLUMNS))?;
    }
    Ok(())
}

/// The oldest first; when each was due, before the refusal.
fn write_takes(takes: &[Acquisition], refused_at: Timestamp, output: &Output) -> Result<(), Failure> {
    output.line("")?;
    if takes.is_empty() {
        return output.line(format_args!("{FAINT}no takes: they are kept for policies of apis{FAINT:#}"));
    }
    output.line(format_args!("{STRONG}last takes of the process, the newest last{STRONG:#}"))?;
    for take in takes {
        let before = humanize::span(refused_at.since(take.due_at));
        let cost = take.cost.iter().map(|(unit, amount)| humanize::counted(*amount, unit.as_str()));
        let cost = cost.collect::<Vec<_>>().join(", ");
        let line = format!("  {before:>10} before  {cost}  {}", printable(take.subject.as_str()));
        output.line(cut(line.trim_end(), COLUMNS))?;
    }
    Ok(())
}

fn field(output: &Output, name: &str, value: &str) -> Result<(), Failure> {
    for (number, line) in wrap(value, COLUMNS - VALUES_AT - 2).iter().enumerate() {
        let name = if number == 0 { name } else { "" };
        output.line(format_args!("  {FAINT}{name:VALUES_AT$}{FAINT:#}{line}"))?;
    }
    Ok(())
}

fn if_any(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}
