//! Keeping the slots of a long call: renewed at a third of their life, until the permit is dropped.

use tokio::task::AbortHandle;
use tollway_core::{Action, Limit, Outcome, PermitId, Span};

use crate::take::bound_charges::BoundCharges;

/// Renews the permit's slots in the background, in the store or in the local meters; the handle ends it.
pub(crate) fn keep_slots(charges: &BoundCharges, permit: PermitId, local: bool) -> Option<AbortHandle> {
    let life = shortest_life(charges)?;
    let mut charges = charges.clone();
    let state = charges.state().clone();
    state.timers.spawn(async move {
        loop {
            let state = charges.state();
            let next = state.clock.now().plus(Span::from_micros(life.as_micros() / 3));
            if state.timers.sleep_until(&*state.clock, next).await.is_err() {
                return;
            }
            if local {
                state.fallback.renew(charges.charges(), permit);
                continue;
            }
            match charges.send(Action::Renew(permit)).await.map(|outcomes| outcomes.into_iter().next()) {
                Ok(Some(Outcome::Renewed(true))) => {}
                Ok(_) => {
                    tracing::warn!(%permit, "the slot of a running call was lost: it outlived its expiry");
                    return;
                }
                Err(error) => tracing::debug!(%error, "a slot could not be renewed; will try again"),
            }
        }
    })
}

fn shortest_life(charges: &BoundCharges) -> Option<Span> {
    charges.charges().iter().flat_map(|charge| charge.policy.limits()).filter_map(Limit::slots_expire).min()
}
