//! Debits units that are already spent, even beyond the limit.

use std::sync::Arc;

use tollway_core::{
    Action, Booking, Charge, Cost, Operation, Outcome, Policy, StoreError, Subject, Terms, Timestamp,
};

use crate::bound_policy::next_permit;
use crate::fallback::cost_of;
use crate::pending_take::wrong_answer;
use crate::state::LimiterState;

/// Debits `spent`: a take if it fits, else a settlement under an unused permit id, which needs no room.
pub(crate) async fn debit(
    state: &LimiterState,
    policy: &Arc<Policy>,
    subject: &Subject,
    spent: Cost,
) -> Result<(), StoreError> {
    let charge = |cost| Charge::new(Arc::clone(policy), subject.clone()).with_cost(cost);
    if take(state, charge(spent.clone())).await? {
        return Ok(());
    }
    let nothing = cost_of(policy, |_| 0);
    let Outcome::Peeked(charges) = send(state, charge(nothing.clone()), Action::Peek).await? else {
        return Err(wrong_answer());
    };
    let readings = charges.iter().flat_map(|charge| &charge.readings);
    let at = readings.map(|reading| reading.as_of).max().unwrap_or_default();
    let booking = Booking { permit: next_permit(), granted_at: at, at, good_until: Timestamp::MAX };
    let actual = [spent].into();
    let settle = Action::Settle { booking, actual, remember: false };
    send(state, charge(nothing), settle).await.map(drop)
}

/// A take now or not at all, that holds no slot; whether there was room.
async fn take(state: &LimiterState, charge: Charge) -> Result<bool, StoreError> {
    let permit = next_permit();
    let outcome = send(state, charge.clone(), Action::Take(Terms::now(permit))).await?;
    if !matches!(&outcome, Outcome::Decided(decision) if decision.is_granted()) {
        return Ok(false);
    }
    if charge.policy.holds_slots() {
        send(state, charge, Action::Done(permit)).await?;
    }
    Ok(true)
}

/// Calls the store directly, without breaker and leases.
pub(crate) async fn send(
    state: &LimiterState,
    charge: Charge,
    action: Action,
) -> Result<Outcome, StoreError> {
    let answer = state.store.apply(&[Operation::one(charge, action)]).await;
    state.note_throttling(answer.as_ref().err(), state.clock.now());
    answer?.pop().ok_or_else(wrong_answer)
}
