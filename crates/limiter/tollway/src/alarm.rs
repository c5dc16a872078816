//! Alarms while takes are still decided: a store that keeps throttling, one that answers slowly, and a server that limits
//! the charges in flight to it. Each is logged once when it begins and shows in the metrics.
//!
//! Callers pass the time; nothing here reads a clock.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollway_core::bounds::MEMORY_ALARM;
use tollway_core::{Span, Timestamp};

use crate::Limiter;

/// Throttling that lasts this long raises the alarm.
const THROTTLED_FOR: Span = Span::from_secs(30);

/// The alarm ends this long after the last throttled answer, or the last take denied for charges in flight.
const QUIET_FOR: Span = Span::from_secs(60);

/// An acquisition that takes longer is slow.
const SLOW: Span = Span::from_millis(50);

/// Of this many acquisitions one may be slow: the 99th percentile.
const SLOW_ONE_IN: u64 = 100;

/// How long acquisitions are counted before they are judged.
const WINDOW: Span = Span::from_secs(60);

/// A condition of a limiter's store that needs an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAlarm {
    /// Takes are decided without the store.
    Fallback,
    /// The store has been throttling for long, and still does.
    Throttled,
    /// The 99th percentile of acquisitions is above 50 ms.
    Slow,
    /// The store uses four fifths of its memory, or more.
    Filling,
    /// A server denied takes in the last minute, because too many charges were in flight to the store.
    ChargesLimited,
}

impl StoreAlarm {
    /// A short name that stays the same, for machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fallback => "fallback",
            Self::Throttled => "store_throttled",
            Self::Slow => "acquisition_slow",
            Self::Filling => "store_filling",
            Self::ChargesLimited => "charges_limited",
        }
    }
}

impl fmt::Display for StoreAlarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fallback => "the store does not answer, and takes are decided without it",
            Self::Throttled => "the store keeps throttling: raise its capacity, or lease units",
            Self::Slow => {
                "the 99th percentile of an acquisition is above 50 ms: check the store and the network to it"
            }
            Self::Filling => {
                "the store uses 80 % of its memory or more: raise it, before new subjects must share accounts"
            }
            Self::ChargesLimited => {
                "takes are denied because more are in flight than the store can answer in time: find the caller that sends \
                 them, or use a faster store"
            }
        })
    }
}

impl Limiter {
    /// The alarms of the store that are raised now.
    pub fn store_alarms(&self) -> Vec<StoreAlarm> {
        let state = self.registry().state();
        let now = state.clock.now();
        let raised = [
            (StoreAlarm::Fallback, self.store_status().degraded_since.is_some()),
            (StoreAlarm::Throttled, state.alarms.is_throttled(now)),
            (StoreAlarm::Slow, state.alarms.is_slow(now)),
            (StoreAlarm::Filling, state.store.figures().memory_used.is_some_and(|used| used >= MEMORY_ALARM)),
            (StoreAlarm::ChargesLimited, state.alarms.is_limiting(now)),
        ];
        raised.into_iter().filter(|(_, is_raised)| *is_raised).map(|(alarm, _)| alarm).collect()
    }

    /// A server in front of the limiter denied a take because too many charges were in flight to the store. Raises
    /// [`StoreAlarm::ChargesLimited`] for a minute.
    pub fn note_charges_limited(&self) {
        let state = self.registry().state();
        state.alarms.charges_limited(state.clock.now());
    }
}

/// The alarms of one limiter.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    state: Mutex<State>,
    /// When a take was last denied for charges in flight, in microseconds; 0 if none was. Not under the lock: a flood
    /// denies many.
    limited_at: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    throttling: Option<Throttling>,
    window: LatencyWindow,
    /// Whether the last acquisitions that were judged were slow.
    slow: bool,
}

/// The store throttles.
#[derive(Clone, Copy, Debug)]
struct Throttling {
    since: Timestamp,
    last: Timestamp,
    told: bool,
}

/// Acquisitions that are not judged yet.
#[derive(Clone, Copy, Debug, Default)]
struct LatencyWindow {
    since: Timestamp,
    all: u64,
    slow: u64,
}

impl Throttling {
    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.last) > QUIET_FOR
    }

    fn lasts(&self) -> bool {
        self.last.since(self.since) >= THROTTLED_FOR
    }
}

impl LatencyWindow {
    /// One that was slow is an accident.
    fn is_slow(&self) -> bool {
        self.slow > 1 && self.slow.saturating_mul(SLOW_ONE_IN) > self.all
    }
}

