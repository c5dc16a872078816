//! Styles by what they mean.

use ratatui::style::{Color, Modifier, Style};

/// Colours, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    has_colours: bool,
}

impl Palette {
    /// The sixteen colours of the terminal, which the reader has chosen.
    pub const COLOURED: Self = Self { has_colours: true };
    /// Only bold and dim.
    pub const PLAIN: Self = Self { has_colours: false };

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green, Modifier::empty())
    }

    pub(super) fn warn(self) -> Style {
        self.coloured(Color::Yellow, Modifier::BOLD)
    }

    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red, Modifier::BOLD)
    }

    fn coloured(self, colour: Color, otherwise: Modifier) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new().add_modifier(otherwise) }
    }
}
