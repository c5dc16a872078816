//! The summary as text: a table with one column per policy.

use anstyle::Style;
use tollway::{Subject, Timestamp};
use tollway_forecast::simulate::{LimitCounts, Ranking, Spread, Trial};

use super::simulation::SimulationReport;
use crate::failure::Failure;
use crate::humanize::{count, counted, moment, moment_in_full, span};
use crate::layout::{COLUMNS, column_groups, cut};
use crate::output::{BAD, FAINT, GOOD, Output, STRONG};

/// Before each column.
const GAP: &str = "    ";

/// How many subjects are listed.
pub(super) const TOP: usize = 5;

/// Longer subjects are truncated to keep the table within the terminal.
const SUBJECT_CHARS_MAX: usize = 30;

/// Writes the whole summary.
pub(super) fn write(report: &SimulationReport<'_>, output: &Output) -> Result<(), Failure> {
    let (summary, traffic) = (report.summary, &report.summary.traffic);
    let range = traffic.range.unwrap_or_default();
    let many = if traffic.by_calls.error() > 0 { "more than " } else { "" };
    let skipped = match summary.skipped {
        0 => String::new(),
        lines => format!(", {} skipped", counted(lines, "lines")),
    };
    output.line(format_args!(
        "{STRONG}{}{STRONG:#}: {} of {many}{} in {}{skipped}",
        report.log,
        counted(traffic.calls, "calls"),
        counted(traffic.by_calls.subjects() as u64, "subjects"),
        span(range.1.since(range.0)),
    ))?;
    output.line(format_args!("from {} to {}", moment_in_full(range.0), moment_in_full(range.1)))?;
    output.line("")?;
    let mut table = Table::default();
    decisions(&mut table, &summary.trials);
    peaks(&mut table, &summary.trials, range.0);
    subjects(&mut table, report);
    table.write(output)
}

