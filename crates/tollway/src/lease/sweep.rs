//! What is left of a lease goes back: soon after it has ended, and when the limiter ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tollway_core::{Operation, Party, Subject, Verb};

use super::{Leases, Spent};
use crate::bound::Shared;
use crate::fallback::cost_of;

/// How often leases that have ended are looked for.
const INTERVAL: Duration = Duration::from_millis(200);

/// Gives back what is left of leases, as long as the limiter lives.
pub(crate) fn sweep_in_background(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    shared.timers.spawn_own(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if !sweep(&weak) {
                return;
            }
        }
    });
}

/// Looks once; whether the limiter still lives.
fn sweep(shared: &Weak<Shared>) -> bool {
    let Some(shared) = shared.upgrade() else { return false };
    let now = shared.clock.now();
    for leases in shared.all_leases() {
        for (subject, spent) in leases.end_those(|held| held.has_ended(now)) {
            give_back(&shared, &subject, spent);
        }
    }
    true
}

/// Everything, because the limiter ends.
pub(crate) fn give_back_all(shared: &Shared, all: &[Arc<Leases>]) {
    for leases in all {
        for (subject, spent) in leases.end_those(|_| true) {
            // Nobody is left to wait for the answer; a store finishes what it has accepted.
            drop(settle(shared, &subject, &spent));
        }
    }
}

/// Settles a lease to what was spent of it, without waiting for the answer.
pub(super) fn give_back(shared: &Arc<Shared>, subject: &Subject, spent: Spent) {
    let answer = settle(shared, subject, &spent);
    let late = Arc::downgrade(shared);
    shared.timers.spawn_own(async move {
        let lost = answer.await.is_err();
        if let Some(shared) = late.upgrade().filter(|_| lost) {
            shared.permits_lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
}

fn settle(shared: &Shared, subject: &Subject, spent: &Spent) -> tollway_core::Answer {
    let Spent { policy, booking, reserved, left } = spent;
    let used = |unit: usize| reserved.of(unit).saturating_sub(left.get(unit).copied().unwrap_or(0));
    let actual = [cost_of(policy, used)];
    let party = Party { policy, subject, cost: reserved };
    shared.store.apply(&[Operation {
        parties: &[party],
        verb: Verb::Settle { booking: *booking, actual: &actual, remember: false },
    }])
}
