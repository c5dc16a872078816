//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::screen::Screen;

/// The longest filter: a name of a policy and of a limit.
const FILTER_CHARS_MAX: usize = 200;

/// Rows that Page Up and Page Down move by.
const PAGE: usize = 10;

/// What happens after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    GoOn,
    Quit,
}

/// The keys, as the screen lists them.
pub(crate) const KEYS: [(&str, &str); 7] = [
    ("q, Ctrl-C", "quit"),
    ("up, down, k, j", "scroll by a row"),
    ("Page Up, Page Down", "scroll by ten rows"),
    ("Home, End, g, G", "first row, last row"),
    ("/", "show only limits whose name contains what you type"),
    ("Esc", "show all again"),
    ("?", "these keys"),
];

impl Screen {
    pub(crate) fn press(&mut self, key: KeyEvent) -> After {
        if key.kind == KeyEventKind::Release {
            return After::GoOn;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return After::Quit,
            _ if self.is_filtering => self.type_into_filter(key.code),
            KeyCode::Char('q') => return After::Quit,
            code => self.choose(code),
        }
        self.scrolled = self.scrolled.min(self.rows().len().saturating_sub(1));
        After::GoOn
    }

    fn choose(&mut self, code: KeyCode) {
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scrolled = self.scrolled.saturating_add(1),
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(PAGE),
            KeyCode::PageDown => self.scrolled = self.scrolled.saturating_add(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.scrolled = 0,
            KeyCode::End | KeyCode::Char('G') => self.scrolled = usize::MAX,
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Char('?') => self.shows_keys = !self.shows_keys,
            KeyCode::Esc => {
                self.shows_keys = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    fn type_into_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER_CHARS_MAX => {
                self.filter.push(letter)
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tollway_core::Timestamp;
    use tollway_dashboard::snapshot::{Row, Snapshot};

    use super::*;
    use crate::Event;

    fn screen() -> Screen {
        let row = |id: &str| Row { id: id.to_owned(), ..Row::default() };
        let rows = ["adobe/rpm", "gemini/rpm", "gemini/tpm"].map(row).into();
        let mut screen = Screen::default();
        let snapshot = Snapshot { rows, ..Snapshot::default() };
        screen.take_in(Event::Snapshot(Box::new(snapshot)), Timestamp::EPOCH);
        screen
    }

    fn press(screen: &mut Screen, codes: impl IntoIterator<Item = KeyCode>) -> After {
        let mut presses = codes.into_iter().map(|code| screen.press(KeyEvent::new(code, KeyModifiers::NONE)));
        presses.find(|after| *after == After::Quit).unwrap_or(After::GoOn)
    }

    #[test]
    fn a_filter_takes_letters_that_are_keys_otherwise() {
        let mut screen = screen();
        press(&mut screen, "/GemXq".chars().map(KeyCode::Char));
        assert_eq!(screen.rows().len(), 0, "q is a letter of the filter");
        press(&mut screen, [KeyCode::Backspace, KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!(screen.rows().len(), 2);
        press(&mut screen, [KeyCode::Esc]);
        assert_eq!(screen.rows().len(), 3);
        assert_eq!(press(&mut screen, [KeyCode::Char('q')]), After::Quit);
    }

    #[test]
    fn scrolling_stays_within_the_rows() {
        let mut screen = screen();
        for (code, scrolled) in [
            (KeyCode::Up, 0),
            (KeyCode::Down, 1),
            (KeyCode::PageDown, 2),
            (KeyCode::Down, 2),
            (KeyCode::Home, 0),
            (KeyCode::End, 2),
        ] {
            press(&mut screen, [code]);
            assert_eq!(screen.scrolled, scrolled, "{code:?}");
        }
    }

    #[test]
    fn control_c_quits_also_while_a_filter_is_typed() {
        let mut screen = screen();
        press(&mut screen, [KeyCode::Char('/')]);
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.press(control), After::Quit);
    }
}
