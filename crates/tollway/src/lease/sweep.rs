//! What is left of a lease goes back: soon after it has ended, and when the limiter ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tollway_core::{Action, Charge, Operation, Subject};

use super::{Leases, Spent};
use crate::fallback::cost_of;
use crate::state::LimiterState;

/// How often leases that have ended are looked for.
const INTERVAL: Duration = Duration::from_millis(200);

/// Gives back what is left of leases, as long as the limiter lives.
pub(crate) fn sweep_in_background(state: &Arc<LimiterState>) {
    let weak = Arc::downgrade(state);
    state.timers.spawn_own(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if !sweep(&weak) {
                return;
            }
        }
    });
}

/// Looks once; whether the limiter still lives.
fn sweep(state: &Weak<LimiterState>) -> bool {
    let Some(state) = state.upgrade() else { return false };
    let now = state.clock.now();
    for leases in state.all_leases() {
        for (subject, spent) in leases.end_those(|held| held.has_ended(now)) {
            give_back(&state, &subject, spent);
        }
    }
    true
}

/// Everything, because the limiter ends.
pub(crate) fn give_back_all(state: &LimiterState, all: &[Arc<Leases>]) {
    for leases in all {
        for (subject, spent) in leases.end_those(|_| true) {
            // Nobody is left to wait for the answer; a store finishes what it has accepted.
            drop(settle(state, &subject, &spent));
        }
    }
}

/// Settles a lease to what was spent of it, without waiting for the answer.
pub(super) fn give_back(state: &Arc<LimiterState>, subject: &Subject, spent: Spent) {
    let answer = settle(state, subject, &spent);
    let late = Arc::downgrade(state);
    state.timers.spawn_own(async move {
        let lost = answer.await.is_err();
        if let Some(state) = late.upgrade().filter(|_| lost) {
            state.permits_lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
}

fn settle(state: &LimiterState, subject: &Subject, spent: &Spent) -> tollway_core::Answer {
    let Spent { policy, booking, reserved, left } = spent;
    let used = |unit: usize| reserved.of(unit).saturating_sub(left.get(unit).copied().unwrap_or(0));
    let actual = [cost_of(policy, used)].into();
    let charge = Charge::new(Arc::clone(policy), subject.clone()).with_cost(reserved.clone());
    let settle = Action::Settle { booking: *booking, actual, remember: false };
    state.store.apply(&[Operation::one(charge, settle)])
}
