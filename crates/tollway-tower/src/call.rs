//! What a request comes to before anything is decided: free, or counted under a policy for a subject.

use std::borrow::Cow;

use http::request::Parts;
use smallvec::SmallVec;
use tollway::PolicyHandle;
use tollway_inbound::headers::HeaderChoice;

#[cfg(feature = "consumers")]
use crate::consumers::ConsumerRules;
use crate::layer::PolicyRules;
use crate::problem::Problem;

/// What a layer and its services share.
pub(crate) enum Rules {
    /// One policy for all.
    Policy(PolicyRules),
    /// The limits of whoever calls.
    #[cfg(feature = "consumers")]
    Consumers(ConsumerRules),
}

/// What a request comes to.
pub(crate) enum Call<'r> {
    /// It is let through, and nothing is counted.
    #[cfg_attr(not(feature = "consumers"), allow(dead_code, reason = "one policy counts everything"))]
    Free,
    Counted(Counted<'r>),
}

/// A request that is counted.
pub(crate) struct Counted<'r> {
    pub(crate) handle: Cow<'r, PolicyHandle>,
    pub(crate) subject: String,
    /// What it takes of each unit; one request if nothing is said.
    pub(crate) costs: SmallVec<[(&'r str, u64); 2]>,
    pub(crate) headers: HeaderChoice,
    /// Whether it shows no credentials although there are some to show.
    pub(crate) anonymous: bool,
}

impl Rules {
    pub(crate) async fn call(&self, request: &Parts) -> Result<Call<'_>, Problem> {
        match self {
            Self::Policy(rules) => rules.call(request).map(Call::Counted),
            #[cfg(feature = "consumers")]
            Self::Consumers(rules) => rules.call(request).await,
        }
    }
}
