//! The plan as text.

use anstyle::Style;
use tollway::{Span, Timestamp};
use tollway_forecast::plan::Quantity;

use super::disk::Disk;
use super::forecast::{PipelineForecast, PolicyForecast, seconds};
use super::work::{StageWork, Work};
use crate::context::Context;
use crate::failure::Failure;
use crate::humanize::{self, count, counted};
use crate::layout::{COLUMNS, wrap};
use crate::output::{FAINT, Output, STRONG, WARN};
use crate::plan::text::quantity;

/// Where values begin.
const VALUES_AT: usize = 16;

pub(super) fn write(
    work: &Work,
    forecast: &PipelineForecast,
    disk: &Disk,
    context: &Context,
) -> Result<(), Failure> {
    let output = context.output();
    let stages: Vec<&str> = work.stages.iter().map(|stage| stage.config.name.as_str()).collect();
    let items = if work.given {
        counted(work.items, "items")
    } else {
        format!("{} left", counted(work.items, "jobs"))
    };
    output.line(format_args!(
        "{STRONG}{}: {items}{STRONG:#} through {}",
        work.pipeline,
        stages.join(", ")
    ))?;
    output.line("")?;
    for (name, period) in [("items a minute", 60), ("items an hour", 3_600), ("items a day", 86_400)] {
        row(output, name, &number(forecast.rate() * f64::from(period)))?;
    }
    if let Some(slowest) = forecast.bounds.first() {
        styled_row(output, "bottleneck", &slowest.name, WARN)?;
    }
    styled_row(output, "time", &range(forecast.takes), STRONG)?;
    row(output, "done by", &finish(forecast, context.now()))?;
    row(output, "workers", &workers(work, forecast))?;
    row(output, "disk", &disk_text(disk))?;
    let kept = work.stages.iter().map(|stage| humanize::span(stage.retention));
    let mut kept: Vec<String> = kept.collect();
    kept.dedup();
    row(output, "kept for", &kept.join(", "))?;
    let sentences = forecast.policies.iter().filter_map(|policy| without_limit(policy, work));
    for (index, sentence) in sentences.enumerate() {
        if index == 0 {
            output.line("")?;
        }
        for line in wrap(&sentence, COLUMNS) {
            output.line(line)?;
        }
    }
    // What follows is written elsewhere, and comes after it.
    output.flush()?;
    remarks(work, disk, output);
    Ok(())
}

fn row(output: &Output, name: &str, value: &str) -> Result<(), Failure> {
    styled_row(output, name, value, Style::new())
}

fn styled_row(output: &Output, name: &str, value: &str, style: Style) -> Result<(), Failure> {
    for (index, line) in wrap(value, COLUMNS - VALUES_AT).iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        output.line(format_args!("{name:<VALUES_AT$}{style}{line}{style:#}"))?;
    }
    Ok(())
}

fn remarks(work: &Work, disk: &Disk, output: &Output) {
    let retries = (work.retries * 100.0).ceil() as u64;
    let retries = if work.retries_measured {
        format!("{retries}% retries, as so far")
    } else {
        format!("up to {retries}% retries")
    };
    let latency = if work.latency_given { "" } else { ", 10 s a call (give --latency)" };
    output.note(format_args!(
        "{FAINT}assumes: nothing used yet, no other callers, {retries}, one job handed on{latency}{FAINT:#}"
    ));
    if let Some(free) = disk.free.filter(|_| !disk.is_enough()) {
        output.warning(format_args!("only {} are free on that disk", humanize::bytes(free)));
    }
}

/// `34 are enough at 10 s a call: 17 for autotag, 17 for extract`.
fn workers(work: &Work, forecast: &PipelineForecast) -> String {
    let each = work.stages.iter().filter_map(|stage| Some((stage, forecast.workers(stage)?)));
    let each: Vec<(&StageWork, u64)> = each.collect();
    if each.is_empty() {
        return "no stage takes from a limit: as many as `concurrency` says".to_owned();
    }
    let named = each.iter().map(|(stage, jobs)| format!("{} for {}", count(*jobs), stage.config.name));
    let named = named.collect::<Vec<_>>().join(", ");
    let total = count(each.iter().map(|(_, jobs)| jobs).sum());
    let text = format!("{total} are enough at {}: {named}", latencies(each.iter().map(|(stage, _)| *stage)));
    let short = each.iter().filter(|(stage, jobs)| u64::from(stage.concurrency) < *jobs);
    let short: Vec<String> =
        short.map(|(stage, jobs)| format!("{} to {}", stage.config.name, count(*jobs))).collect();
    match short.is_empty() {
        true => text,
        false => format!("{text}; `concurrency` is lower: raise {}", short.join(", ")),
    }
}

