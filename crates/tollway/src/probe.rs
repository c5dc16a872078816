//! Bringing the store back: it is probed in the background, and what was granted without it is debited before it is
//! asked again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tollway_core::{Party, Policy, Subject, Verb};

use crate::bound::Shared;
use crate::debit::{debit, send};

/// The first wait before a probe; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// No wait is longer: so long after the store is back, it is asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Probes the store until it answers, or until the limiter is gone.
pub(crate) fn probe_in_background(shared: &Arc<Shared>, policy: Arc<Policy>, subject: Subject) {
    let weak = Arc::downgrade(shared);
    shared.timers.spawn_own(async move {
        let mut wait = FIRST_WAIT;
        loop {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            match try_to_return(&weak, &policy, &subject).await {
                None | Some(true) => return,
                Some(false) => {}
            }
        }
    });
}

/// Whether the store is back; nothing if the limiter is gone.
async fn try_to_return(shared: &Weak<Shared>, policy: &Policy, subject: &Subject) -> Option<bool> {
    let shared = shared.upgrade()?;
    let party = Party { policy, subject, cost: policy.default_cost() };
    if send(&shared, party, Verb::Peek).await.is_err() {
        return Some(false);
    }
    for owed in shared.fallback.owed() {
        if debit(&shared, &owed.policy, &owed.subject, owed.spent.clone()).await.is_err() {
            return Some(false);
        }
        shared.fallback.settled(&owed);
    }
    shared.breaker.close();
    // Whoever waits for its turn may have it from the store now.
    shared.queues.notify_all();
    Some(true)
}
