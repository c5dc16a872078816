//! The table of limits: how full each is, when it resets, who waits, what was denied.

use ratatui::style::Style;
use ratatui::text::{Line, Span as Text};
use tollway_core::Span;
use tollway_dashboard::snapshot::{Mode, Row, SeenBy};

use super::cells::{fit, fit_right, short, span};
use super::{Palette, Place};
use crate::order::percent;

/// A limit this full is worth a colour, in percent.
const NEARLY_FULL: u64 = 80;

/// What the marks in the table mean.
pub(super) const MARKS: [&str; 3] = [
    "~150/200: as seen by this process; without ~ it is what the store counts for all processes.",
    "(120): so many subjects in five minutes; the meter is that of the fullest one.",
    "waits: callers of this process, and how long a new one would wait.",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Limit,
    Gauge,
    Used,
    Resets,
    Spark,
    Waits,
    Denied,
    State,
    /// In a narrow terminal: the state if there is one, else who waits.
    StateOrWaits,
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Limit => "LIMIT",
            Self::Gauge => "",
            Self::Used => "USED",
            Self::Resets => "RESETS",
            Self::Spark => "5 MIN",
            Self::Waits | Self::StateOrWaits => "WAITS",
            Self::Denied => "DENIED",
            Self::State => "STATE",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Used | Self::Resets | Self::Denied)
    }
}

/// The columns with their widths; the first one gets the rest.
fn columns(width: usize) -> Vec<(Column, usize)> {
    use Column::{Denied, Gauge, Limit, Resets, Spark, State, StateOrWaits, Used, Waits};
    let others: &[(Column, usize)] = match width {
        0..70 => &[(Gauge, 5), (Used, 10), (StateOrWaits, 7)],
        70..110 => &[(Gauge, 6), (Used, 11), (Resets, 6), (Spark, 8), (Waits, 8), (Denied, 6), (State, 8)],
        _ => &[(Gauge, 12), (Used, 13), (Resets, 6), (Spark, 20), (Waits, 10), (Denied, 7), (State, 9)],
    };
    let used: usize = others.iter().map(|(_, width)| width + 1).sum();
    [(Limit, width.saturating_sub(used))].into_iter().chain(others.iter().copied()).collect()
}

/// The table in so many lines, and which rows it shows.
pub(super) fn table(place: &Place<'_>, lines_max: Option<usize>) -> (Vec<Line<'static>>, String) {
    let columns = columns(place.width);
    let rows = place.screen.rows();
    let room = lines_max.map_or(rows.len(), |lines| lines.saturating_sub(1));
    let first = place.screen.scrolled.min(rows.len().saturating_sub(room.max(1)));
    let shown = &rows[first..rows.len().min(first + room)];
    let at = place.screen.snapshot().map_or(0, |snapshot| snapshot.at);
    let title = |(column, width): &(Column, usize)| match column.is_number() {
        true => fit_right(column.title(), *width),
        false => fit(column.title(), *width),
    };
    let titles: Vec<String> = columns.iter().map(title).collect();
    let mut lines = vec![Line::styled(titles.join(" "), place.palette.strong())];
    lines.extend(shown.iter().map(|row| line(row, &columns, at, place.palette)));
    if rows.is_empty() {
        let nothing =
            if place.screen.filter.is_empty() { "no limit was used yet" } else { "no limit has this name" };
        lines.push(Line::styled(nothing, place.palette.faint()));
    }
    (lines, format!("{}-{} of {}", (first + 1).min(rows.len()), first + shown.len(), rows.len()))
}

fn line(row: &Row, columns: &[(Column, usize)], at: u64, palette: Palette) -> Line<'static> {
    let mut cells = Vec::with_capacity(columns.len() * 2);
    for (index, (column, width)) in columns.iter().enumerate() {
        if index > 0 {
            cells.push(Text::raw(" "));
        }
        let text = text(*column, row, at, *width);
        let text = if column.is_number() { fit_right(&text, *width) } else { fit(&text, *width) };
        cells.push(Text::styled(text, style(*column, row, palette)));
    }
    Line::from(cells)
}

