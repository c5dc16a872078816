//! Waiting for another process, with a timeout.

use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to start or to stop.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Polls until there is a value, for `limit` at most.
#[allow(clippy::disallowed_methods, reason = "another process keeps the machine's time, not a test's")]
pub(crate) fn until<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = ask() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
