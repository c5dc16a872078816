//! How wide the terminal is.

use terminal_size::{Width, terminal_size_of};

/// The width of the terminal on standard error; one that is too narrow for figures is not believed.
pub(super) fn stderr_width() -> Option<usize> {
    width_of(terminal_size_of(std::io::stderr()))
}

/// The same of standard output.
pub(super) fn stdout_width() -> Option<usize> {
    width_of(terminal_size_of(std::io::stdout()))
}

fn width_of(size: Option<(Width, terminal_size::Height)>) -> Option<usize> {
    // The last column stays free: some terminals wrap a line that fills it.
    size.map(|(Width(columns), _)| usize::from(columns).saturating_sub(1)).filter(|columns| *columns >= 40)
}
