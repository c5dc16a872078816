//! Whether the store is asked at all: after failures in a row it is left alone, and probed until it answers again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tollway_core::{Fault, Retry, Span, StoreError, StoreResult, Timestamp};

/// So many failures in a row, and the store is left alone (G7).
const FAILURES_MAX: u32 = 3;

/// Lines that cannot be used are told of no more often: there may be many, and many takes of each.
const TELL_OF_LINES_EVERY: Span = Span::from_secs(60);

/// How the store has been doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// Since when decisions are made without the store, if they are.
    pub degraded_since: Option<Timestamp>,
    /// How many decisions were made without the store.
    pub degraded_decisions: u64,
    /// How often the store was left alone.
    pub fallbacks: u64,
    /// Why the store was last left alone.
    pub last_error: Option<String>,
}

/// The breaker of one store.
#[derive(Default)]
pub(crate) struct Breaker {
    /// The state once more, for whoever only wants to know whether to ask.
    open: AtomicBool,
    state: Mutex<State>,
    pub(crate) degraded_decisions: AtomicU64,
}

#[derive(Default)]
struct State {
    phase: Phase,
    fallbacks: u64,
    last_error: Option<String>,
    /// When a line that cannot be used was last told of.
    told_of_line: Option<Timestamp>,
}

enum Phase {
    /// The store is asked; it has failed so often in a row.
    Closed { failures: u32 },
    /// The store is left alone but for probes.
    Open { since: Timestamp },
}

impl Default for Phase {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

/// What a failure led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Led {
    /// The store is asked on.
    Nowhere,
    /// The store is left alone from now on: somebody must probe it.
    ToProbing,
}

impl Breaker {
    /// Why not to ask the store, if it is left alone.
    #[inline]
    pub(crate) fn refuses(&self) -> Option<StoreError> {
        if !self.open.load(Ordering::Acquire) {
            return None;
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = state.last_error.as_deref().unwrap_or("it failed");
        let message = format!("the store is left alone until it answers again: {cause}");
        Some(StoreError { fault: Fault::Network, retry: Retry::Safe, message })
    }

    /// Takes note of an answer.
    pub(crate) fn note(&self, result: &StoreResult, now: Timestamp) -> Led {
        match result {
            // Whoever asked for what cannot be does not tell that the store is ill.
            Ok(_) => self.succeeded(),
            Err(error) if error.fault == Fault::Caller => self.succeeded(),
            // It answers, if only to say that it cannot use this one line: others must not suffer for it.
            Err(error) if error.fault == Fault::Line => self.line_failed(error, now),
            Err(error) => self.failed(error, now),
        }
    }

    fn succeeded(&self) -> Led {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Phase::Closed { failures } = &mut state.phase {
            *failures = 0;
        }
        Led::Nowhere
    }

    /// Somebody must look at it, and need not be told with every take.
    fn line_failed(&self, error: &StoreError, now: Timestamp) -> Led {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.told_of_line.is_none_or(|told| now.since(told) >= TELL_OF_LINES_EVERY) {
            state.told_of_line = Some(now);
            tracing::warn!(%error, "a line cannot be used; its takes are decided without the store");
        }
        Led::Nowhere
    }

    fn failed(&self, error: &StoreError, now: Timestamp) -> Led {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Phase::Closed { failures } = &mut state.phase else { return Led::Nowhere };
        // Who was throttled was refused five times in a row already (G8).
        *failures = if error.fault == Fault::Throttled { FAILURES_MAX } else { *failures + 1 };
        if *failures == 1 {
            tracing::warn!(%error, "the store did not decide");
        }
        if *failures < FAILURES_MAX {
            return Led::Nowhere;
        }
        state.phase = Phase::Open { since: now };
        state.fallbacks += 1;
        state.last_error = Some(error.to_string());
        self.open.store(true, Ordering::Release);
        tracing::warn!(event = "RateLimiterFallbackActivated", %error, "the store is left alone; decisions are made without it");
        Led::ToProbing
    }

    /// A probe was answered and what was owed is settled: the store is asked again.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.phase = Phase::Closed { failures: 0 };
        self.open.store(false, Ordering::Release);
        tracing::info!(event = "RateLimiterFallbackEnded", "the store answers again");
    }

    pub(crate) fn status(&self) -> StoreStatus {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        StoreStatus {
            degraded_since: match state.phase {
                Phase::Open { since } => Some(since),
                Phase::Closed { .. } => None,
            },
            degraded_decisions: self.degraded_decisions.load(Ordering::Relaxed),
            fallbacks: state.fallbacks,
            last_error: state.last_error.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(fault: Fault) -> StoreResult {
        Err(StoreError { fault, retry: Retry::Safe, message: "gone".to_owned() })
    }

    #[test]
    fn three_failures_in_a_row_leave_the_store_alone() {
        let breaker = Breaker::default();
        let at = Timestamp::from_secs;
        let answers = [failure(Fault::Network), failure(Fault::Store), Ok(Default::default())];
        for round in 0..3 {
            for answer in &answers {
                assert_eq!(breaker.note(answer, at(round)), Led::Nowhere);
            }
        }
        assert!(breaker.refuses().is_none());
        let led: Vec<Led> = (1..=4).map(|now| breaker.note(&failure(Fault::Network), at(now))).collect();
        assert_eq!(led, [Led::Nowhere, Led::Nowhere, Led::ToProbing, Led::Nowhere]);
        assert_eq!(breaker.status().degraded_since, Some(at(3)));
        assert!(breaker.refuses().is_some_and(|error| error.to_string().contains("gone")));
        breaker.close();
        assert!(breaker.refuses().is_none());
        assert_eq!(breaker.status().fallbacks, 1);
    }

    /// G8: its own retries are the failures.
    #[test]
    fn a_store_that_throttles_is_left_alone_at_once() {
        let breaker = Breaker::default();
        assert_eq!(breaker.note(&failure(Fault::Throttled), Timestamp::EPOCH), Led::ToProbing);
        assert!(breaker.refuses().is_some());
    }

    #[test]
    fn a_wrong_question_and_an_unusable_line_are_not_the_stores_fault() {
        let breaker = Breaker::default();
        for _ in 0..10 {
            assert_eq!(breaker.note(&failure(Fault::Caller), Timestamp::EPOCH), Led::Nowhere);
            assert_eq!(breaker.note(&failure(Fault::Line), Timestamp::EPOCH), Led::Nowhere);
        }
    }

    /// G7: a store that will not let us is as good as away, however well it answers.
    #[test]
    fn a_store_that_refuses_us_is_left_alone() {
        let breaker = Breaker::default();
        let denied = || -> StoreResult {
            Err(StoreError {
                fault: Fault::Store,
                retry: Retry::Useless,
                message: "access denied".to_owned(),
            })
        };
        let led: Vec<Led> = (0..3).map(|_| breaker.note(&denied(), Timestamp::EPOCH)).collect();
        assert_eq!(led, [Led::Nowhere, Led::Nowhere, Led::ToProbing]);
        assert!(breaker.status().last_error.is_some_and(|error| error.contains("access denied")));
    }
}
