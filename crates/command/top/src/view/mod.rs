//! The screen as lines, for a terminal of any size.
//!
//! `table` is the table of limits, `sections` what follows it, `cells` texts that fit a width, `palette` the colours.

mod cells;
mod palette;
mod sections;
mod table;

use ratatui::Frame;
use ratatui::text::{Line, Span as Text};
use tollway_core::Timestamp;
use tollway_core::humanize::count;
use tollway_dashboard::snapshot::{Level, Snapshot};

pub use palette::Palette;

use crate::keys::KEYS;
use crate::screen::Screen;
use cells::{fit, time_of_day, wrap};

/// Below this width, only the columns that say what is full.
const WIDE: usize = 70;
/// Below this height, only the sentence and the limits.
const HIGH: usize = 16;

/// Where the screen is drawn.
#[derive(Clone, Copy)]
struct Place<'a> {
    width: usize,
    /// None: as high as it needs to be.
    height: Option<usize>,
    palette: Palette,
    now: Timestamp,
    screen: &'a Screen,
}

impl Place<'_> {
    fn is_wide(&self) -> bool {
        self.width >= WIDE
    }

    fn is_high(&self) -> bool {
        self.height.is_none_or(|height| height >= HIGH)
    }
}

/// Draws the screen, whatever its size is.
pub fn draw(frame: &mut Frame<'_>, screen: &Screen, palette: Palette, now: Timestamp) {
    let area = frame.area();
    let place = Place { width: area.width.into(), height: Some(area.height.into()), palette, now, screen };
    let lines = if screen.shows_keys { keys(&place) } else { lines(&place) };
    for (line, row) in lines.iter().zip(area.rows()) {
        frame.render_widget(line, row);
    }
}

/// The screen as text with all rows, for a reader who sees one frame.
pub fn frame_text(screen: &Screen, width: usize, now: Timestamp) -> String {
    let place = Place { width, height: None, palette: Palette::PLAIN, now, screen };
    let lines = lines(&place).into_iter();
    lines.map(|line| format!("{}\n", line.to_string().trim_end())).collect()
}

fn lines(place: &Place<'_>) -> Vec<Line<'static>> {
    let mut top = head(place);
    let Some(snapshot) = place.screen.snapshot() else {
        top.push(Line::from("waiting for the first figures"));
        return with_foot(top, Vec::new(), place, None);
    };
    top.extend(sentence(snapshot, place));
    if place.is_high() && place.is_wide() {
        top.push(totals(snapshot, place));
        top.push(Line::default());
    }
    let below = if place.is_high() { sections::below(snapshot, place) } else { Vec::new() };
    let foot = usize::from(place.height.is_some());
    let free = place.height.map(|height| height.saturating_sub(top.len() + below.len() + foot));
    let (table, shown) = table::table(place, free);
    top.extend(table);
    with_foot(top, below, place, Some(shown))
}

/// The last line is at the bottom of the terminal.
fn with_foot(
    mut lines: Vec<Line<'static>>,
    below: Vec<Line<'static>>,
    place: &Place<'_>,
    shown: Option<String>,
) -> Vec<Line<'static>> {
    lines.extend(below);
    if let Some(height) = place.height {
        lines.resize(height.saturating_sub(1), Line::default());
        lines.push(foot(place, shown));
    }
    lines
}

/// What is looked at, and when; what is wrong with the connection.
fn head(place: &Place<'_>) -> Vec<Line<'static>> {
    let palette = place.palette;
    let (what, when) = match place.screen.snapshot() {
        None => (String::new(), String::new()),
        Some(snapshot) => {
            let process = &snapshot.process;
            let what = format!("{} {}  {}", process.command, process.version, process.store);
            (what, format!("{} UTC", time_of_day(snapshot.at)))
        }
    };
    let name = "tollway top  ";
    let room = place.width.saturating_sub(name.len() + when.len() + 1);
    let mut lines = vec![Line::from(vec![
        Text::styled(name, palette.strong()),
        Text::styled(fit(&what, room), palette.faint()),
        Text::raw(" "),
        Text::styled(when, palette.faint()),
    ])];
    let age = place.screen.stale(place.now).map(cells::span);
    let trouble = match (place.screen.away(), age) {
        (Some(why), Some(age)) => {
            Some(format!("the server does not answer ({why}); these figures are {age} old"))
        }
        (Some(why), None) => Some(format!("the server does not answer ({why})")),
        (None, Some(age)) => Some(format!("these figures are {age} old")),
        (None, None) => None,
    };
    if let Some(trouble) = trouble {
        lines
            .extend(wrap(&trouble, place.width, 2).into_iter().map(|line| Line::styled(line, palette.bad())));
    }
    lines
}

fn sentence(snapshot: &Snapshot, place: &Place<'_>) -> Vec<Line<'static>> {
    let style = match snapshot.sentence.level {
        Level::Ok => place.palette.good(),
        Level::Attention => place.palette.warn(),
        Level::Trouble => place.palette.bad(),
    };
    let text = snapshot.sentence.text.replace('`', "");
    let most = if place.is_wide() { 2 } else { 3 };
    wrap(&text, place.width, most).into_iter().map(|line| Line::styled(line, style)).collect()
}

fn totals(snapshot: &Snapshot, place: &Place<'_>) -> Line<'static> {
    let totals = &snapshot.totals;
    let text = format!(
        "{} granted/s  {} denied/s  {} waiting  {} of {} policies used",
        cells::rate(totals.granted_per_second),
        cells::rate(totals.denied_per_second),
        count(totals.waiting),
        count(totals.policies_used),
        count(totals.policies),
    );
    Line::styled(fit(&text, place.width), place.palette.faint())
}

fn foot(place: &Place<'_>, shown: Option<String>) -> Line<'static> {
    let screen = place.screen;
    let keys = match (screen.is_filtering, screen.filter.as_str()) {
        (true, filter) => format!("/{filter}_  Enter keep  Esc show all"),
        (false, "") => "q quit  ? keys  / filter".to_owned(),
        (false, filter) => format!("q quit  only {filter}  Esc show all"),
    };
    let shown = shown.unwrap_or_default();
    let room = place.width.saturating_sub(shown.chars().count() + 1);
    Line::styled(format!("{} {shown}", fit(&keys, room)), place.palette.faint())
}

/// The keys, and what the marks in the table mean.
fn keys(place: &Place<'_>) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled("keys", place.palette.strong())];
    let width = KEYS.iter().map(|(keys, _)| keys.len()).max().unwrap_or(0) + 2;
    for (keys, what) in KEYS {
        for (index, part) in wrap(what, place.width.saturating_sub(width), 3).into_iter().enumerate() {
            let keys = if index == 0 { keys } else { "" };
            lines.push(Line::from(format!("{} {part}", fit(keys, width - 1))));
        }
    }
    lines.push(Line::default());
    for mark in table::MARKS {
        lines.extend(wrap(mark, place.width, 3).into_iter().map(Line::from));
    }
    lines
}
