//! From a request to its admission: free, or counted under policies for subjects.

use std::borrow::Cow;
use std::sync::Arc;

use http::request::Parts;
use smallvec::SmallVec;
use tollway::{Policy, PolicyHandle};
use tollway_inbound::headers::{CallerKind, HeaderChoice};
use tollway_inbound::{Admission, CountedCharge, InboundTake};

#[cfg(feature = "consumers")]
use crate::consumers_layer::ConsumerRules;
use crate::layer::PolicyRules;
use crate::options::LayerOptions;
use crate::problem::Problem;

/// What a layer and its services share.
pub(crate) struct Rules {
    pub(crate) options: LayerOptions,
    pub(crate) counting: Counting,
}

/// What a request is counted under.
pub(crate) enum Counting {
    /// The same policies for all requests.
    Policy(PolicyRules),
    /// The limits of each consumer.
    #[cfg(feature = "consumers")]
    Consumers(ConsumerRules),
}

/// A request that is counted.
pub(crate) struct CountedRequest<'r> {
    /// What it takes; at least one charge.
    pub(crate) charges: SmallVec<[RequestCharge<'r>; 1]>,
    pub(crate) caller: CallerKind,
}

/// What a request takes under one policy.
pub(crate) struct RequestCharge<'r> {
    pub(crate) handle: Cow<'r, PolicyHandle>,
    pub(crate) subject: String,
    /// The amount of each unit; empty is one request.
    pub(crate) amounts: SmallVec<[(&'r str, u64); 2]>,
}

/// The policies of a request's charges as they are in force, in order.
pub(crate) type PoliciesInForce = SmallVec<[Arc<Policy>; 1]>;

impl Rules {
    pub(crate) async fn admission(&self, request: &Parts) -> Result<Admission<CountedRequest<'_>>, Problem> {
        if self.options.skip(request) {
            return Ok(Admission::Free);
        }
        match &self.counting {
            Counting::Policy(rules) => rules.counted(request).map(Admission::Counted),
            #[cfg(feature = "consumers")]
            Counting::Consumers(rules) => rules.admission(request).await,
        }
    }
}

impl CountedRequest<'_> {
    pub(crate) fn policies(&self) -> PoliciesInForce {
        self.charges.iter().map(|charge| charge.handle.policy()).collect()
    }

    /// Its take under the policies in force, all or nothing, without waiting.
    pub(crate) fn take<'a>(
        &'a self,
        policies: &'a PoliciesInForce,
        headers: HeaderChoice,
    ) -> InboundTake<'a> {
        InboundTake::now(self.charges.iter().zip(policies).map(|(charge, policy)| {
            let RequestCharge { handle, subject, amounts } = charge;
            CountedCharge { handle, policy, subject, amounts: amounts.iter().copied().collect(), headers }
        }))
    }
}
