//! The permits of one attempt, from their grant until its answer was taken in.

use std::sync::Arc;

use tollway::core::{Name, Policy};
use tollway::{Permit, Timestamp};

use crate::in_flight::Flight;
use crate::limiter::ApiState;

/// The permits of one attempt. Dropping them before the call is [sent](Self::sent) gives them back; afterwards it frees the
/// slot, and units stay spent. A call that is dropped before its answer was taken in is reported as ended.
#[derive(Debug)]
pub(crate) struct Permits {
    state: Arc<ApiState>,
    /// A share of the caller's.
    pub(crate) share: Option<Box<UnderPolicy>>,
    pub(crate) endpoint: Option<Box<UnderPolicy>>,
    pub(crate) place: Option<Box<UnderPolicy>>,
    pub(crate) slot: Option<Box<Permit>>,
    /// The place of the call among those in flight.
    pub(crate) flight: Option<Flight>,
    call: CallPhase,
}

/// A permit, and the policy it was taken under. Boxed, because a call moves its permits from step to step.
#[derive(Debug)]
pub(crate) struct UnderPolicy {
    pub(crate) permit: Permit,
    pub(crate) policy: Arc<Policy>,
    /// The count of grants of the policy's rate, right after this one; 0 if it has no rate.
    pub(crate) grant: u64,
}

/// How far the call of the permits is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallPhase {
    NotSent,
    InFlight,
    /// Its answer was taken in, or it never went out.
    Over,
}

impl UnderPolicy {
    pub(crate) fn new(permit: Permit, policy: Arc<Policy>) -> Box<Self> {
        Box::new(Self { grant: permit.rate_grants(), permit, policy })
    }
}

impl Permits {
    /// None yet.
    pub(crate) fn new(state: &Arc<ApiState>) -> Self {
        let state = Arc::clone(state);
        Self {
            state,
            share: None,
            endpoint: None,
            place: None,
            slot: None,
            flight: None,
            call: CallPhase::NotSent,
        }
    }

    /// The permit of a call that another program has sent.
    pub(crate) fn of_sent(state: &Arc<ApiState>, place: Box<UnderPolicy>) -> Self {
        let state = Arc::clone(state);
        Self {
            state,
            share: None,
            endpoint: None,
            place: Some(place),
            slot: None,
            flight: None,
            call: CallPhase::InFlight,
        }
    }

    /// The api's state in this process.
    pub(crate) fn state(&self) -> Arc<ApiState> {
        Arc::clone(&self.state)
    }

    /// The api's permit and policy.
    pub(crate) fn place(&self) -> Option<(&Permit, &Policy)> {
        self.place.as_ref().map(|place| (&place.permit, &*place.policy))
    }

    /// When the api's permit was granted, in the store's time.
    pub(crate) fn granted_at(&self) -> Timestamp {
        self.place().map_or(Timestamp::EPOCH, |(permit, _)| permit.granted_at())
    }

    /// The count of grants of the api's rate, right after this one; 0 if it has no rate.
    pub(crate) fn grant(&self) -> u64 {
        self.place.as_ref().map_or(0, |place| place.grant)
    }

    /// Whether an answer's usage says what the call took: a limit counts more than calls.
    pub(crate) fn counts_tokens(&self) -> bool {
        let policies = [&self.share, &self.endpoint, &self.place].into_iter().flatten();
        policies.flat_map(|taken| taken.policy.units()).any(|unit| unit.as_str().ends_with("tokens"))
    }

    /// The vendor may have got the call from now on.
    pub(crate) fn sent(&mut self) {
        self.call = CallPhase::InFlight;
        if let Some(flight) = &mut self.flight {
            flight.sent();
        }
    }

    /// The call is answered, and runs no longer: a caller may keep an answer that it does not read.
    pub(crate) fn land(&mut self) {
        self.flight = None;
    }

    /// The place of the call among those in flight.
    pub(crate) fn flight(&self) -> Option<&Flight> {
        self.flight.as_ref()
    }

    /// The answer was taken in.
    pub(crate) fn over(&mut self) {
        self.call = CallPhase::Over;
    }

    /// Gives everything back: the vendor did not get the call. In the background, so that a caller may leave.
    pub(crate) fn give_back(&mut self) {
        self.call = CallPhase::Over;
        let rated = self.place.as_ref().map(|place| place.policy.name().clone());
        let taken = [self.share.take(), self.endpoint.take(), self.place.take()]
            .into_iter()
            .flatten()
            .map(|taken| taken.permit);
        let permits: Vec<Permit> = taken.chain(self.slot.take().map(|slot| *slot)).collect();
        if permits.is_empty() {
            return;
        }
        let state = Arc::clone(&self.state);
        self.state.in_background(async move {
            for permit in permits {
                if let Err(error) = permit.give_back().await {
                    tracing::debug!(%error, "a permit could not be given back");
                }
            }
            if let Some(policy) = rated {
                state.given_back(&policy);
            }
        });
    }

    /// Corrects the cost to what the call took, and frees the slot. Units that are not named stay as they were taken.
    pub(crate) async fn settle(mut self, actual: impl Fn(&Name) -> Option<u64>) {
        self.over();
        for taken in [self.share.take(), self.endpoint.take(), self.place.take()].into_iter().flatten() {
            let UnderPolicy { permit, policy, .. } = *taken;
            let units = policy.units().iter();
            let amounts: Vec<_> =
                units.filter_map(|unit| actual(unit).map(|amount| (unit.as_str(), amount))).collect();
            if !amounts.is_empty()
                && let Err(error) = permit.settle_all(amounts).await
            {
                tracing::debug!(%error, "the actual cost of a call could not be settled");
            }
        }
    }

    /// Leaves the permit to the program that has sent the call: its slots stay taken.
    pub(crate) fn leave(mut self) {
        self.over();
        if let Some(place) = self.place.take() {
            place.permit.into_ticket();
        }
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        match self.call {
            CallPhase::NotSent => self.give_back(),
            // Its caller has left. The vendor may have counted it, and nothing is known of its answer.
            CallPhase::InFlight => Arc::clone(&self.state).unanswered(self),
            CallPhase::Over => {}
        }
    }
}
