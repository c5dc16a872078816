//! Reading and resetting a policy's usage.

use std::sync::Arc;

use tollway_core::bounds::OPERATIONS_PER_BATCH_MAX;
use tollway_core::{
    AccountList, Action, Charge, Charges, Limit, Name, Operation, Outcome, Reading, Span, Subject, Timestamp,
};

use crate::state::LimiterState;
use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::BoundPolicy;
use crate::take::pending_take::wrong_answer;
use crate::{Pending, TakeError};

/// What a policy's meters show for one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// One per limit, in the policy's order.
    pub limits: Vec<LimitUsage>,
    /// Until when a vendor holds calls back, in the store's time.
    pub held_until: Option<Timestamp>,
}

/// What one meter shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitUsage {
    /// The limit's name.
    pub name: Name,
    /// What it counts.
    pub unit: Name,
    /// The amount per period in force.
    pub amount: u64,
    /// The most that fits at once: the burst of a bucket, else the amount.
    pub capacity: u64,
    /// What is used.
    pub used: u64,
    /// What is left.
    pub remaining: u64,
    /// When it resets, in the store's time.
    pub resets_at: Timestamp,
    /// How long until then, from `as_of` on.
    pub resets_in: Span,
    /// The time of the reading: now, or the end of the bookings ahead.
    pub as_of: Timestamp,
}

pub(crate) fn usage(charges: Result<BoundCharges, TakeError>) -> Pending<Usage> {
    ask(charges, Action::Peek, read_usage)
}

pub(crate) fn reset(charges: Result<BoundCharges, TakeError>) -> Pending<()> {
    ask(charges, Action::Reset, read_reset)
}

/// The usage of each subject under one policy, in their order.
pub(crate) fn usage_of_each(
    bound: Result<Arc<BoundPolicy>, TakeError>,
    subjects: Vec<Subject>,
) -> Pending<Vec<Usage>> {
    let state = bound.as_ref().ok().map(|bound| Arc::clone(&bound.state));
    Pending::new(state, move |_| async move {
        let bound = bound?;
        let peek = |subject: &Subject| Operation {
            charges: Charges::from_buf([Charge::new(Arc::clone(&bound.policy), subject.clone())]),
            action: Action::Peek,
        };
        let mut usages = Vec::with_capacity(subjects.len());
        for some in subjects.chunks(OPERATIONS_PER_BATCH_MAX) {
            let batch: Vec<Operation> = some.iter().map(peek).collect();
            let outcomes = bound.state.store.apply(&batch).await.map_err(TakeError::from)?;
            for outcome in outcomes {
                usages.push(usage_in(outcome)?);
            }
        }
        if usages.len() == subjects.len() { Ok(usages) } else { Err(wrong_answer().into()) }
    })
}

/// The usage of the shared subject of each policy, in their order.
pub(crate) async fn usage_of_shared(bounds: &[Arc<BoundPolicy>]) -> Result<Vec<Usage>, TakeError> {
    let peek = |bound: &Arc<BoundPolicy>| Operation {
        charges: Charges::from_buf([Charge::new(Arc::clone(&bound.policy), Subject::SHARED)]),
        action: Action::Peek,
    };
    let mut usages = Vec::with_capacity(bounds.len());
    for some in bounds.chunks(OPERATIONS_PER_BATCH_MAX) {
        let batch: Vec<Operation> = some.iter().map(peek).collect();
        let Some(first) = some.first() else { break };
        for outcome in first.state.store.apply(&batch).await.map_err(TakeError::from)? {
            usages.push(usage_in(outcome)?);
        }
    }
    if usages.len() == bounds.len() { Ok(usages) } else { Err(wrong_answer().into()) }
}

/// The accounts in the store; `None` if it cannot list them.
pub(crate) fn accounts(
    state: &Arc<LimiterState>,
    policy: Option<Name>,
    at_most: usize,
) -> Pending<Option<AccountList>> {
    let (own, state) = (Arc::clone(state), Arc::clone(state));
    Pending::new(Some(own), move |_| async move {
        match state.store.accounts(policy.as_ref(), at_most) {
            Some(list) => Ok(Some(list.await.map_err(TakeError::from)?)),
            None => Ok(None),
        }
    })
}

fn ask<T: 'static>(
    charges: Result<BoundCharges, TakeError>,
    action: Action,
    read: fn(&BoundCharges, Outcome) -> Result<T, TakeError>,
) -> Pending<T> {
    let state = charges.as_ref().ok().map(|charges| Arc::clone(charges.state()));
    Pending::new(state, move |subject| async move {
        let mut charges = charges?;
        if let Some(charge) = charges.last_mut() {
            charge.subject = subject;
        }
        let outcomes = charges.send(action).await?;
        read(&charges, outcomes.into_iter().next().ok_or_else(wrong_answer)?)
    })
}

fn read_usage(_: &BoundCharges, outcome: Outcome) -> Result<Usage, TakeError> {
    usage_in(outcome)
}

pub(super) fn usage_in(outcome: Outcome) -> Result<Usage, TakeError> {
    let Outcome::Peeked(charges) = outcome else { return Err(wrong_answer().into()) };
    let show = |(limit, reading): (&Limit, &Reading)| LimitUsage {
        name: limit.name().clone(),
        unit: limit.unit().clone(),
        amount: limit.amount(),
        capacity: reading.capacity,
        used: reading.used,
        remaining: reading.remaining,
        resets_at: reading.resets_at,
        resets_in: reading.resets_at.since(reading.as_of),
        as_of: reading.as_of,
    };
    let limits = charges.iter().flat_map(|charge| charge.policy.limits().iter().zip(&charge.readings));
    let held_until = charges.iter().filter_map(|charge| charge.held_until).max();
    Ok(Usage { limits: limits.map(show).collect(), held_until })
}

fn read_reset(charges: &BoundCharges, outcome: Outcome) -> Result<(), TakeError> {
    match outcome {
        Outcome::Reset => {
            charges.state().queues.notify(charges.charges());
            Ok(())
        }
        Outcome::Refused(refusal) => Err(refusal.into()),
        _ => Err(wrong_answer().into()),
    }
}
