//! What is known of the process, and what the reader has chosen to see.

use tollway_core::{Span, Timestamp};
use tollway_dashboard::snapshot::{Row, Snapshot};

use crate::order::Order;
use crate::stream::Event;

/// Figures older than this are marked: one comes a second.
const STALE_AFTER: Span = Span::from_secs(3);

/// The state of the screen.
#[derive(Default)]
pub struct Screen {
    snapshot: Option<Snapshot>,
    /// When the last event came, by the local clock.
    heard_at: Option<Timestamp>,
    /// Why nothing comes.
    away: Option<String>,
    order: Order,
    /// Rows that are scrolled past.
    pub(crate) scrolled: usize,
    pub(crate) filter: String,
    /// Whether what is typed goes into the filter.
    pub(crate) is_filtering: bool,
    pub(crate) shows_keys: bool,
}

impl Screen {
    /// Takes in what the server sent.
    pub fn take_in(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Snapshot(snapshot) => self.snapshot = Some(*snapshot),
            Event::Changes(changes) => {
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.apply(*changes);
                }
            }
        }
        self.heard_at = Some(now);
        self.away = None;
        if let Some(snapshot) = &mut self.snapshot {
            self.order.sort(&mut snapshot.rows, now);
        }
    }

    /// The server cannot be reached. What is known stays on the screen.
    pub fn is_away(&mut self, why: String) {
        self.away = Some(why);
    }

    /// What the server sent last, with what changed since.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    pub(crate) fn away(&self) -> Option<&str> {
        self.away.as_deref()
    }

    /// How old the figures are, if they are old.
    pub(crate) fn stale(&self, now: Timestamp) -> Option<Span> {
        Some(now.since(self.heard_at?)).filter(|age| *age > STALE_AFTER)
    }

    /// The rows that the filter lets through, in order.
    pub(crate) fn rows(&self) -> Vec<&Row> {
        let wanted = self.filter.to_lowercase();
        let rows = self.snapshot.iter().flat_map(|snapshot| &snapshot.rows);
        rows.filter(|row| row.id.to_lowercase().contains(&wanted)).collect()
    }
}
