//! How far a pipeline is, as text: for `status` and `run`.

use anstyle::Style;
use tollway::Timestamp;
use tollway_pipeline::run::progress::{Eta, Moved, Progress, StageProgress};

use super::quota::Quota;
use crate::humanize::{self, count, counted};
use crate::layout::{COLUMNS, INDENT, printable, sentence};
use crate::output::{BAD, FAINT, STRONG, WARN};

/// The columns beside the stage's name.
const HEADINGS: [&str; 7] = ["done", "ready", "running", "retrying", "held", "dead", "a minute"];

/// All lines.
pub(super) fn lines(progress: &Progress, quota: &Quota) -> Vec<String> {
    let mut lines = table(progress);
    lines.extend(progress.stages.iter().filter_map(|stage| stage_remark(stage, progress.at)));
    lines.extend(quota.used.iter().flat_map(|(policy, limits)| quota_lines(policy, limits, progress.at)));
    lines.extend(outlook(progress));
    lines
}

fn table(progress: &Progress) -> Vec<String> {
    let rows: Vec<[String; 8]> = progress.stages.iter().map(cells).collect();
    let heading: [String; 8] = std::array::from_fn(|column| match column {
        0 => "stage".to_owned(),
        _ => HEADINGS[column - 1].to_owned(),
    });
    let width = |column: usize| {
        rows.iter().chain([&heading]).map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    let figures: usize = widths.iter().skip(1).map(|width| width + INDENT.len()).sum();
    // Names that leave no room for the figures get lines of their own.
    let own_line = widths[0] + figures > COLUMNS;
    let row = |cells: &[String; 8]| {
        let mut line =
            if own_line { format!("{}\n", cells[0]) } else { format!("{:<1$}", cells[0], widths[0]) };
        for (cell, width) in cells.iter().zip(widths).skip(1) {
            line.push_str(&format!("  {cell:>width$}"));
        }
        line
    };
    let heading = row(&heading);
    let mut lines: Vec<String> = heading.lines().map(|line| format!("{FAINT}{line}{FAINT:#}")).collect();
    for (stage, cells) in progress.stages.iter().zip(&rows) {
        let line = row(cells);
        let style = if stage.dead > 0 { WARN } else { Style::new() };
        lines.extend(line.lines().map(|line| format!("{style}{line}{style:#}")));
    }
    lines
}

fn cells(stage: &StageProgress) -> [String; 8] {
    let some = |number: u64| if number == 0 { "-".to_owned() } else { count(number) };
    [
        stage.stage.to_string(),
        count(stage.done),
        count(stage.ready),
        some(stage.running),
        some(stage.retrying),
        some(stage.held),
        some(stage.dead),
        stage.per_minute.map_or_else(|| "-".to_owned(), rate),
    ]
}

/// Why ready jobs of a stage are not claimed.
fn stage_remark(stage: &StageProgress, now: Timestamp) -> Option<String> {
    let name = &stage.stage;
    if stage.paused {
        return Some(format!("{BAD}{name} is paused{BAD:#}: tollway pipeline resume {name}"));
    }
    if let Some(outage) = &stage.unreachable {
        let (lasts, why) = (humanize::span(now.since(outage.since)), printable(&outage.error));
        return Some(hanging(&format!("{name} waits for its handler, for {lasts}: {why}"), BAD).join("\n"));
    }
    let until = stage.waiting_until.filter(|_| stage.ready > 0)?;
    let jobs = counted(stage.ready, "jobs");
    let wait = humanize::span(until.since(now));
    Some(format!("{FAINT}{name}: {jobs} wait for quota, for {wait}{FAINT:#}"))
}

fn quota_lines(policy: &str, limits: &[tollway::LimitUsage], now: Timestamp) -> Vec<String> {
    if limits.is_empty() {
        return vec![format!("{WARN}quota of {policy}: the store does not answer{WARN:#}")];
    }
    let used = limits.iter().map(|limit| {
        let unit = counted(limit.capacity, limit.unit.as_str());
        match limit.used {
            0 => format!("0 of {unit}"),
            used => format!("{} of {unit}, until {}", count(used), humanize::moment(limit.resets_at, now)),
        }
    });
    hanging(&format!("quota of {policy}: {}", used.collect::<Vec<_>>().join("; ")), Style::new())
}

/// Rate, what is left, and when it is done.
fn outlook(progress: &Progress) -> Vec<String> {
    if progress.left == 0.0 {
        let dead: u64 = progress.stages.iter().map(|stage| stage.dead).sum();
        let dead =
            if dead == 0 { String::new() } else { format!(", but for {}", counted(dead, "dead letters")) };
        return vec![format!("{STRONG}all jobs are done{dead}{STRONG:#}")];
    }
    let left = counted(progress.left.round() as u64, "attempts");
    let rate =
        progress.per_minute.map_or_else(String::new, |per_minute| format!(", {} a minute", rate(per_minute)));
    let mut lines = vec![format!("{left} left{rate}")];
    match &progress.eta {
        None => lines.push("done: too early to say".to_owned()),
        Some(eta) => lines.extend(eta_lines(eta, progress.at)),
    }
    lines
}

fn eta_lines(eta: &Eta, now: Timestamp) -> Vec<String> {
    let [earliest, latest] = [eta.earliest, eta.latest].map(|at| humanize::span(at.since(now)));
    let span = if earliest == latest { earliest } else { format!("{earliest} to {latest}") };
    let by = humanize::moment(eta.latest, now);
    let mut lines = vec![format!("{STRONG}done in {span}{STRONG:#}, by {by}")];
    lines.extend(eta.moved.iter().flat_map(|moved| hanging(&moved_text(moved, now), FAINT)));
    lines
}

/// `2 h 5 min later than at 13:05:00: 12,000 more attempts (+1 h), 190 a minute, not 200 (+1 h 5 min)`.
fn moved_text(moved: &Moved, now: Timestamp) -> String {
    let direction = if moved.seconds() > 0 { "later" } else { "sooner" };
    let causes = [
        (moved.by_jobs, {
            let attempts = counted(moved.added.abs().round() as u64, "attempts");
            if moved.added > 0.0 { format!("{attempts} more") } else { format!("{attempts} fewer") }
        }),
        (moved.by_rate, format!("{} a minute, not {}", rate(moved.rate), rate(moved.rate_then))),
        (moved.by_stops, if moved.by_stops > 0 { "stops" } else { "fewer stops" }.to_owned()),
    ];
    let told = causes.iter().filter(|(seconds, _)| seconds.unsigned_abs() >= 60).map(|(seconds, what)| {
        let sign = if *seconds > 0 { "+" } else { "-" };
        format!("{what} ({sign}{})", seconds_text(*seconds))
    });
    let total = seconds_text(moved.seconds());
    let since = humanize::moment(moved.since, now);
    format!("{total} {direction} than it looked at {since}: {}", told.collect::<Vec<_>>().join(", "))
}

/// A sentence as lines; those after the first are indented.
fn hanging(text: &str, style: Style) -> Vec<String> {
    let lines = sentence(text, COLUMNS - INDENT.len()).into_iter().enumerate();
    let indent = |index| if index == 0 { "" } else { INDENT };
    lines.map(|(index, line)| format!("{}{style}{line}{style:#}", indent(index))).collect()
}

fn seconds_text(seconds: i64) -> String {
    humanize::span(tollway::Span::from_secs(seconds.unsigned_abs()))
}

/// `98`, or `0.4`.
pub(super) fn rate(per_minute: f64) -> String {
    if per_minute >= 10.0 || per_minute == 0.0 {
        count(per_minute.round() as u64)
    } else {
        format!("{per_minute:.1}")
    }
}
