//! The clocks of a simulation, all of which show tokio's paused time.

use tokio::time::Instant;
use tollway::{Clock, Span, Timestamp};

/// The first moment of an hour, so windows begin with the simulation.
pub(crate) const START: Timestamp = Timestamp::from_secs(500_000 * 3_600);

/// A clock that is right, or ahead or behind by a little, as clocks of machines are.
pub(crate) struct VirtualClock {
    started: Instant,
    ahead_millis: i64,
}

impl VirtualClock {
    pub(crate) fn new(started: Instant, ahead_millis: i64) -> Self {
        Self { started, ahead_millis }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let now = START.plus(Span::from(self.started.elapsed()));
        Timestamp::from_micros(now.as_micros().saturating_add_signed(self.ahead_millis * 1_000))
    }
}
