//! The clocks of a machine whose date is changed: one that the test moves, and the machine's own with another date.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tollway_core::{BootId, Clock, Span, Timestamp, Uptime};

/// A machine whose date and uptime the test moves.
#[derive(Debug)]
pub struct MachineClock {
    date: AtomicU64,
    since_boot: AtomicU64,
    boots: AtomicU64,
}

impl MachineClock {
    /// A machine that was started a minute ago.
    pub fn at(date: Timestamp) -> Self {
        let since_boot = Span::from_mins(1).as_micros();
        Self { date: date.as_micros().into(), since_boot: since_boot.into(), boots: 1.into() }
    }

    /// Time passes.
    pub fn advance(&self, span: Span) {
        self.date.fetch_add(span.as_micros(), Ordering::SeqCst);
        self.since_boot.fetch_add(span.as_micros(), Ordering::SeqCst);
    }

    /// The date is changed, even to an earlier one. No time passes.
    pub fn set_date(&self, date: Timestamp) {
        self.date.store(date.as_micros(), Ordering::SeqCst);
    }

    /// The machine starts again. The date stays.
    pub fn reboot(&self) {
        self.boots.fetch_add(1, Ordering::SeqCst);
        self.since_boot.store(0, Ordering::SeqCst);
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.date.load(Ordering::SeqCst))
    }

    fn uptime(&self) -> Option<Uptime> {
        let boot = BootId(self.boots.load(Ordering::SeqCst).into());
        Some(Uptime { boot, since_boot: Span::from_micros(self.since_boot.load(Ordering::SeqCst)) })
    }
}

/// A clock whose date is changed while it goes on; its uptime is the real one.
pub struct SteppedClock {
    clock: Arc<dyn Clock>,
    ahead_by: AtomicI64,
}

impl SteppedClock {
    /// This clock, with its own date at first.
    pub fn of(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ahead_by: AtomicI64::new(0) }
    }

    /// Sets the date this far back, in addition to what it is already.
    pub fn set_back(&self, by: Span) {
        self.ahead_by.fetch_sub(by.as_micros().cast_signed(), Ordering::SeqCst);
    }

    /// Sets the date this far forward, in addition to what it is already.
    pub fn set_forward(&self, by: Span) {
        self.ahead_by.fetch_add(by.as_micros().cast_signed(), Ordering::SeqCst);
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        let micros = self.clock.now().as_micros();
        Timestamp::from_micros(micros.saturating_add_signed(self.ahead_by.load(Ordering::SeqCst)))
    }

    fn uptime(&self) -> Option<Uptime> {
        self.clock.uptime()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_date_leaves_the_uptime_alone() {
        let machine = Arc::new(MachineClock::at(Timestamp::from_secs(10_000)));
        let stepped = SteppedClock::of(machine.clone());
        stepped.set_back(Span::from_hours(1));
        machine.advance(Span::from_secs(5));
        assert_eq!(stepped.now(), Timestamp::from_secs(6_405));
        assert_eq!(stepped.uptime(), machine.uptime());
        machine.set_date(Timestamp::from_secs(7));
        assert_eq!((machine.now(), stepped.now()), (Timestamp::from_secs(7), Timestamp::EPOCH));
        let before = machine.uptime();
        machine.reboot();
        assert_ne!(before.unwrap().boot, machine.uptime().unwrap().boot);
    }
}
