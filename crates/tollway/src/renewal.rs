//! Keeping the slots of a long call: renewed at a third of their life, until the permit is dropped.

use tokio::task::AbortHandle;
use tollway_core::{Limit, Outcome, PermitId, Span, Verb};

use crate::bound::Asks;

/// Renews the permit's slots in the background, in the store or in the local meters; the handle ends it.
pub(crate) fn keep_slots(asks: &Asks, permit: PermitId, local: bool) -> Option<AbortHandle> {
    let life = shortest_life(asks)?;
    let asks = asks.clone();
    let shared = asks.shared().clone();
    shared.timers.spawn(async move {
        loop {
            let shared = asks.shared();
            let next = shared.clock.now().plus(Span::from_micros(life.as_micros() / 3));
            if shared.timers.sleep_until(&*shared.clock, next).await.is_err() {
                return;
            }
            if local {
                shared.fallback.renew(&asks, permit);
                continue;
            }
            match asks.send(Verb::Renew(permit)).await.map(|outcomes| outcomes.into_iter().next()) {
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

fn shortest_life(asks: &Asks) -> Option<Span> {
    let limits = asks.iter().flat_map(|ask| ask.bound.policy.limits());
    limits.filter_map(Limit::slots_expire).min()
}
