//! The circuit breaker of a store, or of one of its parts, in the order of its phases.
//!
//! 1. **Closed.** Every take goes to the store, and every answer is [`observed`]. Three failures in a row, or one throttled
//!    call after all its retries, open the breaker.
//! 2. **Open.** Takes are decided without the store (see `fallback.rs`); a background task probes it
//!    ([`probe_until_back`]).
//! 3. **Returning.** A probe succeeded: the store is debited what was granted without it ([`settle_and_close`]). Then the
//!    breaker closes.
//!
//! Single failures do not open the breaker but leave debts too; those are settled in the background (see `debts.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tollway_core::{
    Action, Answer, Charge, Fault, Part, Policy, Retry, Span, StoreError, StoreResult, Timestamp,
};

use crate::outage::debts::{settle, settle_in_background};
use crate::outage::parts::PartOutage;
use crate::state::LimiterState;
use crate::take::debit::send;

/// This many failures in a row open the breaker.
const FAILURES_MAX: u32 = 3;

/// The shortest interval between log lines about unusable accounts or a full store; each take would write one.
const UNUSABLE_LOGGED_EVERY: Span = Span::from_secs(60);

/// The wait before the first probe; it doubles with each further probe.
const PROBE_WAIT_MIN: Duration = Duration::from_millis(50);

/// The longest wait between probes, and so the longest time a recovered store stays unused.
pub(crate) const PROBE_WAIT_MAX: Duration = Duration::from_secs(1);

/// The breaker of one part of a store.
#[derive(Default)]
pub(crate) struct Breaker {
    /// Mirrors the phase, so that a take reads it without a lock.
    open: AtomicBool,
    state: Mutex<BreakerState>,
}

#[derive(Default)]
struct BreakerState {
    phase: Phase,
    last_error: Option<String>,
    /// When an unusable account was last logged.
    unusable_logged: Option<Timestamp>,
    /// When a full store was last logged.
    full_logged: Option<Timestamp>,
}

enum Phase {
    /// Calls go to the store; `failures` is the number of failures in a row.
    Closed { failures: u32 },
    /// Only probes go to the store.
    Open { since: Timestamp },
}

impl Default for Phase {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

/// How an answer changed the breaker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BreakerChange {
    None,
    /// It opened with this answer: the caller starts the probing task.
    Opened,
}

// === Closed ===

/// Passes the answer of a part through and feeds it to its breaker.
pub(crate) fn observed(state: &Arc<LimiterState>, part: Part, answer: Answer) -> Answer {
    match answer {
        Answer::Now(Some(result)) => {
            note_answer(state, &part, &result);
            Answer::now(result)
        }
        later => {
            let state = Arc::clone(state);
            Answer::Later(Box::pin(async move {
                let result = later.await;
                note_answer(&state, &part, &result);
                result
            }))
        }
    }
}

fn note_answer(state: &Arc<LimiterState>, part: &Part, result: &StoreResult) {
    let now = state.clock.now();
    state.note_throttling(result.as_ref().err(), now);
    match state.outages.note(part, result, now) {
        Some(outage) => {
            let task = probe_until_back(Arc::downgrade(state), outage, first_probe_wait(result));
            state.timers.spawn_own(task);
        }
        // Single failures leave debts without opening a breaker.
        None if result.is_ok() && state.fallback.owes() => settle_in_background(state),
        None => {}
    }
}

// === Open ===

/// Probes a part until it is back, or has no accounts any more, or the limiter is gone.
async fn probe_until_back(state: Weak<LimiterState>, outage: Arc<PartOutage>, mut wait: Duration) {
    loop {
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(PROBE_WAIT_MAX);
        let Some(state) = state.upgrade() else { return };
        if probe(&state, &outage.part).await && settle_and_close(&state, &outage).await {
            return;
        }
    }
}

