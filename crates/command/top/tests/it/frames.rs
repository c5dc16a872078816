//! Frames, compared cell by cell with what is expected.

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use tollway_core::{Span, Timestamp};
use tollway_dashboard::snapshot::{Row, Snapshot};
use tollway_top::{Event, Palette, Screen, draw, frame_text};

use crate::snapshots::{AT, busy};

const NOW: Timestamp = Timestamp::from_millis(AT);

fn screen(snapshot: Snapshot) -> Screen {
    let mut screen = Screen::default();
    screen.take_in(Event::Snapshot(Box::new(snapshot)), NOW);
    screen
}

fn drawn(
    screen: &Screen,
    width: u16,
    height: u16,
    palette: Palette,
    now: Timestamp,
) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, screen, palette, now)).unwrap();
    terminal
}

fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected =
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(expected, found, "UPDATE_GOLDEN=1 rewrites {}", path.display());
}

/// Every cell, without the spaces at the ends of lines.
fn cells(terminal: &Terminal<TestBackend>) -> String {
    let text = terminal.backend().to_string();
    text.lines().map(|line| format!("{}\n", line.trim_matches('"').trim_end())).collect()
}

#[test]
fn each_size_has_its_layout() {
    let busy = screen(busy());
    for (width, height) in [(80, 24), (40, 12), (120, 30)] {
        golden(
            &format!("{width}x{height}.txt"),
            &cells(&drawn(&busy, width, height, Palette::COLOURED, NOW)),
        );
    }
}

#[test]
fn one_frame_has_every_row() {
    golden("once.txt", &frame_text(&screen(busy()), 80, NOW));
}

#[test]
fn the_first_moment_and_a_server_that_is_away_say_so() {
    let mut waiting = Screen::default();
    golden("nothing_yet.txt", &cells(&drawn(&waiting, 80, 24, Palette::PLAIN, NOW)));
    waiting.is_away("connection refused".to_owned());
    golden("never_there.txt", &cells(&drawn(&waiting, 80, 24, Palette::PLAIN, NOW)));
    let mut gone = screen(busy());
    gone.is_away("connection refused".to_owned());
    golden("gone.txt", &cells(&drawn(&gone, 80, 24, Palette::PLAIN, NOW.plus(Span::from_secs(9)))));
    // It is back.
    gone.take_in(Event::Snapshot(Box::new(busy())), NOW.plus(Span::from_secs(10)));
    let back = cells(&drawn(&gone, 80, 24, Palette::PLAIN, NOW.plus(Span::from_secs(10))));
    assert!(!back.contains("does not answer"), "{back}");
}

/// Figures older than three seconds are marked, also while the connection seems to be there.
#[test]
fn old_figures_are_marked() {
    let busy = screen(busy());
    let at = |seconds| cells(&drawn(&busy, 80, 24, Palette::PLAIN, NOW.plus(Span::from_secs(seconds))));
    assert!(!at(3).contains("old"), "{}", at(3));
    assert!(at(4).contains("these figures are 4s old"), "{}", at(4));
}

#[test]
fn without_colours_there_are_none() {
    let busy = screen(busy());
    let has_colours = |palette| {
        let terminal = drawn(&busy, 80, 24, palette, NOW);
        let content = &terminal.backend().buffer().content;
        content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(has_colours(Palette::COLOURED));
    assert!(!has_colours(Palette::PLAIN));
}

/// Whatever the size: no panic, and the frame has it.
#[test]
fn every_size_can_be_drawn() {
    let (empty, busy) = (Screen::default(), screen(busy()));
    for width in (0..=130).step_by(3) {
        for height in 0..=40 {
            for screen in [&empty, &busy] {
                drawn(screen, width, height, Palette::PLAIN, NOW.plus(Span::from_secs(60)));
            }
        }
    }
}

/// Names that would move the cursor, and names wider than their cells, stay in their place.
#[test]
fn hostile_names_are_text() {
    let row = |policy: &str| Row {
        id: policy.to_owned(),
        policy: policy.to_owned(),
        capacity: 1,
        spark: "\u{1b}[31m".to_owned(),
        ..Row::default()
    };
    let names = ["\u{1b}[2J\u{7}evil\r\n", &"\u{6f22}".repeat(90), "\u{202e}abc", "<script>"];
    let snapshot = Snapshot { rows: names.map(row).into(), ..Snapshot::default() };
    let shown = cells(&drawn(&screen(snapshot), 80, 24, Palette::PLAIN, NOW));
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}') && !shown.contains('\r'), "{shown:?}");
    assert!(shown.contains("<script>"), "{shown}");
}
