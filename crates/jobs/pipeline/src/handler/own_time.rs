//! Deadlines of handlers, which stand still while this process does not run.
//!
//! A process that is stopped (SIGSTOP, a paused machine) reads nothing: a handler may have answered in time, and have nothing to do
//! with the delay. So a gap between two ticks of the process does not count.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tollway_core::Span;

/// How often a process that waits for a deadline ticks. Whatever is longer between two ticks is a gap.
const TICK: Duration = Duration::from_secs(1);

/// How long an answer is read after its deadline: it may have arrived, and wait in a pipe or a socket.
pub(super) const READ_WITHIN: Duration = Duration::from_millis(100);

/// The time in which this process ran.
pub(super) struct OwnTime {
    passed: Duration,
    read_at: Instant,
}

impl OwnTime {
    pub(super) fn new() -> Self {
        Self { passed: Duration::ZERO, read_at: Instant::now() }
    }

    /// How much has passed, without gaps.
    pub(super) fn now(&mut self) -> Duration {
        let since = self.read_at.elapsed();
        self.read_at += since;
        self.passed += since.min(TICK);
        self.passed
    }

    /// What will have passed after this much more.
    pub(super) fn after(&mut self, span: Span) -> Duration {
        self.now() + Duration::from(span)
    }

    /// Waits until this much has passed.
    pub(super) async fn sleep_until(&mut self, at: Duration) {
        loop {
            let now = self.now();
            if now >= at {
                return;
            }
            sleep((at - now).min(TICK)).await;
        }
    }
}

/// What `work` comes to within this much of the process's own time.
pub(super) async fn within<T>(limit: Span, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut time) = (pin!(work), OwnTime::new());
    tokio::select! {
        biased;
        done = &mut work => return Some(done),
        () = time.sleep_until(limit.into()) => {}
    }
    timeout(READ_WITHIN, work).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gap_extends_a_deadline_by_its_length() {
        let began = Instant::now();
        let limit = within(Span::from_secs(3), std::future::pending::<()>());
        let stopped = async {
            sleep(Duration::from_millis(500)).await;
            tokio::time::advance(Duration::from_secs(60)).await;
        };
        let (answer, ()) = tokio::join!(limit, stopped);
        assert_eq!(answer, None);
        assert!(began.elapsed() >= Duration::from_secs(62), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_without_a_gap_is_kept() {
        let began = Instant::now();
        assert_eq!(within(Span::from_mins(10), std::future::pending::<()>()).await, None);
        assert!(began.elapsed() < Duration::from_secs(605), "{:?}", began.elapsed());
    }

    /// The answer is there when the deadline is judged, and another task has yet to read it.
    #[tokio::test(start_paused = true)]
    async fn answer_that_has_arrived_is_read_after_its_deadline() {
        let work = sleep(Duration::from_secs(3) + READ_WITHIN / 2);
        assert_eq!(within(Span::from_secs(3), work).await, Some(()));
    }
}
