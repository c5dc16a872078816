//! Debiting what was spent already, whatever room there is.

use tollway_core::{
    Booking, Cost, Decision, Operation, Outcome, Party, Policy, Span, StoreError, Subject, Terms, Verb,
};

use crate::bound::{Shared, next_permit};
use crate::fallback::cost_of;
use crate::request::wrong_answer;

/// Debits `spent`: taken if it fits; else a take of nothing, settled to what was spent.
pub(crate) async fn debit(
    shared: &Shared,
    policy: &Policy,
    subject: &Subject,
    spent: Cost,
) -> Result<(), StoreError> {
    let nothing = cost_of(policy, |_| 0);
    let party = |cost| Party { policy, subject, cost };
    if take(shared, party(&spent)).await?.is_some() {
        return Ok(());
    }
    // Only slots can deny this, and those free themselves.
    let Some(booking) = take(shared, party(&nothing)).await? else { return Ok(()) };
    let actual = [spent.clone()];
    send(shared, party(&nothing), Verb::Settle { booking, actual: &actual, remember: false }).await.map(drop)
}

/// A take now or not at all, that holds no slot.
async fn take(shared: &Shared, party: Party<'_>) -> Result<Option<Booking>, StoreError> {
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

/// Past the breaker and the leases, straight to the store.
pub(crate) async fn send(shared: &Shared, party: Party<'_>, verb: Verb<'_>) -> Result<Outcome, StoreError> {
    let answer = shared.store.apply(&[Operation { parties: &[party], verb }]);
    answer.await?.pop().ok_or_else(wrong_answer)
}
