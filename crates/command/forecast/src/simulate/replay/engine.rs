//! Runs one call of a log on the engine: the only file here that uses its types.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway_core::{
    Action, Answer, Charge, Clock, Cost, Operation, Outcome, PermitId, Policy, Reading, Refusal, Span, Store,
    Subject, TakeOutcome, Terms, Timestamp,
};
use tollway_memory::{ACCOUNTS_DEFAULT, MemoryStore};

use crate::simulate::error::SimulateError;

/// A clock that shows the time of the current call.
#[derive(Debug, Default)]
pub(super) struct LogClock(AtomicU64);

impl LogClock {
    pub(super) fn set(&self, at: Timestamp) {
        self.0.store(at.as_micros(), Ordering::Relaxed);
    }
}

impl Clock for LogClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// The engine over a memory store of one trial's own.
pub(super) struct Engine {
    store: MemoryStore,
    max_wait: Span,
    calls: u128,
}

/// The engine's result of one call.
pub(super) enum CallResult {
    /// Granted after this wait, with a reading for each limit if they were asked for.
    Granted { wait: Span, readings: Vec<Reading> },
    /// Denied by the limit of this index; the call fits after this time.
    Denied { limit: usize, fits_after: Span },
    /// Denied by the limit of this index, which never grants so much.
    NeverGranted { limit: Option<usize> },
}

impl Engine {
    /// `trials` engines share the accounts that memory has room for.
    pub(super) fn new(max_wait: Span, trials: usize, clock: Arc<LogClock>) -> Self {
        Self {
            store: MemoryStore::with_capacity(ACCOUNTS_DEFAULT / trials.max(1), clock),
            max_wait,
            calls: 0,
        }
    }

    /// How many calls shared an account, because there were more subjects than accounts.
    pub(super) fn shared_accounts(&self) -> u64 {
        self.store.stats().overflowed
    }

    /// Takes this cost for this subject, at the time of the clock.
    pub(super) fn take(
        &mut self,
        policy: &Arc<Policy>,
        subject: &Subject,
        cost: &Cost,
        readings: bool,
    ) -> Result<CallResult, SimulateError> {
        self.calls += 1;
        let charge = Charge::new(Arc::clone(policy), subject.clone()).with_cost(cost.clone());
        let terms = Terms { max_wait: self.max_wait, readings, ..Terms::now(PermitId(self.calls)) };
        match self.apply(Operation::one(charge, Action::Take(terms)))? {
            Outcome::Decided(decision) => Ok(match decision.outcome {
                TakeOutcome::Granted(_) => {
                    let wait = decision.wait();
                    let readings = decision.charges.into_iter().flat_map(|charge| charge.readings).collect();
                    CallResult::Granted { wait, readings }
                }
                TakeOutcome::Denied(denial) => {
                    CallResult::Denied { limit: denial.limit, fits_after: decision.wait() }
                }
            }),
            Outcome::Refused(Refusal::AboveLimit { limit, .. }) => {
                let limit = policy.limits().iter().position(|known| *known.name() == limit);
                Ok(CallResult::NeverGranted { limit })
            }
            other => Err(SimulateError::Engine(format!("a take was answered with {other:?}"))),
        }
    }

    /// A memory store answers at once.
    fn apply(&self, operation: Operation) -> Result<Outcome, SimulateError> {
        let Answer::Now(Some(answer)) = self.store.apply(&[operation]) else {
            return Err(SimulateError::Engine("the store in memory did not answer at once".to_owned()));
        };
        let outcome = answer?.into_iter().next();
        outcome.ok_or_else(|| SimulateError::Engine("the store in memory did not answer".to_owned()))
    }
}
