//! The network between processes and the store: how long a message takes, and which messages are lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollway_testkit::Random;

/// Half of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    First,
    Second,
}

/// How many of a thousand messages are lost on a network that works.
const LOST_PER_THOUSAND: u64 = 1;

/// How long a message takes one way.
const MILLIS: (u64, u64) = (1, 4);

/// Which regions reach the store.
#[derive(Default)]
pub(crate) struct Network {
    cut_off: [AtomicBool; 2],
}

impl Network {
    pub(crate) fn set_cut_off(&self, region: Region, cut_off: bool) {
        self.cut_off[region as usize].store(cut_off, Ordering::Relaxed);
    }

    pub(crate) fn is_cut_off(&self, region: Region) -> bool {
        self.cut_off[region as usize].load(Ordering::Relaxed)
    }

    /// Waits until a message would arrive. False if it is lost.
    pub(crate) async fn carry(&self, region: Region, random: &mut Random) -> bool {
        tokio::time::sleep(Duration::from_millis(random.between(MILLIS.0, MILLIS.1))).await;
        !self.is_cut_off(region) && !random.per_thousand(LOST_PER_THOUSAND)
    }
}
