//! `[apis.NAME.gateway]`: how `tollway gateway` treats calls of an api.

use tollway_config::Section;
use tollway_core::{Name, Span};

use super::endpoint::read_policy;
use super::read::read_time;

/// How long a call waits for its permits, unless the section says otherwise: less than the minute after which most proxies
/// and load balancers close a silent connection.
const MAX_WAIT_DEFAULT: Span = Span::from_secs(50);

/// How a gateway treats calls of an api.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiGateway {
    policy: Option<Name>,
    max_wait: Option<Span>,
    pub(super) accounts: Option<ApiAccounts>,
    keepalive: Option<Span>,
    lower_costs: bool,
    private_addresses: bool,
}

/// Of an api whose config has no such section.
pub(super) static DEFAULT: ApiGateway = ApiGateway {
    policy: None,
    max_wait: None,
    accounts: None,
    keepalive: None,
    lower_costs: false,
    private_addresses: false,
};

/// Whose accounts at the vendor calls count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiAccounts {
    /// Every credential has an account of its own.
    ByCredential,
    /// All credentials are of one account.
    One,
}

impl ApiGateway {
    /// The policy under which callers have shares of their own, by the subject that they name.
    pub fn policy(&self) -> Option<&Name> {
        self.policy.as_ref()
    }

    /// How long a call may wait for its permits.
    pub fn max_wait(&self) -> Span {
        self.max_wait.unwrap_or(MAX_WAIT_DEFAULT)
    }

    /// How often a waiting call that streams its answer is sent a comment, so that no proxy closes its connection.
    pub fn keepalive(&self) -> Option<Span> {
        self.keepalive
    }

    /// Whether a caller may name a cost below the estimate.
    pub fn allows_lower_costs(&self) -> bool {
        self.lower_costs
    }

    /// Whether the name in `base_url` may have addresses of this machine or of a private network.
    pub fn allows_private_addresses(&self) -> bool {
        self.private_addresses
    }
}

const ACCOUNTS: [(&str, ApiAccounts); 2] =
    [("credential", ApiAccounts::ByCredential), ("one", ApiAccounts::One)];

pub(super) fn read(mut section: Section<'_>, policies: &[&str]) -> ApiGateway {
    let gateway = ApiGateway {
        policy: read_policy(&mut section, policies),
        max_wait: read_time(&mut section, "max_wait", "50s"),
        accounts: section.choice("account", &ACCOUNTS),
        keepalive: read_time(&mut section, "keepalive", "15s"),
        lower_costs: section.bool("lower_costs").unwrap_or_default(),
        private_addresses: section.bool("private_addresses").unwrap_or_default(),
    };
    section.finish();
    gateway
}
