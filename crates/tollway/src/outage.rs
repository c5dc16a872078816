//! The outage of a store, told in the order it happens.
//!
//! 1. **Closed.** Every take asks the store, and every answer is [`observed`]. Three failures in a row, or one throttling
//!    that its retries did not end, open the breaker.
//! 2. **Open.** Takes are decided without the store (see `fallback.rs`), and a background task probes it ([`open`]).
//! 3. **Returning.** A probe was answered: the store is told what was granted without it ([`returning`]). When it has
//!    taken that, the breaker closes.
//!
//! Failures too few to open the breaker leave debts as well; they are settled in the background
//! ([`settle_in_background`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tollway_core::{
    Action, Answer, Charge, Fault, Policy, Retry, Span, StoreError, StoreResult, Subject, Timestamp,
};

use crate::debit::{debit, send};
use crate::state::LimiterState;

/// This many failures in a row open the breaker.
const FAILURES_MAX: u32 = 3;

/// Accounts that cannot be used are logged no more often: there may be many, and many takes of each.
const UNUSABLE_LOGGED_EVERY: Span = Span::from_secs(60);

/// The first wait before a probe; each further one is twice as long.
const PROBE_WAIT_MIN: Duration = Duration::from_millis(50);

/// No wait is longer: so long after the store is back, it is asked again.
const PROBE_WAIT_MAX: Duration = Duration::from_secs(1);

/// How the store has been doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// Since when decisions are made without the store, if they are.
    pub degraded_since: Option<Timestamp>,
    /// How many decisions were made without the store.
    pub degraded_decisions: u64,
    /// How often the breaker opened.
    pub fallbacks: u64,
    /// Why the breaker last opened.
    pub last_error: Option<String>,
}

/// The breaker of one store.
#[derive(Default)]
pub(crate) struct Breaker {
    /// The phase once more, for takes, which only need to know whether to ask.
    open: AtomicBool,
    state: Mutex<BreakerState>,
    pub(crate) degraded_decisions: AtomicU64,
}

#[derive(Default)]
struct BreakerState {
    phase: Phase,
    fallbacks: u64,
    last_error: Option<String>,
    /// When an account that cannot be used was last logged.
    unusable_logged: Option<Timestamp>,
}

enum Phase {
    /// The store is asked; it has failed so often in a row.
    Closed { failures: u32 },
    /// Only probes ask the store.
    Open { since: Timestamp },
}

