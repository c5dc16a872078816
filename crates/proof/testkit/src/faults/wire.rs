//! The state shared by all connections of a proxy: the fault and the counters.

use std::time::Duration;

use super::lane::Pace;
use super::{Counts, Fault, Way};

/// The state of the network.
#[derive(Default)]
pub(super) struct Wire {
    /// The current fault.
    pub(super) fault: Option<Fault>,
    /// The counters.
    pub(super) counts: Counts,
}

impl Wire {
    /// Whether new connections are accepted. In a black hole only the system's backlog accepts them.
    pub(super) fn accepts(&self) -> bool {
        !matches!(self.fault, Some(Fault::Blackhole | Fault::Refuse))
    }

    /// The fixed delay of bytes, and the largest jitter.
    pub(super) fn latency(&self) -> (Duration, Duration) {
        match self.fault {
            Some(Fault::Latency { fixed, jitter }) => (fixed, jitter),
            _ => (Duration::ZERO, Duration::ZERO),
        }
    }

    /// The pace in this direction, on a connection that carried `carried` bytes since the fault was set.
    pub(super) fn pace(&self, way: Way, carried: u64) -> Pace {
        match self.fault {
            Some(Fault::Blackhole) => Pace::Held,
            Some(Fault::HalfOpen) if way == Way::ToClient => Pace::Held,
            Some(Fault::Slow { bytes_per_second }) => Pace::Slow(bytes_per_second.max(1)),
            Some(Fault::CutAfter { way: cut, bytes }) if cut == way => {
                Pace::Upto(bytes.saturating_sub(carried))
            }
            _ => Pace::Free,
        }
    }

    /// Whether replies are lost.
    pub(super) fn loses_replies(&self) -> bool {
        matches!(self.fault, Some(Fault::LoseReplies { .. }))
    }

    /// Counts a lost reply. The last one clears the fault.
    pub(super) fn lose_one(&mut self) {
        let Some(Fault::LoseReplies { times: Some(times) }) = &mut self.fault else { return };
        *times = times.saturating_sub(1);
        if *times == 0 {
            self.fault = None;
        }
    }
}
