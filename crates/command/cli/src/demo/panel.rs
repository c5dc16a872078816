//! Formats the demo: a line per minute and per event, and a live panel.

use super::documents::{STAGES, name};
use super::quota::Quota;
use super::row::Row;
use super::state::{AloneSide, DemoState, Event, StageView};
use super::tally::{Count, Tally};
use super::worker::AfterRefusal;
use crate::humanize::counted;
use crate::output::{BAD, FAINT, GOOD, STRONG, WARN};

/// The width of bars; of those of two vendors side by side, half of it.
const BAR: u64 = 20;

/// The introduction.
pub(super) fn opening(state: &DemoState) -> Vec<Row> {
    let (plan, quota) = (&state.plan, &state.quota);
    let (limit, minute) = (counted(quota.limit, "requests"), quota.minute);
    let [first, second] = STAGES;
    let mut rows = vec![
        Row::new(&format!("A vendor allows {limit} a minute; its minute takes {minute} here.")),
        Row::new(&format!("{} PDFs go through two stages, {first} and {second}: one call each.", plan.jobs)),
        Row::new(&format!("Tollway hands them to {} worker processes, within the limit.", plan.workers)),
    ];
    if let Some(after_refusal) = plan.without {
        let again = match after_refusal {
            AfterRefusal::AtOnce => "at once",
            AfterRefusal::RetryAfter => "after its Retry-After",
        };
        rows.extend([
            Row::new("Alone: as many workers take the same PDFs from a list, and call another vendor"),
            Row::new(&format!("like it as fast as they can. Refused, they call again {again}.")),
            Row::default(),
            Row::new(&format!("{:21}", ""))
                .styled(STRONG, &format!("{:30}", "with Tollway"))
                .styled(STRONG, "alone"),
        ]);
    } else {
        rows.push(Row::default());
    }
    rows
}

/// A completed minute, or the last one.
pub(super) fn minute(state: &DemoState, minute: u64) -> Row {
    let row = minute_row(state, minute);
    let is_whole = state.whole_minutes(&state.tollway).contains(&minute);
    if state.alone.is_some() || is_whole { row } else { row.styled(FAINT, "  partial") }
}

/// Something happened.
pub(super) fn event(state: &DemoState, event: &Event) -> Row {
    let row = Row::new("  ");
    match event {
        Event::Lowered { limit, from } => {
            let number = state.number_of(*from).unwrap_or(0);
            row.styled(WARN, &format!("the vendor allows {limit} from minute {number} on"))
                .plain("; Tollway is told: `limit set`")
        }
        Event::Restored { limit } => row
            .styled(WARN, &format!("the vendor allows {limit} again"))
            .plain("; Tollway is told: `limit clear`"),
        Event::Killed { alone, killed } => {
            let whose = if *alone { "alone: " } else { "" };
            row.plain(whose)
                .styled(WARN, &format!("worker {} killed", killed.worker))
                .plain(&format!(" during its call for {}", name(killed.document)))
        }
        Event::Redriven(redriven) => {
            let jobs = counted(redriven.jobs, "dead letters");
            row.styled(WARN, &format!("{jobs} corrected and redriven"))
                .plain(&format!(": {}", cut(&redriven.error, 30)))
        }
    }
}

fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// The live panel; always the same number of rows, so that it can be redrawn in place.
pub(super) fn panel(state: &DemoState) -> Vec<Row> {
    let minute = minute_row(state, state.quota.minute_at(state.now));
    let tenths = state.quota.left_of_minute(state.now).as_micros() / 100_000;
    let left = format!("  {}.{} s left", tenths / 10, tenths % 10);
    // Two vendors fill the row.
    let minute = if state.alone.is_some() { minute } else { minute.styled(FAINT, &left) };
    let stages = STAGES.iter().zip(&state.stages).map(|(name, stage)| stage_row(state, name, *stage));
    let alone = state.alone.iter().map(|alone| alone_row(state, alone));
    [minute, Row::default()].into_iter().chain(stages).chain(alone).collect()
}

fn minute_row(state: &DemoState, minute: u64) -> Row {
    let name =
        state.number_of(minute).map_or_else(|| "start".to_owned(), |number| format!("minute {number}"));
    let (quota, limit) = (&state.quota, state.quota.limit_in(minute));
    match &state.alone {
        None => {
            let Count { calls, refusals } = state.tollway.tally.minute(minute);
            let style = if refusals > 0 { BAD } else { GOOD };
            Row::new(&format!("  {name:<9} "))
                .bar(style, BAR, calls, quota.limit)
                .styled(STRONG, &format!(" {calls:>4}"))
                .plain(&format!(" of {limit:<4}"))
                .styled(style, &format!(" {refusals:>3} refused"))
        }
        Some(alone) => {
            let row = Row::new(&format!("  {name:<9} of {limit:<4}"));
            let row = vendor_column(row, quota, &state.tollway.tally, minute);
            vendor_column(row, quota, &alone.side.tally, minute)
        }
    }
}

/// One of two vendors side by side.
fn vendor_column(row: Row, quota: &Quota, tally: &Tally, minute: u64) -> Row {
    let Count { calls, refusals } = tally.minute(minute);
    let style = if refusals > 0 { BAD } else { GOOD };
    row.plain("  ")
        .bar(style, BAR / 2, calls, quota.limit)
        .styled(STRONG, &format!(" {calls:>4}"))
        .styled(style, &format!(" {refusals:>4} refused"))
}

fn stage_row(state: &DemoState, name: &str, stage: StageView) -> Row {
    let StageView { done, ready, running, dead } = stage;
    Row::new(&format!("  {name:<9} "))
        .bar(STRONG, BAR, done, state.plan.jobs)
        .styled(STRONG, &format!(" {done:>4}"))
        .plain(&format!(" of {:<4}", state.plan.jobs))
        .plain(&format!(" {ready:>4} ready {running:>3} running"))
        .styled(if dead > 0 { WARN } else { FAINT }, &format!(" {dead:>3} dead"))
}

fn alone_row(state: &DemoState, alone: &AloneSide) -> Row {
    let (done, lost) = (alone.progress.done, alone.progress.lost());
    Row::new(&format!("  {:<9} ", "alone"))
        .bar(STRONG, BAR, done, state.plan.jobs)
        .styled(STRONG, &format!(" {done:>4}"))
        .plain(&format!(" of {:<4}", state.plan.jobs))
        .styled(if lost > 0 { BAD } else { FAINT }, &format!(" {lost:>4} lost"))
}
