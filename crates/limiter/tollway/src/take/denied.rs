//! A denial as the caller sees it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use smallvec::SmallVec;
use tollway_core::{
    Charge, ChargeStatus, Decision, Denial, FastDecision, Limit, Policy, Subject, TakeOutcome, Timestamp,
};

use crate::TakeError;
use crate::metrics::PolicyCounts;
use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::BoundPolicy;

/// A take that was not granted: which limit denied it, and when to retry. Nothing was taken.
#[derive(Clone)]
pub struct Denied {
    /// The policy that denied.
    bound: Arc<BoundPolicy>,
    denial: Denial,
    /// When it was decided.
    now: Timestamp,
    /// In full; of the fast path, built when it is first read, so that a denial is small and quickly dropped.
    full: OnceLock<Box<FullDenial>>,
}

/// What the fast path does not need.
#[derive(Clone)]
struct FullDenial {
    decision: Decision,
    /// What the take asked of the limit that denied it; 0 on the fast path, which counts where it decides.
    units: u64,
    /// Present while subjects are noted.
    subject: Option<Subject>,
}

impl Denied {
    pub(crate) fn new(charges: &BoundCharges, decision: Decision) -> Self {
        let none = Denial { retry_at: decision.now, charge: 0, limit: 0, held: false };
        let denial = decision.denial().copied().unwrap_or(none);
        let bound = Arc::clone(charges.bound(denial.charge));
        let charge = charges.charges().get(denial.charge);
        let units = charge.map_or(0, |charge| units_of(charge, denial.limit));
        let notes = bound.counts().is_some_and(PolicyCounts::notes_subjects);
        let subject = charge.filter(|_| notes).map(|charge| charge.subject.clone());
        let now = decision.now;
        Self { bound, denial, now, full: OnceLock::from(Box::new(FullDenial { decision, units, subject })) }
    }

    pub(crate) fn fast(bound: Arc<BoundPolicy>, decided: FastDecision) -> Self {
        let (now, denial) = match decided {
            FastDecision::Denied { now, retry_at, limit } => {
                (now, Denial { retry_at, charge: 0, limit, held: false })
            }
            FastDecision::Granted { now, .. } => {
                (now, Denial { retry_at: now, charge: 0, limit: 0, held: false })
            }
        };
        Self { bound, denial, now, full: OnceLock::new() }
    }

    pub(crate) fn with_readings(self, charges: SmallVec<[ChargeStatus; 1]>) -> Self {
        let mut full = self.full().clone();
        full.decision.charges = charges;
        Self { full: OnceLock::from(Box::new(full)), ..self }
    }

    /// Whether an operator has stopped the policy: a limit was set to 0.
    pub fn stopped(&self) -> bool {
        self.denial.held && self.bound.stopped.is_some()
    }

    /// Whether a vendor's hold, not a limit, makes it wait; or an operator's stop.
    pub fn held(&self) -> bool {
        self.denial.held
    }

    /// The same denial, reported again later.
    pub(crate) fn repeated_at(self, now: Timestamp) -> Self {
        let now = now.min(self.denial.retry_at);
        let mut full = self.full().clone();
        full.decision.now = now;
        Self { now, full: OnceLock::from(Box::new(full)), ..self }
    }

    pub(crate) fn count(&self) {
        if let Some(counts) = self.bound.counts() {
            let full = self.full.get();
            counts.denied_units(self.denial.limit, full.map_or(0, |full| full.units));
            if let Some(subject) = full.and_then(|full| full.subject.as_ref()) {
                counts.note_denied(subject.as_str());
            }
        }
    }

    /// The policy that denied it, as it is bound.
    pub(crate) fn bound(&self) -> &Arc<BoundPolicy> {
        &self.bound
    }

    /// The decision in full.
    pub fn decision(&self) -> &Decision {
        &self.full().decision
    }

    fn full(&self) -> &FullDenial {
        self.full.get_or_init(|| {
            let decision = Decision::new(self.now, TakeOutcome::Denied(self.denial));
            Box::new(FullDenial { decision, units: 0, subject: None })
        })
    }

    /// The policy that denied it.
    pub fn policy(&self) -> &Policy {
        &self.bound.policy
    }

    /// The limit that denied it; if several did, the one with the longest wait.
    pub fn limit(&self) -> Option<&Limit> {
        self.bound.policy.limits().get(self.denial.limit)
    }

    /// How long until the cost fits, counted from the decision, if usage does not change before.
    pub fn retry_after(&self) -> Duration {
        self.denial.retry_at.since(self.now).into()
    }

    /// When the cost fits, in the store's time.
    pub fn retry_at(&self) -> Timestamp {
        self.denial.retry_at
    }

    /// Whether it was decided without the store.
    pub fn degraded(&self) -> bool {
        self.full.get().is_some_and(|full| full.decision.degraded)
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.policy().name();
        match self.limit() {
            Some(limit) if self.stopped() => {
                write!(f, "policy {name} is stopped: its limit {} was set to 0", limit.name())
            }
            _ if self.held() => {
                write!(f, "policy {name} is held by the vendor; free in {}", in_words(self.retry_after()))
            }
            Some(limit) => {
                write!(f, "denied by {limit} of policy {name}; free in {}", in_words(self.retry_after()))
            }
            None => write!(f, "denied by policy {name}; free in {}", in_words(self.retry_after())),
        }
    }
}

/// What a charge asks of one of its policy's limits.
fn units_of(charge: &Charge, limit: usize) -> u64 {
    let limit = charge.policy.limits().get(limit);
    let unit = limit.and_then(|limit| charge.policy.units().iter().position(|unit| unit == limit.unit()));
    unit.and_then(|unit| charge.cost().amounts().get(unit)).copied().unwrap_or(1)
}

/// In words, rounded up: `250 ms`, `15.7 s`, `2 min 5 s`, `18 h 25 min`.
fn in_words(wait: Duration) -> String {
    let millis = wait.as_micros().div_ceil(1_000);
    let seconds = millis.div_ceil(1_000);
    match seconds {
        0..=1 => format!("{millis} ms"),
        2..60 => format!("{}.{} s", millis.div_ceil(100) / 10, millis.div_ceil(100) % 10),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds.div_ceil(60) / 60, seconds.div_ceil(60) % 60),
    }
}

tollway_core::debug_as_display!(Denied);

impl std::error::Error for Denied {}

impl From<Denied> for TakeError {
    fn from(denied: Denied) -> Self {
        Self::Denied(Box::new(denied))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_formatted_in_words() {
        let words = |micros| in_words(Duration::from_micros(micros));
        let said = [1, 250_000, 15_606_836, 60_000_000, 125_000_001, 66_276_561_354].map(words);
        assert_eq!(said, ["1 ms", "250 ms", "15.7 s", "1 min 0 s", "2 min 6 s", "18 h 25 min"]);
    }
}