/// `10 s a call`, or one for each stage.
fn latencies<'s>(stages: impl Iterator<Item = &'s StageWork>) -> String {
    let mut all: Vec<String> = stages.filter_map(|stage| stage.latency).map(humanize::span).collect();
    all.dedup();
    format!("{} a call", all.join(" and "))
}

fn disk_text(disk: &Disk) -> String {
    let (all, jobs) = (humanize::bytes(disk.bytes()), counted(disk.jobs, "jobs"));
    let each = humanize::bytes(disk.bytes_per_job);
    let (data, how) = (counted(disk.data, "bytes"), if disk.measured { "measured" } else { "assumed" });
    format!("{all}: {jobs} of {each}, {data} of it data ({how})")
}

/// What the workers alone would do. None: no stage takes from the policy.
pub(super) fn without_limit(policy: &PolicyForecast, work: &Work) -> Option<String> {
    let stages: Vec<&StageWork> = work.stages.iter().filter(|stage| stage.takes_from(&policy.name)).collect();
    let calls = calls_without_limit(&stages, work)?;
    let allowed = policy.calls_rate * 60.0;
    let places: Vec<String> = stages.iter().map(|stage| count(stage.concurrency.into())).collect();
    let workers = format!("{} workers at {}", places.join(" + "), latencies(stages.iter().copied()));
    let (calls, allowed) = (number(calls), number(allowed));
    Some(match calls_exceed(&stages, work, policy) {
        true => format!("without the limit, {workers} would make {calls} calls a minute, not {allowed}"),
        false => format!("{workers} make at most {calls} calls a minute; {} allows {allowed}", policy.name),
    })
}

fn calls_exceed(stages: &[&StageWork], work: &Work, policy: &PolicyForecast) -> bool {
    calls_without_limit(stages, work).is_some_and(|calls| calls > policy.calls_rate * 60.0)
}

/// Calls a minute of all workers of these stages, if nothing else holds them up.
pub(super) fn calls_without_limit(stages: &[&StageWork], work: &Work) -> Option<f64> {
    let places: u32 = stages.iter().map(|stage| stage.concurrency).sum();
    let each =
        stages.iter().filter_map(|stage| Some(f64::from(stage.concurrency) * 60.0 / seconds(stage.latency?)));
    let calls: f64 = each.sum();
    let share = work.total_concurrency.map_or(1.0, |total| (f64::from(total) / f64::from(places)).min(1.0));
    (!stages.is_empty()).then_some(calls * share)
}

fn finish(forecast: &PipelineForecast, now: Timestamp) -> String {
    match forecast.takes[1].map(|takes| forecast.start.plus(takes)) {
        Some(at) => humanize::moment(at, now),
        None => "after 2255".to_owned(),
    }
}

/// `6.94 to 7.64 days`.
fn range(takes: [Option<Span>; 2]) -> String {
    let [least, most] = takes.map(duration);
    match least.strip_suffix(" days") {
        _ if least == most => most,
        Some(days) if most.ends_with(" days") => format!("{days} to {most}"),
        _ => format!("{least} to {most}"),
    }
}

/// In days with two decimals, from two days on.
pub(super) fn duration(takes: Option<Span>) -> String {
    match takes {
        None => "more than two centuries".to_owned(),
        Some(span) if span >= Span::from_days(2) => format!("{:.2} days", seconds(span) / 86_400.0),
        Some(span) => humanize::span(span),
    }
}

fn number(value: f64) -> String {
    quantity(Quantity::from_millionths((value * 1e6).round() as u128))
}
