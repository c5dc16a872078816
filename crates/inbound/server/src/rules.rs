//! The part of `[server]` that a reload can change while connections stay open.

use std::collections::BTreeMap;

use tollway_inbound::address::AddressRules;
use tollway_inbound::headers::HeaderChoice;

use crate::admin::Tokens;
use crate::grpc::Descriptors;
use crate::http::AllowedCallers;
use crate::{MetricsDetail, ServeError, ServerConfig};

/// The settings that a reload can change.
pub(crate) struct Rules {
    pub(crate) address: AddressRules,
    pub(crate) subject_headers: Vec<String>,
    pub(crate) tokens: Tokens,
    pub(crate) descriptors: Descriptors,
    pub(crate) callers: AllowedCallers,
    pub(crate) metrics: MetricsDetail,
    headers: HeaderChoice,
    headers_named: bool,
    policy_headers: BTreeMap<String, HeaderChoice>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<tokio_rustls::TlsAcceptor>,
}

impl Rules {
    /// The same, with an administration that no one may read or change.
    pub(crate) fn closed(self) -> Result<Self, ServeError> {
        Ok(Self { tokens: Tokens::no_one_knows()?, ..self })
    }

    /// Reads the tokens and certificates that the config names.
    pub(crate) fn new(config: &ServerConfig) -> Result<Self, ServeError> {
        #[cfg(not(feature = "tls"))]
        if config.tls.is_some() {
            return Err(ServeError::NoTls);
        }
        Ok(Self {
            address: config.address.clone(),
            subject_headers: config.subject_headers.clone(),
            tokens: Tokens::read(config)?,
            descriptors: Descriptors::new(&config.descriptors),
            callers: AllowedCallers::new(config),
            metrics: config.metrics,
            headers: config.headers,
            headers_named: config.headers_named,
            policy_headers: config.policy_headers.clone(),
            #[cfg(feature = "tls")]
            tls: config.tls.as_ref().map(crate::tls::acceptor).transpose()?,
        })
    }

    /// Whether the config sets the response headers of a policy.
    pub(crate) fn names_headers_of(&self, policy: &str) -> bool {
        self.headers_named || self.policy_headers.contains_key(policy)
    }

    /// The response headers of a policy.
    pub(crate) fn headers_of(&self, policy: &str) -> HeaderChoice {
        self.policy_headers.get(policy).copied().unwrap_or(self.headers)
    }
}
