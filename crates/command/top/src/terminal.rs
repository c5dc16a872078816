//! The terminal: taken, drawn on, and given back, whatever ends the program.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tollway_core::Clock;

use crate::keys::After;
use crate::view::{Palette, draw};
use crate::{Event, Screen};

/// How often the keyboard is looked at, and how long the program may take to end.
const KEYS_EVERY: Duration = Duration::from_millis(100);

/// The screen is drawn at least so often: figures grow old without news.
const DRAWN_EVERY: Duration = Duration::from_secs(1);

/// Keys that wait to be handled; a person types fewer.
const KEYS_MAX: usize = 64;

/// News for the screen.
pub enum Update {
    /// What the server sent.
    Event(Event),
    /// The server does not answer, for this reason.
    Away(String),
}

/// Gives the terminal back when it is dropped. A panic does so before it says anything.
struct Taken(DefaultTerminal);

impl Taken {
    fn new() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // A panic has done so already; once more would move the cursor over its message.
        if !std::thread::panicking() {
            ratatui::restore();
        }
    }
}

/// Shows the updates until the reader quits, or the process is told to end.
pub async fn run(
    mut updates: mpsc::Receiver<Update>,
    palette: Palette,
    clock: Arc<dyn Clock>,
) -> io::Result<()> {
    let mut ends = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
        .map(signal)
        .into_iter()
        .collect::<io::Result<Vec<_>>>()?;
    let mut terminal = Taken::new()?;
    let mut keys = read_keys();
    let mut ticks = tokio::time::interval(DRAWN_EVERY);
    let mut screen = Screen::default();
    let mut is_open = true;
    loop {
        terminal.0.draw(|frame| draw(frame, &screen, palette, clock.now()))?;
        let [terminate, interrupt, hangup] = &mut ends[..] else { return Ok(()) };
        tokio::select! {
            update = updates.recv(), if is_open => match update {
                Some(Update::Event(event)) => screen.take_in(event, clock.now()),
                Some(Update::Away(why)) => screen.is_away(why),
                None => is_open = false,
            },
            input = keys.recv() => match input {
                Some(Input::Key(key)) if screen.press(key) == After::Quit => return Ok(()),
                // Another size: the next frame fits it.
                Some(_) => {}
                // The terminal is gone.
                None => return Ok(()),
            },
            _ = ticks.tick() => {}
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
        }
    }
}

/// Reads the keyboard on a thread of its own, which ends with the receiver or the terminal.
fn read_keys() -> mpsc::Receiver<Input> {
    let (sender, receiver) = mpsc::channel(KEYS_MAX);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let input = match event::poll(KEYS_EVERY) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let Ok(input) = input else { return };
            if sender.blocking_send(input).is_err() {
                return;
            }
        }
    });
    receiver
}