/// Granted and denied calls.
fn decisions(table: &mut Table, trials: &[Trial]) {
    let each = |cell: &dyn Fn(&Trial) -> String| trials.iter().map(cell).collect::<Vec<_>>();
    table.row("", STRONG, each(&|trial| trial.title.clone()));
    let limits = trials.iter().map(|trial| trial.policy.limits().len()).max().unwrap_or(0);
    for index in 0..limits {
        let text =
            |trial: &Trial| trial.policy.limits().get(index).map(ToString::to_string).unwrap_or_default();
        table.row("", FAINT, each(&text));
    }
    let share = |part: u64, trial: &Trial| {
        format!("{} ({})", count(part), percent(part, trial.counts.granted + trial.counts.denied))
    };
    table.row("granted", GOOD, each(&|trial| share(trial.counts.granted, trial)));
    if trials.iter().any(|trial| trial.counts.waits.count() > 0) {
        table.row("  after a wait", Style::new(), each(&|trial| share(trial.counts.waits.count(), trial)));
        spread(table, trials, |trial| &trial.counts.waits);
    }
    table.row("denied", BAD, each(&|trial| share(trial.counts.denied, trial)));
    if trials.iter().any(|trial| trial.counts.never > 0) {
        table.row("  cost above the limit", Style::new(), each(&|trial| count(trial.counts.never)));
    }
    if trials.iter().any(|trial| trial.counts.fits_after.count() > 0) {
        table.row("  would fit after", Style::new(), Vec::new());
        spread(table, trials, |trial| &trial.counts.fits_after);
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

/// The highest usage of each limit, with its subject and its time.
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

/// The highest usage of the limits of this name.
fn peak(table: &mut Table, trials: &[Trial], name: &str, day: Timestamp) {
    let found: Vec<Option<LimitCounts<'_>>> = trials.iter().map(|trial| trial.of_limit(name)).collect();
    let each = |cell: &dyn Fn(&LimitCounts<'_>) -> String| {
        found.iter().map(|found| found.as_ref().map_or_else(none, cell)).collect()
    };
    let when_used =
        |counts: &LimitCounts<'_>, text: String| if counts.peak.used == 0 { none() } else { text };
    let used = |counts: &LimitCounts<'_>| {
        let (used, most) = (counts.peak.used, counts.limit.capacity());
        format!("{} of {} ({})", count(used), count(most), percent(used, most))
    };
    table.row(&format!("  {name}"), Style::new(), each(&used));
    table.row("    at", FAINT, each(&|counts| when_used(counts, moment(counts.peak.at, day))));
    if found.iter().flatten().any(|counts| counts.peak.subject != Subject::SHARED) {
        table.row("    by", FAINT, each(&|counts| when_used(counts, subject_name(&counts.peak.subject))));
    }
    if trials.iter().any(|trial| trial.policy.limits().len() > 1) {
        table.row("    denied by it", FAINT, each(&|counts| count(counts.denied)));
    }
}

fn none() -> String {
    "-".to_owned()
}

/// The subjects with most calls and most denials; only if there are several.
fn subjects(table: &mut Table, report: &SimulationReport<'_>) {
    let (traffic, trials) = (&report.summary.traffic, &report.summary.trials);
    if traffic.by_calls.subjects() < 2 {
        return;
    }
    table.gap();
    table.row(&heading("most calls", &traffic.by_calls), STRONG, Vec::new());
    for (subject, calls) in traffic.by_calls.top(TOP) {
        table.row(&format!("  {}", subject_name(subject)), Style::new(), vec![count(calls)]);
    }
    let Some(strictest) = trials.iter().rev().max_by_key(|trial| trial.counts.denied) else { return };
    if strictest.counts.denied == 0 {
        return;
    }
    table.gap();
    table.row(&heading("most denials", &strictest.counts.by_denials), STRONG, Vec::new());
    for (subject, _) in strictest.counts.by_denials.top(TOP) {
        let cells = trials.iter().map(|trial| count(trial.counts.by_denials.count(subject))).collect();
        table.row(&format!("  {}", subject_name(subject)), Style::new(), cells);
    }
}

fn heading(text: &str, ranking: &Ranking) -> String {
    match ranking.error() {
        0 => text.to_owned(),
        error => format!("{text} (at most {} too high)", count(error)),
    }
}

/// A subject, escaped for a terminal.
fn subject_name(subject: &Subject) -> String {
    let text: String = subject.as_str().chars().flat_map(char::escape_debug).collect();
    match text.chars().count() {
        0 => "(all share one)".to_owned(),
        1..=SUBJECT_CHARS_MAX => text,
        _ => text.chars().take(SUBJECT_CHARS_MAX - 3).chain("...".chars()).collect(),
    }
}

/// A share in percent: `75.0 %`. Never rounded to 0 or 100.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let tenths =
        if whole == 0 { 0 } else { (u128::from(part) * 2_000 + u128::from(whole)) / (u128::from(whole) * 2) };
    match (tenths, part) {
        (0, 1..) => "<0.1 %".to_owned(),
        (1_000, _) if part < whole => ">99.9 %".to_owned(),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// Labels on the left, columns on the right.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
}

struct Row {
    label: String,
    style: Style,
    cells: Vec<String>,
}

impl Table {
    /// A row; one without cells is a heading.
    fn row(&mut self, label: &str, style: Style, cells: Vec<String>) {
        self.rows.push(Row { label: label.to_owned(), style, cells });
    }

    /// An empty line.
    fn gap(&mut self) {
        self.row("", Style::new(), Vec::new());
    }

    /// Each column is as wide as its widest cell.
    fn write(&self, output: &Output) -> Result<(), Failure> {
        let chars = |text: &String| text.chars().count();
        let label_width = self.rows.iter().map(|row| chars(&row.label)).max().unwrap_or(0);
        let columns = self.rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
        let width =
            |column| self.rows.iter().filter_map(|row| row.cells.get(column)).map(chars).max().unwrap_or(0);
        // A single column is cut where it does not fit; JSON has all of it.
        let most = COLUMNS.saturating_sub(label_width + GAP.len());
        let widths: Vec<usize> = (0..columns).map(|column| width(column).min(most)).collect();
        for (index, group) in column_groups(label_width, &widths, GAP.len()).into_iter().enumerate() {
            if index > 0 {
                output.line("")?;
            }
            for Row { label, style, cells } in &self.rows {
                let mut line = if cells.is_empty() {
                    format!("{style}{label}{style:#}")
                } else {
                    format!("{label:label_width$}")
                };
                for (cell, width) in cells.iter().zip(&widths).skip(group.start).take(group.len()) {
                    let cell = cut(cell, *width);
                    line += &format!("{GAP}{style}{cell:>width$}{style:#}");
                }
                output.line(line.trim_end())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_not_rounded_to_0_or_100() {
        assert_eq!(percent(3, 4), "75.0 %");
        assert_eq!(percent(1, 10_000), "<0.1 %");
        assert_eq!(percent(9_999, 10_000), ">99.9 %");
        assert_eq!(
            (percent(0, 9), percent(9, 9), percent(0, 0)),
            ("0.0 %".into(), "100.0 %".into(), "0.0 %".into())
        );
    }
}
