//! Returns the unspent units of leases: soon after a lease ends, and when the limiter is dropped.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tollway_core::{Action, Charge, Operation, Subject};

use super::{EndedLease, Leases};
use crate::outage::fallback::cost_of;
use crate::state::LimiterState;

/// How often the sweep looks for ended leases.
const INTERVAL: Duration = Duration::from_millis(200);

/// Returns unspent units in the background for as long as the limiter exists.
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

/// Sweeps once. False if the limiter is gone.
fn sweep(state: &Weak<LimiterState>) -> bool {
    let Some(state) = state.upgrade() else { return false };
    let now = state.expiry_clock().now();
    for leases in state.all_leases() {
        for (subject, ended) in leases.end_where(|lease| lease.has_ended(now)) {
            return_rest(&state, &subject, ended);
        }
    }
    true
}

/// Ends every lease when the limiter is dropped.
pub(crate) fn give_back_all(state: &LimiterState, all: &[Arc<Leases>]) {
    for leases in all {
        for (subject, ended) in leases.end_where(|_| true) {
            // No caller waits for the answer; a store finishes the calls it has accepted.
            drop(settle(state, &subject, &ended));
        }
    }
}

/// Settles a lease at what was spent of it, without waiting for the answer.
pub(super) fn return_rest(state: &Arc<LimiterState>, subject: &Subject, ended: EndedLease) {
    let answer = settle(state, subject, &ended);
    let late = Arc::downgrade(state);
    state.timers.spawn_own(async move {
        let lost = answer.await.is_err();
        if let Some(state) = late.upgrade().filter(|_| lost) {
            state.permits_lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
}

fn settle(state: &LimiterState, subject: &Subject, ended: &EndedLease) -> tollway_core::Answer {
    let EndedLease { policy, booking, reserved, left } = ended;
    let used = |unit: usize| reserved.of(unit).saturating_sub(left.get(unit).copied().unwrap_or(0));
    let actual = [cost_of(policy, used)].into();
    let charge = Charge::new(Arc::clone(policy), subject.clone()).with_cost(reserved.clone());
    let settle = Action::Settle { booking: *booking, actual, remember: false };
    state.store.apply(&[Operation::one(charge, settle)])
}
