//! What all connections of a proxy have in common: the fault, and what was done.

use std::time::Duration;

use super::lane::Pace;
use super::{Counts, Fault, Way};

/// The state of the network.
#[derive(Default)]
pub(super) struct Wire {
    /// What is wrong with it.
    pub(super) fault: Option<Fault>,
    /// What was done.
    pub(super) counts: Counts,
}

impl Wire {
    /// Whether new connections are taken. In a black hole the system takes them, and they wait for us.
    pub(super) fn accepts(&self) -> bool {
        !matches!(self.fault, Some(Fault::Blackhole | Fault::Refuse))
    }

    /// How late bytes are, and how much later at most.
    pub(super) fn latency(&self) -> (Duration, Duration) {
        match self.fault {
            Some(Fault::Latency { fixed, jitter }) => (fixed, jitter),
            _ => (Duration::ZERO, Duration::ZERO),
        }
    }

    /// How bytes move this way, on a connection that carried so many since the fault was set.
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

    /// One connection loses its reply. The last one of so many leaves the network well.
    pub(super) fn lose_one(&mut self) {
        let Some(Fault::LoseReplies { times: Some(times) }) = &mut self.fault else { return };
        *times = times.saturating_sub(1);
        if *times == 0 {
            self.fault = None;
        }
    }
}
