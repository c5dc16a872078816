//! Formats the demo: a line per minute and per event, and a live panel.

use anstyle::Style;

use super::state::DemoState;
use super::tally::Count;
use crate::humanize::counted;
use crate::output::{BAD, FAINT, GOOD, STRONG, WARN};

/// The width of all rows, so that a redrawn row covers the previous one.
pub(super) const WIDTH: usize = 78;
const BAR: u64 = 28;
/// With more workers than this, one row sums them up.
const WORKERS_SHOWN: usize = 16;

/// A styled line of text of known width.
#[derive(Default)]
pub(super) struct Row {
    text: String,
    width: usize,
}

impl Row {
    fn new(text: &str) -> Self {
        Self::default().plain(text)
    }

    fn plain(self, text: &str) -> Self {
        self.styled(Style::new(), text)
    }

    fn styled(mut self, style: Style, text: &str) -> Self {
        self.width += text.chars().count();
        self.text.push_str(&format!("{style}{text}{style:#}"));
        self
    }

    fn bar(self, style: Style, part: u64, whole: u64) -> Self {
        let full = (part.min(whole) * BAR).checked_div(whole).unwrap_or(0);
        let times = |symbol: &str, n: u64| symbol.repeat(usize::try_from(n).unwrap_or(0));
        self.styled(style, &times("█", full)).styled(FAINT, &times("░", BAR - full))
    }

    /// The text without padding.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// The text padded to the full width, to cover the previous row.
    pub(super) fn into_wide_text(self) -> String {
        let blanks = " ".repeat(WIDTH.saturating_sub(self.width));
        self.text + &blanks
    }
}

/// The introduction.
pub(super) fn opening(state: &DemoState) -> Vec<Row> {
    let plan = &state.plan;
    let (limit, minute) = (counted(plan.quota.limit, "requests"), plan.quota.minute);
    let how =
        if plan.with_tollway { "they share the limit through a file" } else { "none of them uses Tollway" };
    let workers = counted(plan.workers as u64, "workers");
    vec![
        Row::new(&format!("A vendor allows {limit} a minute; its minute takes {minute} here.")),
        Row::new(&format!("Its callers: {workers}, each a process; {how}.")),
        Row::default(),
    ]
}

/// A completed minute.
pub(super) fn minute(state: &DemoState, minute: u64) -> Row {
    let row = minute_row(state, minute);
    if state.number_of(minute).is_none() { row.styled(FAINT, "  partial") } else { row }
}

/// A worker was killed.
pub(super) fn killed(worker: usize) -> Row {
    Row::new("  ").styled(WARN, &format!("worker {worker} killed")).plain(" while working")
}

/// A worker was replaced.
pub(super) fn replaced(worker: usize, by: usize) -> Row {
    Row::new("  ")
        .styled(WARN, &format!("worker {by} started"))
        .plain(&format!(" to replace worker {worker}"))
}

/// The live panel; always the same number of rows, so that it can be redrawn in place.
pub(super) fn panel(state: &DemoState) -> Vec<Row> {
    let quota = state.plan.quota;
    let tenths = quota.left_of_minute(state.now).as_micros() / 100_000;
    let left = format!("  {}.{} s left", tenths / 10, tenths % 10);
    let rows = [minute_row(state, quota.minute_at(state.now)).styled(FAINT, &left), Row::default()];
    rows.into_iter().chain(workers(state)).collect()
}

fn minute_row(state: &DemoState, minute: u64) -> Row {
    let limit = state.plan.quota.limit;
    let Count { calls, refusals } = state.tally.minute(minute);
    let name =
        state.number_of(minute).map_or_else(|| "start".to_owned(), |number| format!("minute {number}"));
    let style = if refusals > 0 { BAD } else { GOOD };
    Row::new(&format!("  {name:<9} "))
        .bar(style, calls, limit)
        .styled(STRONG, &format!(" {calls:>4}"))
        .plain(&format!(" of {limit:<4}"))
        .styled(style, &format!(" {refusals:>3} refused"))
}

fn workers(state: &DemoState) -> Vec<Row> {
    let numbers = 1..=state.plan.workers + 1;
    let most = numbers.clone().map(|worker| state.tally.calls_of(worker)).max().unwrap_or(0);
    if state.plan.workers <= WORKERS_SHOWN {
        return numbers.map(|worker| worker_row(state, worker, most)).collect();
    }
    let least = (1..=state.plan.workers).map(|worker| state.tally.calls_of(worker)).min().unwrap_or(0);
    vec![Row::new(&format!("  {} workers made {least} to {most} calls each", state.plan.workers))]
}

fn worker_row(state: &DemoState, worker: usize, most: u64) -> Row {
    let calls = state.tally.calls_of(worker);
    let (killed, replacement) = match state.killed {
        Some(killed) => (killed.worker == worker, killed.replaced_by == Some(worker)),
        None => (false, false),
    };
    if worker > state.plan.workers && !replacement {
        return Row::default();
    }
    let row = Row::new(&format!("  worker {worker:<2} "))
        .bar(Style::new(), calls, most)
        .plain(&format!(" {calls:>4}"));
    match (killed, replacement) {
        (true, _) => row.styled(WARN, "  killed"),
        (_, true) => row.styled(WARN, "  new"),
        _ => row,
    }
}
