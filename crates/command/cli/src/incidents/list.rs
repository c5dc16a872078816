//! The list of incidents, the newest last.

use serde_json::json;
use tollway::core::read_span;
use tollway::incident::Incident;
use tollway::{LimitUsage, Span, Timestamp};

use super::read;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::layout::{COLUMNS, cut, printable};
use crate::output::{FAINT, STRONG};

/// How much of an id is shown; `show` takes any start of one.
pub(super) const ID_SHOWN: usize = 8;

/// Which incidents are listed.
#[derive(Debug, clap::Args)]
pub(crate) struct ListOptions {
    /// Only incidents of this last period, e.g. 1h or 2d
    #[arg(long, value_name = "TIME", value_parser = read_span)]
    since: Option<Span>,
    /// Only incidents of this policy
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// The most incidents to list; the newest are kept
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(super) fn run(arguments: &ListOptions, context: &Context) -> Result<Exit, Failure> {
    let now = context.now();
    let mut incidents = read(context)?;
    incidents.retain(|incident| arguments.fit(incident, now));
    let found = incidents.len();
    let listed = incidents.split_off(found.saturating_sub(usize::try_from(arguments.limit).unwrap_or(found)));
    if context.output().is_json() {
        context.output().json(&json!({ "found": found, "incidents": listed }))?;
    } else if listed.is_empty() {
        context.output().line("no incidents")?;
    } else {
        write(&listed, found, now, context)?;
    }
    Ok(Exit::DONE)
}

impl ListOptions {
    fn fit(&self, incident: &Incident, now: Timestamp) -> bool {
        self.since.is_none_or(|since| now.since(incident.at) <= since)
            && self.policy.as_ref().is_none_or(|policy| incident.policy.as_str() == policy)
    }
}

fn write(incidents: &[Incident], found: usize, now: Timestamp, context: &Context) -> Result<(), Failure> {
    let output = context.output();
    for incident in incidents {
        let (id, when) = (cut_id(&incident.id), humanize::moment(incident.at, now));
        let policy = incident.policy.as_str();
        let whose = match incident.subject.as_str() {
            "" => String::new(),
            subject => format!(" for {}", printable(subject)),
        };
        // The id, the time and the gaps between them have their place on the line first.
        let room = COLUMNS.saturating_sub(id.len() + when.len() + 4);
        let title = cut(&format!("{policy}{whose}"), room);
        let (policy, whose) = title.split_at_checked(policy.len()).unwrap_or((&title, ""));
        output.line(format_args!("{FAINT}{id}{FAINT:#}  {when}  {STRONG}{policy}{STRONG:#}{whose}"))?;
        let said = printable(&incident.said);
        for line in [evidence(incident), said].iter().filter(|line| !line.is_empty()) {
            output.line(format_args!("{:ID_SHOWN$}  {}", "", cut(line, COLUMNS - ID_SHOWN - 2)))?;
        }
    }
    let listed = u64::try_from(incidents.len()).unwrap_or(u64::MAX);
    if found > incidents.len() {
        let all = humanize::count(u64::try_from(found).unwrap_or(u64::MAX));
        output.note(format_args!("{listed} of {all} incidents; --limit shows more"));
    }
    Ok(())
}

/// The fullest meter and the calls in flight.
fn evidence(incident: &Incident) -> String {
    let meter = incident.limits.iter().max_by_key(|limit| per_mille(limit)).map(used);
    let in_flight = format!("{} in flight", humanize::count(incident.in_flight));
    let degraded = incident.degraded.then(|| "granted without the store".to_owned());
    meter.into_iter().chain([in_flight]).chain(degraded).collect::<Vec<_>>().join(", ")
}

/// `3 of 5 requests`.
pub(super) fn used(limit: &LimitUsage) -> String {
    format!("{} of {}", humanize::count(limit.used), humanize::counted(limit.capacity, limit.unit.as_str()))
}

fn per_mille(limit: &LimitUsage) -> u128 {
    u128::from(limit.used) * 1_000 / u128::from(limit.capacity.max(1))
}

fn cut_id(id: &str) -> String {
    printable(id).chars().take(ID_SHOWN).collect()
}
