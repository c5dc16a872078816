//! From a request to its admission: free, or counted under a policy for a subject.

use std::borrow::Cow;

use http::request::Parts;
use smallvec::SmallVec;
use tollway::{Policy, PolicyHandle};
use tollway_inbound::headers::HeaderChoice;
use tollway_inbound::{Admission, CountedCharge, InboundTake};

#[cfg(feature = "consumers")]
use crate::consumers::ConsumerRules;
use crate::layer::PolicyRules;
use crate::problem::Problem;

/// What a layer and its services share.
pub(crate) enum Rules {
    /// One policy for all requests.
    Policy(PolicyRules),
    /// The limits of each consumer.
    #[cfg(feature = "consumers")]
    Consumers(ConsumerRules),
}

/// A request that is counted.
pub(crate) struct CountedRequest<'r> {
    pub(crate) handle: Cow<'r, PolicyHandle>,
    pub(crate) subject: String,
    /// The amount of each unit; empty is one request.
    pub(crate) amounts: SmallVec<[(&'r str, u64); 2]>,
    pub(crate) headers: HeaderChoice,
    /// Whether the request has no credentials although the layer looks for them.
    pub(crate) anonymous: bool,
}

impl Rules {
    pub(crate) async fn admission(&self, request: &Parts) -> Result<Admission<CountedRequest<'_>>, Problem> {
        match self {
            Self::Policy(rules) => rules.counted(request).map(Admission::Counted),
            #[cfg(feature = "consumers")]
            Self::Consumers(rules) => rules.admission(request).await,
        }
    }
}

impl CountedRequest<'_> {
    /// Its take under the policy in force, without waiting.
    pub(crate) fn take<'a>(&'a self, policy: &'a Policy) -> InboundTake<'a> {
        let Self { handle, subject, amounts, headers, .. } = self;
        let (amounts, headers) = (amounts.iter().copied().collect(), *headers);
        InboundTake::now([CountedCharge { handle, policy, subject, amounts, headers }])
    }
}
