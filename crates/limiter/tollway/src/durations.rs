//! Durations as people say them: `30.seconds()`.

use std::time::Duration;

/// Makes a [`Duration`] out of a number.
///
/// ```
/// use tollway::Durations;
/// assert_eq!(2.minutes(), std::time::Duration::from_secs(120));
/// ```
pub trait Durations {
    /// This many milliseconds.
    fn millis(self) -> Duration;
    /// This many seconds.
    fn seconds(self) -> Duration;
    /// This many minutes.
    fn minutes(self) -> Duration;
}

impl Durations for u64 {
    fn millis(self) -> Duration {
        Duration::from_millis(self)
    }

    fn seconds(self) -> Duration {
        Duration::from_secs(self)
    }

    fn minutes(self) -> Duration {
        Duration::from_secs(self.saturating_mul(60))
    }
}
