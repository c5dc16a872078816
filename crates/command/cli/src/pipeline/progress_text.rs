//! How far a pipeline is, as text: for `status` and `run`.

use anstyle::Style;
use tollway::Timestamp;
use tollway_pipeline::StageCounts;
use tollway_pipeline::run::LastError;
use tollway_pipeline::run::progress::{Eta, Moved, Progress, StageProgress};
use tollway_pipeline::view::{LiveView, PipelineView, PolicyQuota};

use super::progress_table::{Row, table};
use super::stage_names::{move_command, remark};
use crate::humanize::{self, count, counted};
use crate::layout::{INDENT, cut, printable, sentence};
use crate::output::{BAD, FAINT, STRONG, WARN};

/// All lines.
pub(super) fn lines(view: &PipelineView, width: usize) -> Vec<String> {
    let (Progress { at, stages, unlisted, .. }, live) = (&view.progress, view.live.as_ref());
    let calls = |stage| live.and_then(|live| live.runner.calls.get(stage).copied());
    let rows: Vec<Row<'_>> = stages.iter().map(|stage| Row { stage, calls: calls(&stage.stage) }).collect();
    let mut lines = table(&rows, width);
    lines.extend(stages.iter().filter_map(|stage| stage_remark(stage, width, *at)));
    lines.extend(stages.iter().filter_map(|stage| retry_remark(stage, live?, *at)));
    lines.extend(unlisted.iter().flat_map(|counts| unlisted_lines(counts, width)));
    let last_error = live.and_then(|live| live.runner.last_error.as_ref());
    lines.extend(last_error.map(|last| error_line(last, width, *at)));
    lines.extend(view.quota.iter().flat_map(|policy| quota_lines(policy, width, *at)));
    lines.extend(outlook(&view.progress, width));
    lines
}

/// When jobs that failed are tried again.
fn retry_remark(stage: &StageProgress, live: &LiveView, now: Timestamp) -> Option<String> {
    let next = live.next_due.get(&stage.stage).filter(|_| stage.retrying > 0)?;
    let (name, jobs, wait) = (&stage.stage, counted(stage.retrying, "jobs"), humanize::span(next.since(now)));
    Some(format!("{FAINT}{name}: {jobs} to be tried again, the next in {wait}{FAINT:#}"))
}

/// Jobs that no worker claims, because the config lacks their stage.
fn unlisted_lines(counts: &StageCounts, width: usize) -> Vec<String> {
    let mut lines = hanging(&remark(counts), BAD, width);
    // On a line of its own, so that it can be copied.
    lines.push(format!("{INDENT}{}", move_command(&counts.stage)));
    lines
}

fn error_line(last: &LastError, width: usize, now: Timestamp) -> String {
    let at = humanize::moment(last.at, now);
    let text = format!("last error: {} at {at}: {}", last.stage, printable(&last.error));
    format!("{WARN}{}{WARN:#}", cut(&text, width))
}

/// Why ready jobs of a stage are not claimed.
fn stage_remark(stage: &StageProgress, width: usize, now: Timestamp) -> Option<String> {
    let name = &stage.stage;
    if stage.paused {
        return Some(format!("{BAD}{name} is paused{BAD:#}: tollway pipeline resume {name}"));
    }
    if let Some(outage) = &stage.unreachable {
        let (lasts, why) = (humanize::span(now.since(outage.since)), printable(&outage.error));
        return Some(
            hanging(&format!("{name} waits for its handler, for {lasts}: {why}"), BAD, width).join("\n"),
        );
    }
    let until = stage.waiting_until.filter(|_| stage.ready > 0)?;
    let jobs = counted(stage.ready, "jobs");
    let wait = humanize::span(until.since(now));
    Some(format!("{FAINT}{name}: {jobs} wait for quota, for {wait}{FAINT:#}"))
}

fn quota_lines(policy: &PolicyQuota, width: usize, now: Timestamp) -> Vec<String> {
    let name = &policy.name;
    if policy.limits.is_empty() {
        return vec![format!("{WARN}quota of {name}: the store does not answer{WARN:#}")];
    }
    let used = policy.limits.iter().map(|limit| {
        let usage = &limit.usage;
        let used = format!("{} of {}", count(usage.used), counted(usage.capacity, usage.unit.as_str()));
        match (limit.closed_until, usage.used) {
            (Some(until), _) => {
                let [next, of] = [until, limit.booked_window()].map(|at| humanize::moment(at, now));
                format!("this window is used up, next call at {next}, then booked ahead: {used} of {of}")
            }
            (None, 0) => used,
            (None, _) => format!("{used}, until {}", humanize::moment(usage.resets_at, now)),
        }
    });
    hanging(&format!("quota of {name}: {}", used.collect::<Vec<_>>().join("; ")), Style::new(), width)
}

/// Rate, what is left, and when it is done.
fn outlook(progress: &Progress, width: usize) -> Vec<String> {
    let dead: u64 = progress.stages.iter().map(|stage| stage.dead).sum();
    let but_dead =
        if dead == 0 { String::new() } else { format!(", but for {}", counted(dead, "dead letters")) };
    if progress.left == 0.0 {
        return vec![match progress.unlisted.is_empty() {
            true => format!("{STRONG}all jobs are done{but_dead}{STRONG:#}"),
            false => format!("{STRONG}no job is left in the stages of the config{but_dead}{STRONG:#}"),
        }];
    }
    let left = counted(progress.left.round() as u64, "attempts");
    let rate =
        progress.per_minute.map_or_else(String::new, |per_minute| format!(", {} a minute", rate(per_minute)));
    let mut lines = vec![format!("{left} left{rate}")];
    match (&progress.stands, &progress.eta) {
        (Some(stands), _) => lines.extend(hanging(&stands.to_string(), STRONG, width)),
        (None, None) => lines.push("done: too early to say".to_owned()),
        (None, Some(eta)) => lines.extend(eta_lines(eta, width, progress.at)),
    }
    lines
}

fn eta_lines(eta: &Eta, width: usize, now: Timestamp) -> Vec<String> {
    let [earliest, latest] = [eta.earliest, eta.latest].map(|at| humanize::span(at.since(now)));
    let span = if earliest == latest { earliest } else { format!("{earliest} to {latest}") };
    let by = humanize::moment(eta.latest, now);
    let mut lines = vec![format!("{STRONG}done in {span}{STRONG:#}, by {by}")];
    lines.extend(eta.moved.iter().flat_map(|moved| hanging(&moved_text(moved, now), FAINT, width)));
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
fn hanging(text: &str, style: Style, width: usize) -> Vec<String> {
    let lines = sentence(text, width.saturating_sub(INDENT.len())).into_iter().enumerate();
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
