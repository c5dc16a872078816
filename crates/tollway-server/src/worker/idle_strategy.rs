//! What a worker does before it waits for events, by the protocol it answered last. By the bench's group `server`, a sleep and
//! a wake-up cost more than most answers, and a worker that never sleeps starves other threads on its core.

use std::cell::Cell;
use std::time::Duration;

/// What a worker does before it waits for events.
#[derive(Clone, Copy)]
pub(crate) enum IdleStrategy {
    /// Yields the core. HTTP/2 clients take long to build a request: those on the worker's core run first, and their
    /// requests are read together.
    Yield,
    /// Sleeps for microseconds after some answers. Clients of HTTP/1 and of the Redis protocol send one request after the
    /// other: other threads on the core run, and requests that arrive meanwhile are answered together. A yield instead can
    /// last until another thread is preempted, milliseconds later.
    BatchingPause,
}

/// How many answers make a pause worthwhile.
const PAUSE_AFTER_ANSWERS_MIN: u32 = 4;

/// The pause per answer: about as long as the answer took, to which the system adds 50 us. In a shorter pause too few requests
/// arrive to pay for it; a longer one adds latency.
const PER_ANSWER: Duration = Duration::from_micros(8);

/// The pause is never longer than for this many answers.
const ANSWERS_MAX: u32 = 32;

thread_local! {
    static NEXT: Cell<IdleStrategy> = const { Cell::new(IdleStrategy::BatchingPause) };
    static ANSWERS: Cell<u32> = const { Cell::new(0) };
    static ACTIVE: Cell<u32> = const { Cell::new(0) };
}

impl IdleStrategy {
    /// Notes one answer of this thread, or several that go out together, and the strategy after it.
    pub(crate) fn after_answer(self) {
        NEXT.set(self);
        ANSWERS.set(ANSWERS.get().saturating_add(1));
    }

    /// Notes how many connections of this thread sent a request lately.
    pub(super) fn expect(active: u32) {
        ACTIVE.set(active);
    }

    /// Runs before the thread parks.
    pub(super) fn take() {
        let answers = ANSWERS.replace(0);
        match NEXT.get() {
            Self::Yield => std::thread::yield_now(),
            Self::BatchingPause if is_pause_worthwhile(answers, ACTIVE.get()) => {
                std::thread::sleep(pause_after(answers));
            }
            Self::BatchingPause => {}
        }
    }
}

/// If every active connection was waiting, the worker is late already, and a pause would only add latency.
fn is_pause_worthwhile(answers: u32, active: u32) -> bool {
    (PAUSE_AFTER_ANSWERS_MIN..active).contains(&answers)
}

fn pause_after(answers: u32) -> Duration {
    PER_ANSWER.saturating_mul(answers.min(ANSWERS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_batching_pause_when_every_connection_was_answered() {
        assert!(is_pause_worthwhile(4, 5));
        assert!(!is_pause_worthwhile(3, 5), "too few");
        assert!(!is_pause_worthwhile(5, 5), "every active connection was answered");
        assert!(!is_pause_worthwhile(4, 0), "no connection has sent a request yet");
    }

    #[test]
    fn the_batching_pause_is_bounded() {
        assert_eq!(pause_after(u32::MAX), pause_after(ANSWERS_MAX));
        assert!(pause_after(PAUSE_AFTER_ANSWERS_MIN) < pause_after(ANSWERS_MAX));
    }
}
