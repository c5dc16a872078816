//! The machine's clock, to guess which calendar windows the store will ask for. Redis has the last word on what time it is.
#![allow(clippy::disallowed_methods, reason = "this module is where the machine's clock comes in")]

use std::time::{SystemTime, UNIX_EPOCH};

use tollway_core::{Clock, Span, Timestamp};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::EPOCH.plus(Span::from(since))
    }
}
