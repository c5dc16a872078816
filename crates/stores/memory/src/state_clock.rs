//! The time of a state that outlives its processes and the machine's date.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollway_core::{Clock, Span, TimeAnchor, Timestamp, Uptime};

/// A clock that is this much behind is reported. Less is over before a caller notices.
pub const BEHIND_MIN: Span = Span::from_secs(1);

/// How far the stored anchor may be behind before a newer one is stored. Far above what two readings of one moment differ, and
/// far below any window.
const STORE_AFTER: Span = Span::from_millis(10);

/// The machine's time, except that it never goes back: while the date is behind the newest time that the state has seen, it
/// goes on from there by the machine's uptime.
///
/// All processes of one boot agree on it, because they share the date, the uptime, and the [`TimeAnchor`] in the state. After
/// another boot it goes on from the newest time in the state. On a system without an uptime it is the machine's date.
///
/// ```
/// use std::sync::Arc;
/// use tollway_core::{Clock, Timestamp};
/// use tollway_memory::{StateClock, WallClock};
///
/// let clock = StateClock::new(Arc::new(WallClock));
/// let (date, newest_in_the_state) = (clock.now(), Timestamp::from_secs(4_000_000_000));
/// clock.resume(None, newest_in_the_state);
/// # #[cfg(target_os = "linux")]
/// assert!(clock.now() >= newest_in_the_state && date < newest_in_the_state);
/// ```
pub struct StateClock {
    machine: Arc<dyn Clock>,
    anchor: Mutex<Option<TimeAnchor>>,
}

/// An anchor that the state should keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAnchor {
    /// The anchor.
    pub anchor: TimeAnchor,
    /// Whether other processes need it to see time go on, and not only after the date is set back.
    pub urgent: bool,
}

impl StateClock {
    /// A clock for a state of which nothing is known yet.
    pub fn new(machine: Arc<dyn Clock>) -> Self {
        Self { machine, anchor: Mutex::default() }
    }

    /// Goes on from what the state knows: its anchor, and the newest time in it.
    pub fn resume(&self, stored: Option<TimeAnchor>, newest: Timestamp) {
        let Some(uptime) = self.machine.uptime() else { return };
        let known = stored.and_then(|stored| stored.time_at(uptime).or(Some(stored.at)));
        self.go_on(known.unwrap_or_default().max(newest), uptime);
    }

    /// The time for a caller that says it is `now`: never earlier than that.
    pub fn at_least(&self, now: Timestamp) -> Timestamp {
        // The date is read before the uptime. A pause in between can then only make an anchor too early, and the next one is
        // right; the other way round, it would put the clock ahead for good.
        self.machine.uptime().map_or(now, |uptime| self.go_on(now, uptime))
    }

    /// The time at this uptime, which is at least `now`.
    fn go_on(&self, now: Timestamp, uptime: Uptime) -> Timestamp {
        let mut anchor = self.lock();
        // Another thread may have read the uptime a moment later, and set the anchor first.
        match anchor.map(|anchor| anchor.time_at(uptime).unwrap_or(anchor.at)) {
            Some(time) if time >= now => time,
            _ => {
                *anchor = Some(TimeAnchor::new(now, uptime));
                now
            }
        }
    }

    /// The machine's date, which may be behind.
    pub fn date(&self) -> Timestamp {
        self.machine.now()
    }

    /// What the state should keep from now on, if others cannot go on from what it keeps. The caller's clock shows `date`.
    pub fn to_store(&self, stored: Option<TimeAnchor>, date: Timestamp) -> Option<NewAnchor> {
        let uptime = self.machine.uptime()?;
        let time = self.go_on(date, uptime);
        let known = stored.and_then(|stored| stored.time_at(uptime));
        let is_known = known.is_some_and(|known| time.since(known) <= STORE_AFTER);
        let urgent = time.since(date) > STORE_AFTER;
        (!is_known).then(|| NewAnchor { anchor: TimeAnchor::new(time, uptime), urgent })
    }

    fn lock(&self) -> MutexGuard<'_, Option<TimeAnchor>> {
        self.anchor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for StateClock {
    fn now(&self) -> Timestamp {
        self.at_least(self.machine.now())
    }

    fn uptime(&self) -> Option<Uptime> {
        self.machine.uptime()
    }
}

/// The time of another clock when this was made, and the time passed since then. Later changes of the date do not move it: what
/// was started with a time must not end with a step of the date.
#[derive(Clone)]
pub struct SteadyClock {
    clock: Arc<dyn Clock>,
    anchor: TimeAnchor,
}

impl SteadyClock {
    /// A clock that goes on from this one's time by the machine's uptime. `None`: this system has none.
    pub fn from_now(clock: Arc<dyn Clock>) -> Option<Self> {
        let now = clock.now();
        let anchor = TimeAnchor::new(now, clock.uptime()?);
        Some(Self { clock, anchor })
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        let time = self.clock.uptime().and_then(|uptime| self.anchor.time_at(uptime));
        time.unwrap_or(self.anchor.at)
    }

    fn uptime(&self) -> Option<Uptime> {
        self.clock.uptime()
    }
}

impl std::fmt::Debug for StateClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateClock").field("anchor", &self.anchor).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tollway_core::BootId;

    use super::*;

    struct Behind;

    impl Clock for Behind {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(1_000)
        }

        fn uptime(&self) -> Option<Uptime> {
            Some(Uptime { boot: BootId(1), since_boot: Span::from_secs(60) })
        }
    }

    /// A thread that read the uptime and was descheduled while another one learned what the state knows.
    #[test]
    fn a_late_reading_does_not_bring_the_date_back() {
        let clock = StateClock::new(Arc::new(Behind));
        let newest = Timestamp::from_secs(5_000);
        clock.resume(None, newest);
        let late = Uptime { boot: BootId(1), since_boot: Span::from_secs(59) };
        assert_eq!(clock.go_on(Timestamp::from_secs(1_000), late), newest);
        assert_eq!(clock.now(), newest);
    }
}