impl Alarms {
    /// A call or a probe was throttled, after all retries.
    pub(crate) fn throttled(&self, now: Timestamp) {
        let mut state = self.state();
        let new = Throttling { since: now, last: now, told: false };
        let mut throttling = state.throttling.filter(|before| !before.is_over(now)).unwrap_or(new);
        throttling.last = throttling.last.max(now);
        if throttling.lasts() && !throttling.told {
            throttling.told = true;
            tracing::warn!(
                event = "RateLimiterStoreThrottled",
                since = %throttling.since,
                "the store keeps throttling: raise its capacity, or lease units (`lease = \"on\"`)"
            );
        }
        state.throttling = Some(throttling);
    }

    /// The store has decided a take within this time.
    pub(crate) fn note_latency(&self, time: Span, now: Timestamp) {
        let mut state = self.state();
        state.judge(now);
        state.window.all += 1;
        state.window.slow += u64::from(time > SLOW);
    }

    /// A take was denied because too many charges were in flight.
    pub(crate) fn charges_limited(&self, now: Timestamp) {
        self.limited_at.fetch_max(now.as_micros(), Ordering::Relaxed);
    }

    /// Whether that happened in the last minute.
    pub(crate) fn is_limiting(&self, now: Timestamp) -> bool {
        let at = self.limited_at.load(Ordering::Relaxed);
        at > 0 && now.since(Timestamp::from_micros(at)) <= QUIET_FOR
    }

    /// Whether the store has been throttling for long, and still does.
    pub(crate) fn is_throttled(&self, now: Timestamp) -> bool {
        self.state().throttling.is_some_and(|throttling| throttling.lasts() && !throttling.is_over(now))
    }

    /// Whether acquisitions are slow.
    pub(crate) fn is_slow(&self, now: Timestamp) -> bool {
        let mut state = self.state();
        state.judge(now);
        state.slow
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Judges the counted acquisitions once a minute is over; a window that ended long ago is ignored.
    fn judge(&mut self, now: Timestamp) {
        let lasted = now.since(self.window.since);
        if lasted < WINDOW {
            return;
        }
        let LatencyWindow { all, slow, .. } = self.window;
        let is_slow = self.window.is_slow() && lasted.as_micros() < 2 * WINDOW.as_micros();
        if is_slow && !self.slow {
            tracing::warn!(
                event = "RateLimiterAcquisitionSlow",
                takes = all,
                slow,
                "the 99th percentile of an acquisition is above 50 ms: check the store and the network to it"
            );
        }
        self.slow = is_slow;
        self.window = LatencyWindow { since: now, all: 0, slow: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + seconds)
    }

    /// G8.
    #[test]
    fn lasting_throttling_raises_an_alarm_that_ends_after_a_quiet_minute() {
        let alarms = Alarms::default();
        alarms.throttled(at(0));
        alarms.throttled(at(29));
        assert!(!alarms.is_throttled(at(40)), "it may pass");
        alarms.throttled(at(30));
        assert!(alarms.is_throttled(at(30)) && alarms.is_throttled(at(90)));
        assert!(!alarms.is_throttled(at(91)), "no call was throttled for a minute");
        alarms.throttled(at(100));
        assert!(!alarms.is_throttled(at(100)), "a new one starts at zero");
    }

    #[test]
    fn denials_for_charges_in_flight_raise_an_alarm_that_ends_after_a_quiet_minute() {
        let alarms = Alarms::default();
        assert!(!alarms.is_limiting(at(0)));
        alarms.charges_limited(at(0));
        alarms.charges_limited(at(30));
        assert!(alarms.is_limiting(at(30)) && alarms.is_limiting(at(90)));
        assert!(!alarms.is_limiting(at(91)), "none was denied for a minute");
    }

    fn minute(alarms: &Alarms, from: u64, quick: u64, slow: u64) {
        (0..quick).for_each(|_| alarms.note_latency(SLOW, at(from)));
        (0..slow).for_each(|_| alarms.note_latency(SLOW.plus(Span::from_micros(1)), at(from + 59)));
    }

    /// G12: above 50 ms for more than one of a hundred.
    #[test]
    fn slow_acquisitions_are_raised_by_the_minute() {
        let alarms = Alarms::default();
        alarms.note_latency(Span::ZERO, at(0));
        minute(&alarms, 0, 197, 2);
        assert!(!alarms.is_slow(at(60)), "two of two hundred are one of a hundred");
        minute(&alarms, 60, 198, 3);
        assert!(!alarms.is_slow(at(119)), "the minute is not over");
        assert!(alarms.is_slow(at(120)), "three of two hundred and one");
        minute(&alarms, 120, 1, 1);
        assert!(!alarms.is_slow(at(180)), "one is an accident");
        minute(&alarms, 180, 0, 5);
        assert!(!alarms.is_slow(at(1_000)), "long ago");
    }
}