/// A lasting fault needs no early probe: a read-only store answers each probe, and then fails three takes again.
fn first_probe_wait(result: &StoreResult) -> Duration {
    match result {
        Err(error) if error.retry == Retry::Useless => PROBE_WAIT_MAX,
        _ => PROBE_WAIT_MIN,
    }
}

/// Peeks at an account that no policy uses, so that one unusable account does not keep the breaker open. A part without
/// accounts is no longer needed.
async fn probe(state: &LimiterState, part: &Part) -> bool {
    let Some(subject) = state.store.subject_on(part) else { return true };
    let Ok(policy) = Policy::new("tollway.probe", ["1 / second"]) else { return true };
    match send(state, Charge::new(Arc::new(policy), subject), Action::Peek).await {
        Ok(_) => true,
        Err(error) => matches!(error.fault, Fault::Caller | Fault::Account | Fault::Full),
    }
}

// === Returning ===

/// Debits what was granted without the part and closes its breaker. False if the store fails again.
async fn settle_and_close(state: &Arc<LimiterState>, outage: &Arc<PartOutage>) -> bool {
    if !settle(state, &outage.part).await {
        return false;
    }
    state.outages.close(outage);
    // Queued takes can get a permit from the store now.
    state.queues.notify_all();
    true
}

impl Breaker {
    /// The error to answer with while the breaker is open.
    #[inline]
    pub(crate) fn error_if_open(&self, part: &Part) -> Option<StoreError> {
        if !self.open.load(Ordering::Acquire) {
            return None;
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = state.last_error.as_deref().unwrap_or("it failed");
        let node = part.name().map(|name| format!("'s node {name}")).unwrap_or_default();
        let message = format!("the store{node} is not used until a probe succeeds: {cause}");
        Some(StoreError { fault: Fault::Network, retry: Retry::Safe, message })
    }

    /// Feeds an answer to the breaker.
    pub(crate) fn note(&self, part: &Part, result: &StoreResult, now: Timestamp) -> BreakerChange {
        match result {
            // A caller error says nothing about the store's health.
            Ok(_) => self.succeeded(),
            Err(error) if error.fault == Fault::Caller => self.succeeded(),
            // The store answers and decides on the accounts that it has: it is not away.
            Err(error) if error.fault == Fault::Full => self.store_full(error, now),
            // The store answers; one unusable account must not affect the others.
            Err(error) if error.fault == Fault::Account => self.account_failed(error, now),
            Err(error) => self.failed(part, error, now),
        }
    }

    fn succeeded(&self) -> BreakerChange {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Phase::Closed { failures } = &mut state.phase {
            *failures = 0;
        }
        BreakerChange::None
    }

    /// Logged for the operator, but not for every take.
    fn store_full(&self, error: &StoreError, now: Timestamp) -> BreakerChange {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.full_logged.is_none_or(|logged| now.since(logged) >= UNUSABLE_LOGGED_EVERY) {
            state.full_logged = Some(now);
            tracing::warn!(event = "RateLimiterStoreFull", %error, "the store cannot write; a take that it cannot count is decided without it");
        }
        if let Phase::Closed { failures } = &mut state.phase {
            *failures = 0;
        }
        BreakerChange::None
    }

    /// Logged for the operator, but not for every take.
    fn account_failed(&self, error: &StoreError, now: Timestamp) -> BreakerChange {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.unusable_logged.is_none_or(|logged| now.since(logged) >= UNUSABLE_LOGGED_EVERY) {
            state.unusable_logged = Some(now);
            tracing::warn!(%error, "an account cannot be used; its takes are decided without the store");
        }
        BreakerChange::None
    }

    fn failed(&self, part: &Part, error: &StoreError, now: Timestamp) -> BreakerChange {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Phase::Closed { failures } = &mut state.phase else { return BreakerChange::None };
        // A throttled call has been retried five times already.
        *failures = if error.fault == Fault::Throttled { FAILURES_MAX } else { *failures + 1 };
        if *failures == 1 {
            tracing::warn!(node = part.name(), %error, "the store did not decide");
        }
        if *failures < FAILURES_MAX {
            return BreakerChange::None;
        }
        state.phase = Phase::Open { since: now };
        state.last_error = Some(error.to_string());
        self.open.store(true, Ordering::Release);
        tracing::warn!(event = "RateLimiterFallbackActivated", node = part.name(), %error, "the store failed; decisions are made without it until it answers a probe");
        BreakerChange::Opened
    }

    /// Called when a probe succeeded and all debts are settled.
    pub(crate) fn close(&self, part: &Part) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.phase = Phase::Closed { failures: 0 };
        self.open.store(false, Ordering::Release);
        tracing::info!(event = "RateLimiterFallbackEnded", node = part.name(), "the store answers again");
    }

