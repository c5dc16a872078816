//! `subjects_max`: the most accounts of a policy that this process makes in the longest period of its limits.
//!
//! The store's answers say how many accounts were made. Beyond the bound, takes under the policy make none: new subjects
//! share accounts, and known ones are counted as always. Callers pass the time; nothing here reads a clock.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;
use tollway_core::{Answer, Outcome, Policy, Span, StoreResult, Timestamp};

use crate::state::LimiterState;

/// The half periods that are counted: a period lies in three of them at most.
const HALVES: usize = 3;

/// How often a policy that has made its accounts is logged.
const LOGGED_EVERY: Span = Span::from_secs(60);

/// The counts that the answer to a take adds to, with their policies.
pub(crate) type Counted = SmallVec<[(Arc<AccountsMade>, Arc<Policy>); 1]>;

/// The accounts of one policy that this process made.
#[derive(Default)]
pub(crate) struct AccountsMade(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Half the longest period, in microseconds.
    half: u64,
    /// The number of the current half period.
    current: u64,
    /// The accounts made in it and before, the current half period first.
    made: [u64; HALVES],
    logged: Option<Timestamp>,
}

impl AccountsMade {
    /// Whether the policy has made as many accounts as it may.
    pub(crate) fn is_used_up(&self, policy: &Policy, most: NonZeroU64, now: Timestamp) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.advance(policy, now);
        let is_used_up = counts.made.iter().sum::<u64>() >= most.get();
        if is_used_up && counts.logged.is_none_or(|at| now.since(at) >= LOGGED_EVERY) {
            counts.logged = Some(now);
            tracing::warn!(
                event = "RateLimiterSubjectsMax",
                policy = %policy.name(),
                "this process has made `subjects_max` accounts of the policy: new subjects share accounts"
            );
        }
        is_used_up
    }

    fn add(&self, accounts: u64, policy: &Policy, now: Timestamp) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.advance(policy, now);
        let [current, ..] = &mut counts.made;
        *current = current.saturating_add(accounts);
    }
}

impl Counts {
    fn advance(&mut self, policy: &Policy, now: Timestamp) {
        let longest = policy.limits().iter().map(|limit| limit.longest_memory()).max().unwrap_or_default();
        let half = longest.as_micros().div_ceil(2).max(1);
        let number = now.as_micros().checked_div(half).unwrap_or_default();
        if half != self.half {
            // A reload changed the periods: what was made before counts as made now.
            let made = self.made.iter().sum();
            (self.half, self.current, self.made) = (half, number, [made, 0, 0]);
        }
        // A clock that goes back changes nothing.
        let passed = number.saturating_sub(self.current);
        for _ in 0..passed.min(HALVES as u64) {
            self.made.rotate_right(1);
            self.made[0] = 0;
        }
        self.current = self.current.max(number);
    }
}

/// Passes an answer through, and counts the accounts that it says were made. A caller that no longer waits for it changes
/// nothing: such an answer is awaited in the background.
pub(crate) fn counted(state: &Arc<LimiterState>, counted: Counted, answer: Answer) -> Answer {
    match answer {
        Answer::Now(Some(result)) => {
            count(state, &counted, &result);
            Answer::now(result)
        }
        later => {
            let state = Arc::clone(state);
            Answer::Later(Box::pin(async move {
                let result = later.await;
                count(&state, &counted, &result);
                result
            }))
        }
    }
}

/// Each charge makes one account at most. Of several charges the answer does not say which made one, so each counts it.
fn count(state: &LimiterState, counted: &Counted, result: &StoreResult) {
    let Ok(outcomes) = result else { return };
    if let Some(Outcome::Decided(decision)) = outcomes.first()
        && decision.accounts_made > 0
    {
        let now = state.clock.now();
        counted.iter().for_each(|(made, policy)| made.add(1, policy, now));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn policy(limit: &str) -> Policy {
        Policy::new("api", ["9 / second", limit]).unwrap()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(3_600_000 + seconds)
    }

    #[test]
    fn no_period_has_more_new_accounts_than_the_bound() {
        let (policy, most) = (policy("5 / hour from first call"), NonZeroU64::new(20).unwrap());
        let made = AccountsMade::default();
        let mut times = Vec::new();
        for minute in 0..1_000 {
            let now = at(minute * 60);
            if !made.is_used_up(&policy, most, now) {
                made.add(1, &policy, now);
                times.push(minute);
            }
        }
        for from in 0..1_000 {
            let within = times.iter().filter(|minute| (from..from + 60).contains(*minute)).count();
            assert!(within <= 20, "{within} from minute {from}");
        }
        assert!(times.len() > 20 * 1_000 / 60 / 2, "{}", times.len());
    }

    #[test]
    fn a_changed_period_and_a_clock_that_goes_back_forget_nothing() {
        let most = NonZeroU64::new(2).unwrap();
        let (hour, minute) = (policy("5 / hour"), policy("5 / minute"));
        let made = AccountsMade::default();
        made.add(2, &hour, at(0));
        assert!(made.is_used_up(&minute, most, at(1)));
        assert!(made.is_used_up(&minute, most, Timestamp::from_secs(0)));
        assert!(!made.is_used_up(&minute, most, at(120)));
    }
}
