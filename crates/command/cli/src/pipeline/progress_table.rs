//! The stages as a table, with bars and call times where the terminal has room for them.

use anstyle::Style;
use tollway_pipeline::run::CallTimes;
use tollway_pipeline::run::progress::StageProgress;

use super::progress_text::rate;
use crate::humanize::{self, count};
use crate::layout::INDENT;
use crate::output::{FAINT, GOOD, WARN};

/// The columns beside the stage's name.
const HEADINGS: [&str; 8] = ["stage", "done", "ready", "running", "retrying", "held", "dead", "a minute"];

/// The cells of a bar: as many as the terminal has room for.
const BAR_MIN: usize = 10;
const BAR_MAX: usize = 60;

/// `100 %` beside a bar.
const PERCENT_WIDTH: usize = 5;

/// A stage, and what is known of its calls.
pub(super) struct Row<'p> {
    pub(super) stage: &'p StageProgress,
    pub(super) calls: Option<CallTimes>,
}

/// The lines of the table.
pub(super) fn table(rows: &[Row<'_>], width: usize) -> Vec<String> {
    let mut cells: Vec<Vec<String>> = vec![HEADINGS.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(|row| figures(row.stage)));
    let narrow = line_width(&widths(&cells));
    let mut with_calls = cells.clone();
    if rows.iter().any(|row| row.calls.is_some()) {
        with_calls[0].push("a call".to_owned());
        for (line, row) in with_calls.iter_mut().skip(1).zip(rows) {
            line.push(row.calls.map_or_else(|| "-".to_owned(), call_text));
        }
    }
    // Call times tell more than bars, so they get their room first.
    if line_width(&widths(&with_calls)) <= width {
        cells = with_calls;
    }
    let widths = widths(&cells);
    let room = width.saturating_sub(line_width(&widths) + 2 * INDENT.len() + PERCENT_WIDTH);
    let bar = (room >= BAR_MIN).then_some(room.min(BAR_MAX));
    // Names that leave no room for the figures get lines of their own.
    let own_line = narrow > width;
    let mut lines = line(&cells[0], &widths, bar.map(|bar| (bar, None)), own_line, FAINT);
    for (row, cells) in rows.iter().zip(cells.iter().skip(1)) {
        let style = if row.stage.dead > 0 { WARN } else { Style::new() };
        lines.extend(line(cells, &widths, bar.map(|bar| (bar, Some(row.stage))), own_line, style));
    }
    lines
}

/// The widest cell of each column.
fn widths(cells: &[Vec<String>]) -> Vec<usize> {
    let columns = cells.first().map_or(0, Vec::len);
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    (0..columns).map(width).collect()
}

fn line_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + INDENT.len() * widths.len().saturating_sub(1)
}

/// A line of the table: two, if the name has one of its own. A bar without a stage is the room above the bars.
fn line(
    cells: &[String],
    widths: &[usize],
    bar: Option<(usize, Option<&StageProgress>)>,
    own_line: bool,
    style: Style,
) -> Vec<String> {
    let (Some(name), Some(width)) = (cells.first(), widths.first()) else { return Vec::new() };
    let figures = cells.iter().zip(widths).skip(1).map(|(cell, width)| format!("{INDENT}{cell:>width$}"));
    let figures: String = figures.collect();
    if own_line {
        return vec![format!("{style}{name}{style:#}"), format!("{style}{figures}{style:#}")];
    }
    let bar = match bar {
        None => String::new(),
        Some((cells, None)) => " ".repeat(INDENT.len() * 2 + cells + PERCENT_WIDTH),
        Some((cells, Some(stage))) => bar_text(stage, cells),
    };
    vec![format!("{style}{name:<width$}{style:#}{bar}{style}{figures}{style:#}")]
}

/// The share of a stage's jobs that is done.
fn bar_text(stage: &StageProgress, cells: usize) -> String {
    let all = stage.done + stage.ready + stage.running + stage.retrying + stage.held + stage.dead;
    let thousandths = |of: u64| u128::from(stage.done) * u128::from(of) / u128::from(all.max(1));
    let most = u64::try_from(cells).unwrap_or(0);
    // Empty only if nothing is done, full only if all is.
    let filled = match (stage.done, stage.done == all) {
        (0, _) => 0,
        (_, true) => most,
        _ => u64::try_from(thousandths(most)).unwrap_or(0).clamp(1, most - 1),
    };
    let bar: String = (0..most).map(|cell| if cell < filled { '█' } else { '░' }).collect();
    let percent = if stage.done == all && all > 0 { 100 } else { thousandths(100).min(99) };
    format!("{INDENT}{GOOD}{bar}{GOOD:#}{INDENT}{:>PERCENT_WIDTH$}", format!("{percent} %"))
}

fn figures(stage: &StageProgress) -> Vec<String> {
    let some = |number: u64| if number == 0 { "-".to_owned() } else { count(number) };
    vec![
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

/// `1.2 s (max 8 s)`.
fn call_text(calls: CallTimes) -> String {
    format!("{} (max {})", humanize::span(calls.median), humanize::span(calls.longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollway::Span;
    use tollway::core::Name;
    use tollway_pipeline::Events;

    fn stage(name: &str, done: u64, ready: u64) -> StageProgress {
        StageProgress {
            stage: Name::new(name).unwrap(),
            done,
            ready,
            waiting_until: None,
            running: 3,
            retrying: 0,
            held: 0,
            dead: 0,
            paused: false,
            per_minute: Some(42.0),
            events: Events::default(),
            recent: Events::default(),
            unreachable: None,
        }
    }

    fn plain(width: usize, calls: Option<CallTimes>) -> Vec<String> {
        let stages = [stage("autotag", 500, 497), stage("extract", 0, 7)];
        let rows: Vec<Row<'_>> = stages.iter().map(|stage| Row { stage, calls }).collect();
        let lines = table(&rows, width).into_iter();
        lines.map(|line| anstream::adapter::strip_str(&line).to_string()).collect()
    }

    #[test]
    fn wide_terminal_has_bars_and_call_times() {
        let calls = CallTimes { median: Span::from_secs(2), longest: Span::from_secs(8) };
        let wide = plain(120, Some(calls));
        assert!(
            wide[1].contains('█') && wide[1].contains("50 %") && wide[1].contains("2 s (max 8 s)"),
            "{wide:?}"
        );
        assert!(!wide[2].contains('█') && wide[2].contains("0 %"), "{wide:?}");
        assert!(wide.iter().all(|line| line.chars().count() <= 120), "{wide:?}");
        let widths: Vec<usize> = wide.iter().map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|two| two[0] == two[1]), "columns end together: {wide:?}");
    }

    #[test]
    fn narrow_terminal_has_the_figures() {
        let lines = plain(70, None);
        assert!(lines.iter().all(|line| !line.contains('░') && line.chars().count() <= 70), "{lines:?}");
        let names_alone = plain(40, None);
        assert_eq!(names_alone[2], "autotag");
    }
}
