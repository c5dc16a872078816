//! How long something took, whatever becomes of the date meanwhile.

use tokio::time::Instant;
use tollway::Span;

/// Measures by the monotonic clock. Differences of dates are for what is stored, and not for messages: after a step of the
/// date they would say that a minute took an hour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Span {
        self.0.elapsed().into()
    }
}
