//! The report for people: one table, a column for each policy on trial.

use anstyle::Style;
use tollway::{Subject, Timestamp};

use super::replay::{LimitTally, Ranking, Spread, Trial};
use super::summary::{Summary, TOP, length, percent};
use super::table::Table;
use crate::failure::Failure;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG};
use crate::words::{count, counted, moment, moment_in_full, span};

/// A subject is cut where it would push the columns too far to the right.
const SUBJECT_CHARS_MAX: usize = 40;

/// Writes all of it.
pub(super) fn write(summary: &Summary<'_>, output: &Output) -> Result<(), Failure> {
    let seen = &summary.replay.seen;
    let range = seen.range.unwrap_or_default();
    let many = if seen.by_calls.error() > 0 { "more than " } else { "" };
    let skipped = match summary.skipped {
        0 => String::new(),
        lines => format!(", {} skipped", counted(lines, "lines")),
    };
    output.line(format_args!(
        "{STRONG}{}{STRONG:#}: {} of {many}{} in {}{skipped}",
        summary.log,
        counted(seen.calls, "calls"),
        counted(seen.by_calls.subjects() as u64, "subjects"),
        span(length(range)),
    ))?;
    output.line(format_args!("from {} to {}", moment_in_full(range.0), moment_in_full(range.1)))?;
    output.line("")?;
    let mut table = Table::default();
    answers(&mut table, &summary.replay.trials);
    peaks(&mut table, &summary.replay.trials, range.0);
    subjects(&mut table, summary);
    table.write(output)
}

/// What the policies answered.
fn answers(table: &mut Table, trials: &[Trial]) {
    let each = |cell: &dyn Fn(&Trial) -> String| trials.iter().map(cell).collect::<Vec<_>>();
    table.row("", STRONG, each(&|trial| trial.title.clone()));
    let limits = trials.iter().map(|trial| trial.policy.limits().len()).max().unwrap_or(0);
    for index in 0..limits {
        let text =
            |trial: &Trial| trial.policy.limits().get(index).map(ToString::to_string).unwrap_or_default();
        table.row("", FAINT, each(&text));
    }
    let share = |part: u64, trial: &Trial| {
        format!("{} ({})", count(part), percent(part, trial.tally.granted + trial.tally.denied))
    };
    table.row("granted", GOOD, each(&|trial| share(trial.tally.granted, trial)));
    if trials.iter().any(|trial| trial.tally.waits.count() > 0) {
        table.row("  after a wait", Style::new(), each(&|trial| share(trial.tally.waits.count(), trial)));
        spread(table, trials, |trial| &trial.tally.waits);
    }
    table.row("denied", BAD, each(&|trial| share(trial.tally.denied, trial)));
    if trials.iter().any(|trial| trial.tally.never > 0) {
        table.row("  cost above the limit", Style::new(), each(&|trial| count(trial.tally.never)));
    }
    if trials.iter().any(|trial| trial.tally.fits_after.count() > 0) {
        table.row("  would fit after", Style::new(), Vec::new());
        spread(table, trials, |trial| &trial.tally.fits_after);
    }
}

fn spread(table: &mut Table, trials: &[Trial], of: impl Fn(&Trial) -> &Spread) {
    let mut row = |label: &str, cell: &dyn Fn(&Spread) -> String| {
        let cell = |trial: &Trial| if of(trial).count() == 0 { none() } else { cell(of(trial)) };
        table.row(label, Style::new(), trials.iter().map(cell).collect());
    };
    for (label, percent) in [("    half of them", 50), ("    90 %", 90), ("    99 %", 99)] {
        row(label, &|spread| span(spread.percentile(percent)));
    }
    row("    all", &|spread| span(spread.longest()));
}

/// The most that was used of each limit, by whom and when.
fn peaks(table: &mut Table, trials: &[Trial], day: Timestamp) {
    table.gap();
    table.row("most used", STRONG, Vec::new());
    let mut names: Vec<&str> = Vec::new();
    for limit in trials.iter().flat_map(|trial| trial.policy.limits()) {
        if !names.contains(&limit.name().as_str()) {
            names.push(limit.name().as_str());
        }
    }
    for name in names {
        peak(table, trials, name, day);
    }
}

/// What was used of the limits of this name.
fn peak(table: &mut Table, trials: &[Trial], name: &str, day: Timestamp) {
    let found: Vec<Option<LimitTally<'_>>> = trials.iter().map(|trial| trial.of_limit(name)).collect();
    let each = |cell: &dyn Fn(&LimitTally<'_>) -> String| {
        found.iter().map(|found| found.as_ref().map_or_else(none, cell)).collect()
    };
    let when_used = |tally: &LimitTally<'_>, text: String| if tally.peak.used == 0 { none() } else { text };
    let used = |tally: &LimitTally<'_>| {
        let (used, most) = (tally.peak.used, tally.limit.capacity());
        format!("{} of {} ({})", count(used), count(most), percent(used, most))
    };
    table.row(&format!("  {name}"), Style::new(), each(&used));
    table.row("    at", FAINT, each(&|tally| when_used(tally, moment(tally.peak.at, day))));
    if found.iter().flatten().any(|tally| tally.peak.subject != Subject::SHARED) {
        table.row("    by", FAINT, each(&|tally| when_used(tally, shown(&tally.peak.subject))));
    }
    if trials.iter().any(|trial| trial.policy.limits().len() > 1) {
        table.row("    denied by it", FAINT, each(&|tally| count(tally.denied)));
    }
}

fn none() -> String {
    "-".to_owned()
}

/// Who called and who was denied most; of no interest where there is one subject only.
fn subjects(table: &mut Table, summary: &Summary<'_>) {
    let (seen, trials) = (&summary.replay.seen, &summary.replay.trials);
    if seen.by_calls.subjects() < 2 {
        return;
    }
    table.gap();
    table.row(&heading("most calls", &seen.by_calls), STRONG, Vec::new());
    for (subject, calls) in seen.by_calls.top(TOP) {
        table.row(&format!("  {}", shown(subject)), Style::new(), vec![count(calls)]);
    }
    let Some(strictest) = trials.iter().rev().max_by_key(|trial| trial.tally.denied) else { return };
    if strictest.tally.denied == 0 {
        return;
    }
    table.gap();
    table.row(&heading("most denials", &strictest.tally.by_denials), STRONG, Vec::new());
    for (subject, _) in strictest.tally.by_denials.top(TOP) {
        let cells = trials.iter().map(|trial| count(trial.tally.by_denials.count(subject))).collect();
        table.row(&format!("  {}", shown(subject)), Style::new(), cells);
    }
}

fn heading(text: &str, ranking: &Ranking) -> String {
    match ranking.error() {
        0 => text.to_owned(),
        error => format!("{text} (at most {} too high)", count(error)),
    }
}

/// A subject as it can be shown on a terminal, whatever is in it.
fn shown(subject: &Subject) -> String {
    let text: String = subject.as_str().chars().flat_map(char::escape_debug).collect();
    match text.chars().count() {
        0 => "(all share one)".to_owned(),
        1..=SUBJECT_CHARS_MAX => text,
        _ => text.chars().take(SUBJECT_CHARS_MAX - 3).chain("...".chars()).collect(),
    }
}
