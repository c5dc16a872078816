//! Bringing the store back: it is probed in the background, and what was granted without it is debited before it is
//! asked again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tollway_core::{
    Answer, Booking, Decision, Operation, Outcome, Party, Policy, Span, Subject, Terms, Verb,
};

use crate::bound::{Shared, next_permit};
use crate::fallback::{Owed, cost_of};

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
        if debit(&shared, &owed).await.is_err() {
            return Some(false);
        }
        shared.fallback.settled(&owed);
    }
    shared.breaker.close();
    // Whoever waits for its turn may have it from the store now.
    shared.queues.notify_all();
    Some(true)
}

/// Debits what was granted without the store, whatever room there is: taken if it fits; else a take of nothing, settled
/// to what was spent.
async fn debit(shared: &Shared, owed: &Owed) -> Result<(), ()> {
    let nothing = cost_of(&owed.policy, |_| 0);
    let party = |cost| Party { policy: &owed.policy, subject: &owed.subject, cost };
    if take(shared, party(&owed.spent)).await?.is_some() {
        return Ok(());
    }
    // Only slots can deny this, and those free themselves.
    let Some(booking) = take(shared, party(&nothing)).await? else { return Ok(()) };
    let actual = [owed.spent.clone()];
    send(shared, party(&nothing), Verb::Settle { booking, actual: &actual, remember: false }).await.map(drop)
}

/// A take now or not at all, that holds no slot.
async fn take(shared: &Shared, party: Party<'_>) -> Result<Option<Booking>, ()> {
    let permit = next_permit();
    let terms = Terms { permit, max_wait: Span::ZERO, call: None, readings: false };
    let Outcome::Decided(Decision::Granted(grant)) = send(shared, party, Verb::Take(terms)).await? else {
        return Ok(None);
    };
    if party.policy.holds_slots() {
        send(shared, party, Verb::Done(permit)).await?;
    }
    Ok(Some(grant.booking()))
}

/// Past the breaker, which would refuse.
async fn send(shared: &Shared, party: Party<'_>, verb: Verb<'_>) -> Result<Outcome, ()> {
    let answer: Answer = shared.store.apply(&[Operation { parties: &[party], verb }]);
    answer.await.map_err(drop)?.pop().ok_or(())
}
