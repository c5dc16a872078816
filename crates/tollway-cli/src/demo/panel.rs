//! What a demo looks like: a line for each minute, one for each event, and a panel of what goes on.

use anstyle::Style;

use super::course::Course;
use super::tally::Count;
use crate::output::{BAD, FAINT, GOOD, STRONG, WARN};
use crate::words::counted;

/// How wide everything is: a row that is drawn over another covers it.
pub(super) const WIDTH: usize = 78;
const BAR: u64 = 28;
/// Workers that have a row each; more are summed up in one.
const WORKERS_SHOWN: usize = 16;

/// A line of text with styles in it, whose width is known.
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

    /// As it is where nothing has to be covered.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Filled up with blanks, to cover what was there.
    pub(super) fn into_wide_text(self) -> String {
        let blanks = " ".repeat(WIDTH.saturating_sub(self.width));
        self.text + &blanks
    }
}

/// What it is about, before it begins.
pub(super) fn opening(course: &Course) -> Vec<Row> {
    let plan = &course.plan;
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

/// A minute that is over.
pub(super) fn minute(course: &Course, minute: u64) -> Row {
    let row = minute_row(course, minute);
    if course.number_of(minute).is_none() { row.styled(FAINT, "  not whole") } else { row }
}

/// Somebody was killed.
pub(super) fn killed(worker: usize) -> Row {
    Row::new("  ").styled(WARN, &format!("worker {worker} is killed")).plain(" in the middle of its work")
}

/// Somebody else came.
pub(super) fn replaced(worker: usize, by: usize) -> Row {
    Row::new("  ")
        .styled(WARN, &format!("worker {by} is started"))
        .plain(&format!(" in place of worker {worker}"))
}

/// What goes on; always as many rows, so that they can be drawn over each other.
pub(super) fn panel(course: &Course) -> Vec<Row> {
    let quota = course.plan.quota;
    let tenths = quota.left_of_minute(course.now).as_micros() / 100_000;
    let left = format!("  {}.{} s left", tenths / 10, tenths % 10);
    let rows = [minute_row(course, quota.minute_at(course.now)).styled(FAINT, &left), Row::default()];
    rows.into_iter().chain(workers(course)).collect()
}

fn minute_row(course: &Course, minute: u64) -> Row {
    let limit = course.plan.quota.limit;
    let Count { calls, refusals } = course.tally.minute(minute);
    let name =
        course.number_of(minute).map_or_else(|| "start".to_owned(), |number| format!("minute {number}"));
    let style = if refusals > 0 { BAD } else { GOOD };
    Row::new(&format!("  {name:<9} "))
        .bar(style, calls, limit)
        .styled(STRONG, &format!(" {calls:>4}"))
        .plain(&format!(" of {limit:<4}"))
        .styled(style, &format!(" {refusals:>3} refused"))
}

fn workers(course: &Course) -> Vec<Row> {
    let numbers = 1..=course.plan.workers + 1;
    let most = numbers.clone().map(|worker| course.tally.calls_of(worker)).max().unwrap_or(0);
    if course.plan.workers <= WORKERS_SHOWN {
        return numbers.map(|worker| worker_row(course, worker, most)).collect();
    }
    let least = (1..=course.plan.workers).map(|worker| course.tally.calls_of(worker)).min().unwrap_or(0);
    vec![Row::new(&format!("  {} workers made {least} to {most} calls each", course.plan.workers))]
}

fn worker_row(course: &Course, worker: usize, most: u64) -> Row {
    let calls = course.tally.calls_of(worker);
    let (killed, replacement) = match course.killed {
        Some(killed) => (killed.worker == worker, killed.replaced_by == Some(worker)),
        None => (false, false),
    };
    if worker > course.plan.workers && !replacement {
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
