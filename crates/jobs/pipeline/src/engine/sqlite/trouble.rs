//! Says that something fails: once when it begins, once a minute while it lasts, and once when it is over. On a full disk, every
//! transaction fails, and a line for each would fill the log.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// How often it is said again.
const REPEAT_EVERY: Duration = Duration::from_secs(60);

/// What fails, and since when.
pub(super) struct Trouble {
    what: &'static str,
    current: Option<Current>,
}

struct Current {
    error: String,
    begun_at: Instant,
    said_at: Instant,
    /// Failures since then.
    unsaid: u64,
}

/// What to say.
#[derive(Debug, PartialEq, Eq)]
enum Remark {
    Begins,
    /// It goes on, with this many failures more.
    Lasts(u64),
    /// It is over, after this time.
    Over(Duration),
}

impl Trouble {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, current: None }
    }

    /// It was tried: logs what is new about that.
    // How long trouble lasts is no time of a job.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn tried<T, E: Display>(&mut self, ended: &Result<T, E>) {
        let (what, now) = (self.what, Instant::now());
        let Err(error) = ended else {
            if let Some(Remark::Over(lasted)) = self.succeeded(now) {
                tracing::info!(seconds = lasted.as_secs(), "it is over: {what}");
            }
            return;
        };
        let error = error.to_string();
        match self.failed(&error, now) {
            Some(Remark::Lasts(failures)) => tracing::warn!(error, failures, "still: {what}"),
            Some(_) => tracing::warn!(error, "{what}"),
            None => {}
        }
    }

    fn failed(&mut self, error: &str, now: Instant) -> Option<Remark> {
        match &mut self.current {
            Some(current) if current.error == error => {
                current.unsaid += 1;
                if now.duration_since(current.said_at) < REPEAT_EVERY {
                    return None;
                }
                current.said_at = now;
                Some(Remark::Lasts(std::mem::take(&mut current.unsaid)))
            }
            current => {
                let begun_at = current.as_ref().map_or(now, |current| current.begun_at);
                *current = Some(Current { error: error.to_owned(), begun_at, said_at: now, unsaid: 0 });
                Some(Remark::Begins)
            }
        }
    }

    fn succeeded(&mut self, now: Instant) -> Option<Remark> {
        self.current.take().map(|current| Remark::Over(now.duration_since(current.begun_at)))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any time will do to count from")]
mod tests {
    use super::*;

    #[test]
    fn equal_failures_are_said_once_a_minute() {
        let (mut trouble, begin) = (Trouble::new("jobs cannot be stored"), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(trouble.succeeded(at(0)), None);
        assert_eq!(trouble.failed("full", at(0)), Some(Remark::Begins));
        let said: Vec<_> = (1..=120).filter_map(|second| trouble.failed("full", at(second))).collect();
        assert_eq!(said, [Remark::Lasts(60), Remark::Lasts(60)]);
        assert_eq!(trouble.succeeded(at(121)), Some(Remark::Over(Duration::from_secs(121))));
        assert_eq!(trouble.succeeded(at(122)), None);
    }

    #[test]
    fn another_failure_is_said_at_once() {
        let (mut trouble, now) = (Trouble::new("jobs cannot be stored"), Instant::now());
        assert_eq!(trouble.failed("full", now), Some(Remark::Begins));
        assert_eq!(trouble.failed("locked", now), Some(Remark::Begins));
    }
}
