//! Debits units that are already spent, even beyond the limit.

use std::sync::Arc;

use tollway_core::{
    Action, Booking, Charge, Cost, Operation, Outcome, Policy, Retry, Settled, StoreError, Subject, Terms,
    Timestamp,
};

use crate::outage::fallback::cost_of;
use crate::outage::owed::Owed;
use crate::state::LimiterState;
use crate::take::bound_policy::next_permit;
use crate::take::pending_take::wrong_answer;

/// Debits `spent`: a take if it fits, else a settlement under an unused permit id, which needs no room.
pub(crate) async fn debit(
    state: &LimiterState,
    policy: &Arc<Policy>,
    subject: &Subject,
    spent: Cost,
) -> Result<(), StoreError> {
    let charge = Charge::new(Arc::clone(policy), subject.clone());
    if take(state, charge.clone().with_cost(spent.clone())).await? {
        return Ok(());
    }
    let booking = unused_booking(state, charge.clone()).await?;
    settle(state, charge, spent, booking, false).await.map(drop)
}

/// Debits what was granted without the store. If an answer was lost, the next attempt sends the same settlement. The store
/// counts it once, except in the layouts `minute` and `api-minute`, which remember no settlements: they count it again.
pub(crate) async fn debit_owed(state: &LimiterState, owed: &Owed) -> Result<(), StoreError> {
    let charge = Charge::new(Arc::clone(&owed.policy), owed.subject.clone());
    let spent = || owed.spent.clone();
    let booking = match owed.sent {
        Some(booking) => booking,
        None => {
            if take(state, charge.clone().with_cost(spent())).await? {
                state.fallback.settled(owed);
                return Ok(());
            }
            let booking = unused_booking(state, charge.clone()).await?;
            state.fallback.settling_under(owed, booking);
            booking
        }
    };
    let settled = settle(state, charge.clone(), spent(), booking, true).await?;
    let sent = Owed { sent: Some(booking), ..owed.clone() };
    state.fallback.settled(&sent);
    // Nothing was debited: the account was reset, or cannot remember another refund.
    if matches!(settled, Outcome::Settled(Settled::Dropped)) {
        return debit_unremembered(state, charge, booking, sent).await;
    }
    Ok(())
}

/// Debits without a memory of the settlement, so never twice: if the answer is lost, the debt is given up.
async fn debit_unremembered(
    state: &LimiterState,
    charge: Charge,
    booking: Booking,
    sent: Owed,
) -> Result<(), StoreError> {
    let debited = settle(state, charge, sent.spent.clone(), booking, false).await;
    match &debited {
        Err(error) if error.retry == Retry::Unclear => {
            tracing::warn!(%error, policy = %sent.policy.name(), "grants made without the store may not be counted");
        }
        Err(_) => state.fallback.still_owed(sent),
        Ok(_) => {}
    }
    debited.map(drop)
}

/// A booking of nothing, now, by the store's clock.
async fn unused_booking(state: &LimiterState, charge: Charge) -> Result<Booking, StoreError> {
    let nothing = cost_of(&charge.policy, |_| 0);
    let Outcome::Peeked(charges) = send(state, charge.with_cost(nothing), Action::Peek).await? else {
        return Err(wrong_answer());
    };
    let readings = charges.iter().flat_map(|charge| &charge.readings);
    let at = readings.map(|reading| reading.as_of).max().unwrap_or_default();
    Ok(Booking { permit: next_permit(), granted_at: at, at, good_until: Timestamp::MAX })
}

async fn settle(
    state: &LimiterState,
    charge: Charge,
    spent: Cost,
    booking: Booking,
    remember: bool,
) -> Result<Outcome, StoreError> {
    let nothing = cost_of(&charge.policy, |_| 0);
    let settle = Action::Settle { booking, actual: [spent].into(), remember };
    send(state, charge.with_cost(nothing), settle).await
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