fn text(column: Column, row: &Row, at: u64, width: usize) -> String {
    match column {
        Column::Limit => match row.subjects.and_then(|subjects| subjects.seen_5m) {
            Some(subjects) => format!("{} {} ({})", row.policy, row.limit, short(subjects)),
            None => format!("{} {}", row.policy, row.limit),
        },
        Column::Gauge => gauge(percent(row), width),
        Column::Used => {
            let own = if row.seen_by == SeenBy::Process { "~" } else { "" };
            let used = row.used.map_or("?".to_owned(), short);
            format!("{own}{used}/{}", short(row.capacity))
        }
        Column::Resets => {
            row.resets_at.filter(|end| *end > at).map_or(String::new(), |end| span_of(end - at))
        }
        Column::Spark => spark(&row.spark, width),
        Column::Waits => waits(row),
        Column::Denied => {
            if row.denied_5m == 0 {
                String::new()
            } else {
                short(row.denied_5m)
            }
        }
        Column::State => state(row, at),
        Column::StateOrWaits => {
            Some(state(row, at)).filter(|state| !state.is_empty()).unwrap_or_else(|| waits(row))
        }
    }
}

fn style(column: Column, row: &Row, palette: Palette) -> Style {
    let full = match percent(row) {
        100.. => palette.bad(),
        NEARLY_FULL.. => palette.warn(),
        _ => palette.good(),
    };
    match column {
        Column::Gauge | Column::Spark => full,
        Column::Used if percent(row) >= NEARLY_FULL => full,
        Column::Resets => palette.faint(),
        Column::Waits => palette.warn(),
        Column::Denied => palette.bad(),
        Column::State | Column::StateOrWaits => match row.modes.first() {
            Some(Mode::Shadow) => palette.faint(),
            Some(_) => palette.bad(),
            None => palette.warn(),
        },
        Column::Limit | Column::Used => Style::new(),
    }
}

/// A bar of so many cells, each in eight steps.
fn gauge(percent: u64, width: usize) -> String {
    let eighths = usize::try_from(percent.min(100)).unwrap_or(100) * width * 8 / 100;
    // A little is not nothing.
    let eighths = if percent > 0 { eighths.max(1) } else { 0 };
    let part = ["", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}"];
    let bar = format!("{}{}", "\u{2588}".repeat(eighths / 8), part[eighths % 8]);
    let free = width.saturating_sub(bar.chars().count());
    bar + &"\u{b7}".repeat(free)
}

/// Sixty values in fewer cells: the highest of those that share one.
fn spark(values: &str, width: usize) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const STEPS: [char; 8] =
        ['\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];
    let values: Vec<Option<usize>> =
        values.bytes().map(|value| DIGITS.iter().position(|digit| *digit == value)).collect();
    let cell = |index: usize| {
        let (from, to) = (index * values.len() / width, (index + 1) * values.len() / width);
        let highest = values.get(from..to.max(from + 1)).into_iter().flatten().flatten().max();
        highest.map_or(' ', |value| STEPS[(value / 8).min(7)])
    };
    (0..width).map(cell).collect()
}

fn waits(row: &Row) -> String {
    let wait = row.wait_ms.filter(|wait| *wait > 0).map(span_of);
    match (row.waiting, wait) {
        (0, None) => String::new(),
        (0, Some(wait)) => wait,
        (waiting, None) => short(waiting),
        (waiting, Some(wait)) => format!("{} {wait}", short(waiting)),
    }
}

fn state(row: &Row, at: u64) -> String {
    let has = |mode| row.modes.contains(&mode);
    if has(Mode::Stopped) {
        "stopped".to_owned()
    } else if has(Mode::Held) {
        let until = row.held_until.filter(|until| *until > at);
        until.map_or("held".to_owned(), |until| format!("held {}", span_of(until - at)))
    } else if has(Mode::Degraded) {
        "no store".to_owned()
    } else if has(Mode::Shadow) {
        "shadow".to_owned()
    } else {
        String::new()
    }
}

fn span_of(millis: u64) -> String {
    span(Span::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_fill_their_width() {
        let shown = [0, 1, 50, 99, 100, 250].map(|percent| gauge(percent, 4));
        let full = "\u{2588}".repeat(4);
        let expected = [
            "\u{b7}".repeat(4),
            format!("\u{258f}{}", "\u{b7}".repeat(3)),
            "\u{2588}\u{2588}\u{b7}\u{b7}".into(),
            "\u{2588}\u{2588}\u{2588}\u{2589}".into(),
            full.clone(),
            full,
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn sparklines_show_the_highest_value_of_each_cell() {
        let values = format!("{}{}", "-".repeat(30), "AAAAA/AAAAA//AAAAAAAAAAAAAAAAA");
        assert_eq!(spark(&values, 6), "   \u{2588}\u{2588}\u{2581}");
        assert_eq!((spark("", 3).as_str(), spark("A", 3).chars().count()), ("   ", 3));
    }
}