impl Default for Phase {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

/// What an answer changed.
#[derive(Debug, PartialEq, Eq)]
enum BreakerChange {
    None,
    /// It opened just now: a probing task must be started.
    Opened,
}

// === Closed ===

/// Passes an answer on, and takes note of how the store is doing.
pub(crate) fn observed(state: &Arc<LimiterState>, answer: Answer) -> Answer {
    match answer {
        Answer::Now(Some(result)) => {
            closed(state, &result);
            Answer::now(result)
        }
        later => {
            let state = Arc::clone(state);
            Answer::Later(Box::pin(async move {
                let result = later.await;
                closed(&state, &result);
                result
            }))
        }
    }
}

fn closed(state: &Arc<LimiterState>, result: &StoreResult) {
    let now = state.clock.now();
    state.note_throttling(result.as_ref().err(), now);
    match state.breaker.note(result, now) {
        BreakerChange::Opened => {
            let task = open(Arc::downgrade(state), first_probe_wait(result));
            state.timers.spawn_own(task);
        }
        // Failures here and there open nothing, and leave debts all the same.
        BreakerChange::None if result.is_ok() && state.fallback.owes() => settle_in_background(state),
        BreakerChange::None => {}
    }
}

// === Open ===

/// Probes the store until it is back, or until the limiter is gone.
async fn open(state: Weak<LimiterState>, mut wait: Duration) {
    loop {
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(PROBE_WAIT_MAX);
        let Some(state) = state.upgrade() else { return };
        if answers(&state).await && returning(&state).await {
            return;
        }
    }
}

/// What does not pass by itself is not worth hurrying for: a store that may be read and not written would be tried three
/// times more after each probe.
fn first_probe_wait(result: &StoreResult) -> Duration {
    match result {
        Err(error) if error.retry == Retry::Useless => PROBE_WAIT_MAX,
        _ => PROBE_WAIT_MIN,
    }
}

/// Peeks at an account that nothing uses: one that cannot be read must not stand for all others.
async fn answers(state: &LimiterState) -> bool {
    let Ok(policy) = Policy::new("tollway.probe", ["1 / second"]) else { return true };
    match send(state, Charge::new(Arc::new(policy), Subject::SHARED), Action::Peek).await {
        Ok(_) => true,
        Err(error) => matches!(error.fault, Fault::Caller | Fault::Account),
    }
}

// === Returning ===

/// Tells the store what was granted without it and closes the breaker; false if the store went away again.
async fn returning(state: &LimiterState) -> bool {
    if !settle(state).await {
        return false;
    }
    state.breaker.close();
    // Takes that wait for their turn may have it from the store now.
    state.queues.notify_all();
    true
}

/// Tells the store everything that was granted without it, also meanwhile; false if the store could not be reached or
/// lets nothing be written. What it refuses for one account stays owed, and holds up no other.
async fn settle(state: &LimiterState) -> bool {
    loop {
        let mut told = false;
        for owed in state.fallback.owed() {
            match debit(state, &owed.policy, &owed.subject, owed.spent.clone()).await {
                Ok(()) => {
                    state.fallback.settled(&owed);
                    told = true;
                }
                Err(error) if serves_no_caller(&error) => return false,
                Err(error) => tracing::debug!(%error, "what was granted without the store stays owed"),
            }
        }
        if !told {
            return true;
        }
    }
}

/// Whether an error says that no caller is served: a store that may be read and not written answers probes all the same.
fn serves_no_caller(error: &StoreError) -> bool {
    match error.fault {
        Fault::Network | Fault::Throttled => true,
        Fault::Store => error.retry == Retry::Useless,
        Fault::Caller | Fault::Account => false,
    }
}

/// Settles debts while the breaker is closed, unless that is being done already.
fn settle_in_background(state: &Arc<LimiterState>) {
    if !state.fallback.begin_settling() {
        return;
    }
    let weak = Arc::downgrade(state);
    state.timers.spawn_own(async move {
        // A little later, together with what else is granted meanwhile: one failure seldom comes alone.
        tokio::time::sleep(PROBE_WAIT_MAX).await;
        if let Some(state) = weak.upgrade() {
            settle(&state).await;
            state.fallback.end_settling();
        }
    });
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
    fn note(&self, result: &StoreResult, now: Timestamp) -> BreakerChange {
        match result {
            // A caller error says nothing about the store's health.
            Ok(_) => self.succeeded(),
            Err(error) if error.fault == Fault::Caller => self.succeeded(),
            // The store answers; one unusable account must not affect the others.
            Err(error) if error.fault == Fault::Account => self.line_failed(error, now),
            Err(error) => self.failed(error, now),
        }
    }

    fn succeeded(&self) -> BreakerChange {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Phase::Closed { failures } = &mut state.phase {
            *failures = 0;
        }
        BreakerChange::None
    }

    /// An operator has to look at it, and need not be told with every take.
    fn line_failed(&self, error: &StoreError, now: Timestamp) -> BreakerChange {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.unusable_logged.is_none_or(|logged| now.since(logged) >= UNUSABLE_LOGGED_EVERY) {
            state.unusable_logged = Some(now);
            tracing::warn!(%error, "a line cannot be used; its takes are decided without the store");
        }
        BreakerChange::None
    }

    fn failed(&self, error: &StoreError, now: Timestamp) -> BreakerChange {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Phase::Closed { failures } = &mut state.phase else { return BreakerChange::None };
        // A throttled call has been retried five times already.
        *failures = if error.fault == Fault::Throttled { FAILURES_MAX } else { *failures + 1 };
        if *failures == 1 {
            tracing::warn!(%error, "the store did not decide");
        }
        if *failures < FAILURES_MAX {
            return BreakerChange::None;
        }
        state.phase = Phase::Open { since: now };
        state.fallbacks += 1;
        state.last_error = Some(error.to_string());
        self.open.store(true, Ordering::Release);
        tracing::warn!(event = "RateLimiterFallbackActivated", %error, "the store is left alone; decisions are made without it");
        BreakerChange::Opened
    }

    /// A probe was answered and what was owed is settled: the store is asked again.
    fn close(&self) {
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
                assert_eq!(breaker.note(answer, at(round)), BreakerChange::None);
            }
        }
        assert!(breaker.refuses().is_none());
        let led: Vec<BreakerChange> =
            (1..=4).map(|now| breaker.note(&failure(Fault::Network), at(now))).collect();
        assert_eq!(
            led,
            [BreakerChange::None, BreakerChange::None, BreakerChange::Opened, BreakerChange::None]
        );
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
        assert_eq!(breaker.note(&failure(Fault::Throttled), Timestamp::EPOCH), BreakerChange::Opened);
        assert!(breaker.refuses().is_some());
    }

    #[test]
    fn a_wrong_question_and_an_unusable_line_are_not_the_stores_fault() {
        let breaker = Breaker::default();
        for _ in 0..10 {
            assert_eq!(breaker.note(&failure(Fault::Caller), Timestamp::EPOCH), BreakerChange::None);
            assert_eq!(breaker.note(&failure(Fault::Account), Timestamp::EPOCH), BreakerChange::None);
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
        let led: Vec<BreakerChange> = (0..3).map(|_| breaker.note(&denied(), Timestamp::EPOCH)).collect();
        assert_eq!(led, [BreakerChange::None, BreakerChange::None, BreakerChange::Opened]);
        assert!(breaker.status().last_error.is_some_and(|error| error.contains("access denied")));
    }
}