    /// When it opened, if it is open.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        match self.state.lock().unwrap_or_else(PoisonError::into_inner).phase {
            Phase::Open { since } => Some(since),
            Phase::Closed { .. } => None,
        }
    }

    /// Why it last opened.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last_error.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(fault: Fault) -> StoreResult {
        Err(StoreError { fault, retry: Retry::Safe, message: "gone".to_owned() })
    }

    #[test]
    fn three_failures_in_a_row_open_the_breaker() {
        let breaker = Breaker::default();
        let at = Timestamp::from_secs;
        let answers = [failure(Fault::Network), failure(Fault::Store), Ok(Default::default())];
        for round in 0..3 {
            for answer in &answers {
                assert_eq!(breaker.note(&Part::WHOLE, answer, at(round)), BreakerChange::None);
            }
        }
        assert!(breaker.error_if_open(&Part::WHOLE).is_none());
        let changes: Vec<BreakerChange> =
            (1..=4).map(|now| breaker.note(&Part::WHOLE, &failure(Fault::Network), at(now))).collect();
        assert_eq!(
            changes,
            [BreakerChange::None, BreakerChange::None, BreakerChange::Opened, BreakerChange::None]
        );
        assert_eq!(breaker.since(), Some(at(3)));
        assert!(breaker.error_if_open(&Part::WHOLE).is_some_and(|error| error.to_string().contains("gone")));
        breaker.close(&Part::WHOLE);
        assert!(breaker.error_if_open(&Part::WHOLE).is_none());
    }

    /// G8: a throttled call was already retried.
    #[test]
    fn one_throttled_call_opens_the_breaker() {
        let breaker = Breaker::default();
        assert_eq!(
            breaker.note(&Part::WHOLE, &failure(Fault::Throttled), Timestamp::EPOCH),
            BreakerChange::Opened
        );
        assert!(breaker.error_if_open(&Part::WHOLE).is_some());
    }

    #[test]
    fn caller_errors_unusable_accounts_and_a_full_store_do_not_open_the_breaker() {
        let breaker = Breaker::default();
        for _ in 0..10 {
            assert_eq!(
                breaker.note(&Part::WHOLE, &failure(Fault::Caller), Timestamp::EPOCH),
                BreakerChange::None
            );
            assert_eq!(
                breaker.note(&Part::WHOLE, &failure(Fault::Account), Timestamp::EPOCH),
                BreakerChange::None
            );
            assert_eq!(
                breaker.note(&Part::WHOLE, &failure(Fault::Full), Timestamp::EPOCH),
                BreakerChange::None
            );
        }
    }

    /// G7: missing permissions count like an outage.
    #[test]
    fn access_denied_opens_the_breaker() {
        let breaker = Breaker::default();
        let denied = || -> StoreResult {
            Err(StoreError {
                fault: Fault::Store,
                retry: Retry::Useless,
                message: "access denied".to_owned(),
            })
        };
        let changes: Vec<BreakerChange> =
            (0..3).map(|_| breaker.note(&Part::WHOLE, &denied(), Timestamp::EPOCH)).collect();
        assert_eq!(changes, [BreakerChange::None, BreakerChange::None, BreakerChange::Opened]);
        assert!(breaker.last_error().is_some_and(|error| error.contains("access denied")));
    }
}
