//! The last hour and the last day of the limits that are used most, in bounded memory.
//!
//! `series` is one limit, `count` packs a number into 16 bits, `file` keeps all over a restart.

mod count;
mod file;
mod series;

use std::collections::HashMap;

use tollway::Timestamp;

pub(crate) use file::HistoryFile;
use series::{Point, SERIES_BYTES};
pub(crate) use series::{Series, Span};

use crate::rows::{LIMITS_MAX, RECENT_BYTES, StepOfLimit};

/// The limits that have a history.
pub(crate) const SERIES_MAX: usize = 500;

/// The memory of the history.
const BYTES_MAX: usize = 8 * 1_000 * 1_000;

/// 500 x (720 + 1,440) points of 6 bytes are 6.5 MB; names and changed amounts are the rest.
const _: () = assert!(SERIES_MAX * SERIES_BYTES <= BYTES_MAX);

/// The five minutes of all other limits are 3.2 MB: takes of each policy, granted and as a shadow, and its limits.
const _: () = assert!(LIMITS_MAX * (2 * 4 * 60 + RECENT_BYTES) <= BYTES_MAX / 2);

/// How much more a limit must be used to push another out, so that two do not take turns.
const MARGIN: f64 = 1.2;

/// The histories, by `POLICY/LIMIT`.
pub(crate) struct History {
    series: HashMap<String, Series>,
    /// Since when something is known.
    since: Timestamp,
    /// The use of the limit that is used least among them.
    least: f64,
}

impl History {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { series: HashMap::new(), since: now, least: 0.0 }
    }

    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }

    pub(crate) fn of(&self, id: &str) -> Option<&Series> {
        self.series.get(id)
    }

    /// Notes a step of a limit, if it is among the most used.
    pub(crate) fn note(&mut self, step: u64, of: &StepOfLimit<'_>, now: Timestamp) {
        let score = of.policy.score;
        if !self.series.contains_key(&of.limit.id) {
            if self.series.len() >= SERIES_MAX && !self.make_room(score) {
                return;
            }
            self.series.insert(of.limit.id.clone(), Series::new(step));
        }
        let Some(series) = self.series.get_mut(&of.limit.id) else { return };
        let reading = of.limit.reading_in_step(now);
        let used = reading.map(|reading| (reading.used_at(now), reading.capacity));
        series.note(step, Point::new(used, of.granted, of.denied));
        series.score = score;
        if let Some(limit) = of
            .policy
            .in_force
            .as_deref()
            .and_then(|policy| policy.limits().iter().find(|limit| *limit.name() == of.limit.name))
        {
            let amount = if of.limit.is_stopped { 0 } else { limit.amount() };
            series.note_amount(step, amount, limit.capacity());
        }
    }

    /// Drops the limit that is used least, if this one is used more.
    fn make_room(&mut self, score: f64) -> bool {
        if score <= self.least * MARGIN {
            return false;
        }
        let least = self.series.iter().min_by(|(_, one), (_, other)| one.score.total_cmp(&other.score));
        let Some((id, least)) = least.map(|(id, series)| (id.clone(), series.score)) else { return true };
        self.least = least;
        if score <= least * MARGIN {
            return false;
        }
        self.series.remove(&id);
        true
    }
}
