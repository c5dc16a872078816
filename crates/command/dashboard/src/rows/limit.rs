//! One limit of a used policy: what it denied, and what the store said of it.

use tollway::{Name, Timestamp};

use super::recent::{Growth, Recent, STEP};

/// One limit of a used policy.
pub(crate) struct TrackedLimit {
    pub(crate) name: Name,
    /// `POLICY/LIMIT`.
    pub(crate) id: String,
    pub(crate) is_stopped: bool,
    denied: Growth,
    pub(crate) recent: Option<Box<RecentLimit>>,
    pub(crate) reading: Option<Reading>,
}

/// The five minutes of a limit.
pub(crate) struct RecentLimit {
    pub(crate) denied: Recent<u32>,
    /// In 63rds of the capacity; [`UNKNOWN`] if it was not read.
    pub(crate) used: Recent<u8>,
}

/// A step in which the store was not asked.
pub(crate) const UNKNOWN: u8 = u8::MAX;

/// What the store said of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) used: u64,
    pub(crate) capacity: u64,
    /// By the local clock.
    pub(crate) resets_at: Timestamp,
    pub(crate) held_until: Option<Timestamp>,
    /// When it was read, by the local clock.
    pub(crate) at: Timestamp,
}

impl TrackedLimit {
    pub(super) fn new(policy: &Name, name: &Name) -> Self {
        Self {
            name: name.clone(),
            id: format!("{policy}/{name}"),
            is_stopped: false,
            // What it counted before is growth: it is new.
            denied: Growth::default(),
            recent: None,
            reading: None,
        }
    }

    /// Returns how many takes it denied since the last call.
    pub(super) fn read_counter(&mut self, denied: u64) -> u64 {
        self.denied.read(denied)
    }

    /// Keeps five minutes of it.
    pub(super) fn remember(&mut self) {
        let (denied, used) = (Recent::of(0), Recent::of(UNKNOWN));
        self.recent = Some(Box::new(RecentLimit { denied, used }));
    }

    pub(super) fn forget(&mut self) {
        (self.recent, self.reading) = (None, None);
    }

    pub(super) fn end_step(&mut self, now: Timestamp) -> u32 {
        let denied = self.denied.end_step();
        let used = self.reading_in_step(now).map_or(UNKNOWN, |reading| reading.in_63rds(now));
        if let Some(recent) = &mut self.recent {
            recent.denied.push(denied);
            recent.used.push(used);
        }
        denied
    }

    /// Takes that it denied in five minutes, with the step that runs.
    pub(crate) fn denied_5m(&self) -> u64 {
        self.recent.as_ref().map_or(0, |recent| recent.denied.sum()) + self.denied.in_step()
    }

    /// The reading, if it is not older than two steps.
    pub(crate) fn reading_in_step(&self, now: Timestamp) -> Option<Reading> {
        self.reading.filter(|reading| now.since(reading.at) <= STEP.times(2))
    }

    pub(super) fn is_empty(&self, now: Timestamp) -> bool {
        self.reading.is_none_or(|reading| reading.used == 0 || reading.resets_at <= now)
    }
}

impl Reading {
    /// What is used now: nothing, if its window has ended since it was read.
    pub(crate) fn used_at(&self, now: Timestamp) -> u64 {
        if self.resets_at <= now && now.since(self.at) > STEP { 0 } else { self.used }
    }

    pub(crate) fn permille(&self, now: Timestamp) -> u64 {
        match self.capacity {
            0 => 0,
            capacity => {
                let permille = u128::from(self.used_at(now)) * 1_000 / u128::from(capacity);
                u64::try_from(permille).unwrap_or(u64::MAX)
            }
        }
    }

    fn in_63rds(&self, now: Timestamp) -> u8 {
        // A little that is used shows as something.
        u8::try_from((self.permille(now) * 63).div_ceil(1_000).min(63)).unwrap_or(63)
    }
}
