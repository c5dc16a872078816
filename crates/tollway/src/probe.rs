//! Bringing the store back: it is probed in the background, and what was granted without it is debited before it is
//! asked again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tollway_core::{Fault, Party, Policy, Retry, StoreError, StoreResult, Subject, Verb};

use crate::bound::Shared;
use crate::debit::{debit, send};

/// The first wait before a probe; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// No wait is longer: so long after the store is back, it is asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How long to wait before the first probe after this answer. What does not pass by itself is not worth hurrying for: a
/// store that may be read and not written would be tried three times more after each.
pub(crate) fn first_wait(result: &StoreResult) -> Duration {
    match result {
        Err(error) if error.retry == Retry::Useless => LONGEST_WAIT,
        _ => FIRST_WAIT,
    }
}

/// Probes the store until it answers, or until the limiter is gone.
pub(crate) fn probe_in_background(shared: &Arc<Shared>, mut wait: Duration) {
    let weak = Arc::downgrade(shared);
    shared.timers.spawn_own(async move {
        loop {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            match try_to_return(&weak).await {
                None | Some(true) => return,
                Some(false) => {}
            }
        }
    });
}

/// Tells the store what was granted without it, if that is not being done already.
pub(crate) fn settle_up_in_background(shared: &Arc<Shared>) {
    if !shared.fallback.begin_settling() {
        return;
    }
    let weak = Arc::downgrade(shared);
    shared.timers.spawn_own(async move {
        // A little later, together with what else is granted meanwhile: one failure seldom comes alone.
        tokio::time::sleep(LONGEST_WAIT).await;
        if let Some(shared) = weak.upgrade() {
            settle_up(&shared).await;
            shared.fallback.end_settling();
        }
    });
}

/// Whether the store is back; nothing if the limiter is gone.
async fn try_to_return(shared: &Weak<Shared>) -> Option<bool> {
    let shared = shared.upgrade()?;
    if !answers(&shared).await || !settle_up(&shared).await {
        return Some(false);
    }
    shared.breaker.close();
    // Whoever waits for its turn may have it from the store now.
    shared.queues.notify_all();
    Some(true)
}

/// Looks at a line that nobody uses: one that cannot be read must not stand for all others.
async fn answers(shared: &Shared) -> bool {
    let Ok(policy) = Policy::new("tollway.probe", ["1 / second"]) else { return true };
    let party = Party { policy: &policy, subject: &Subject::SHARED, cost: policy.default_cost() };
    match send(shared, party, Verb::Peek).await {
        Ok(_) => true,
        Err(error) => matches!(error.fault, Fault::Caller | Fault::Line),
    }
}

/// Tells the store all that was granted without it, also meanwhile; whether it could be reached for that, and lets us. What
/// it refuses to be told of one line stays owed, and holds nobody up.
async fn settle_up(shared: &Shared) -> bool {
    loop {
        let mut told = false;
        for owed in shared.fallback.owed() {
            match debit(shared, &owed.policy, &owed.subject, owed.spent.clone()).await {
                Ok(()) => {
                    shared.fallback.settled(&owed);
                    told = true;
                }
                Err(error) if keeps_away(&error) => return false,
                Err(error) => tracing::debug!(%error, "what was granted without the store stays owed"),
            }
        }
        if !told {
            return true;
        }
    }
}

/// Whether an error says that nobody is served: a store that may be read and not written answers probes all the same.
fn keeps_away(error: &StoreError) -> bool {
    match error.fault {
        Fault::Network | Fault::Throttled => true,
        Fault::Store => error.retry == Retry::Useless,
        Fault::Caller | Fault::Line => false,
    }
}
