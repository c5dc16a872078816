//! Debiting what was spent already, whatever room there is.

use tollway_core::{
    Booking, Cost, Decision, Operation, Outcome, Party, Policy, Span, StoreError, Subject, Terms, Timestamp,
    Verb,
};

use crate::bound::{Shared, next_permit};
use crate::fallback::cost_of;
use crate::request::wrong_answer;

/// Debits `spent`: taken if it fits; else settled under a permit that never was, which needs no room.
pub(crate) async fn debit(
    shared: &Shared,
    policy: &Policy,
    subject: &Subject,
    spent: Cost,
) -> Result<(), StoreError> {
    let party = |cost| Party { policy, subject, cost };
    if take(shared, party(&spent)).await? {
        return Ok(());
    }
    let nothing = cost_of(policy, |_| 0);
    let Outcome::Peeked(readings) = send(shared, party(&nothing), Verb::Peek).await? else {
        return Err(wrong_answer());
    };
    let at = readings.iter().map(|reading| reading.as_of).max().unwrap_or_default();
    let booking = Booking { permit: next_permit(), granted_at: at, at, good_until: Timestamp::MAX };
    let actual = [spent.clone()];
    send(shared, party(&nothing), Verb::Settle { booking, actual: &actual, remember: false }).await.map(drop)
}

/// A take now or not at all, that holds no slot; whether there was room.
async fn take(shared: &Shared, party: Party<'_>) -> Result<bool, StoreError> {
    let permit = next_permit();
    let terms = Terms { permit, max_wait: Span::ZERO, call: None, readings: false };
    let Outcome::Decided(Decision::Granted(_)) = send(shared, party, Verb::Take(terms)).await? else {
        return Ok(false);
    };
    if party.policy.holds_slots() {
        send(shared, party, Verb::Done(permit)).await?;
    }
    Ok(true)
}

/// Past the breaker and the leases, straight to the store.
pub(crate) async fn send(shared: &Shared, party: Party<'_>, verb: Verb<'_>) -> Result<Outcome, StoreError> {
    let answer = shared.store.apply(&[Operation { parties: &[party], verb }]).await;
    shared.note_throttling(answer.as_ref().err(), shared.clock.now());
    answer?.pop().ok_or_else(wrong_answer)
}
