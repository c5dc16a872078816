//! What a config leaves open to other machines.

use std::fmt;

use crate::config::{NamedToken, TokenRight};
use crate::{ListenAddress, ListenerKind, ServerConfig};

/// Something that other machines reach without what would keep strangers out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// A listener without a credential.
    NoCredential {
        /// The key of the listener in `[server]`.
        listener: &'static str,
        /// Where it listens.
        address: ListenAddress,
        /// The key of the token in `[server.tokens]`.
        token: &'static str,
    },
    /// A listener that answers under every name.
    AnyHost {
        /// The key of the listener in `[server]`.
        listener: &'static str,
        /// Where it listens.
        address: ListenAddress,
    },
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCredential { listener, address, token } => write!(
                f,
                "`{listener}` ({address}) needs no credential: other machines that reach it can spend every subject's quota; set `{token}` in [server.tokens], or let only your own network reach it"
            ),
            Self::AnyHost { listener, address } => write!(
                f,
                "`{listener}` ({address}) answers under every host name; set `hosts` in [server] to the names that clients use"
            ),
        }
    }
}

/// What these listeners leave open, in their order.
pub(crate) fn exposures(
    config: &ServerConfig,
    listeners: impl IntoIterator<Item = (ListenerKind, ListenAddress)>,
) -> Vec<Exposure> {
    let decide = |named: &NamedToken| named.right == TokenRight::Decide;
    let guarded = config.decisions_token.is_some() || config.named_tokens.iter().any(decide);
    let mut found = Vec::new();
    for (kind, address) in listeners.into_iter().filter(|(_, address)| !address.is_local()) {
        let (listener, token, open) = match kind {
            ListenerKind::Decisions => ("listen", "decisions", !guarded),
            ListenerKind::Grpc => ("grpc", "decisions", !guarded),
            ListenerKind::Resp => ("resp", "resp", config.resp_token.is_none()),
            // Without a token it does not start on such an address.
            ListenerKind::Administration | ListenerKind::Program => ("admin", "read", false),
            // The gateway knows what its apis add to calls, and checks it itself.
            ListenerKind::Gateway => continue,
        };
        let named = matches!(kind, ListenerKind::Decisions | ListenerKind::Administration);
        if named && config.hosts.is_empty() {
            found.push(Exposure::AnyHost { listener, address: address.clone() });
        }
        if open {
            found.push(Exposure::NoCredential { listener, address, token });
        }
    }
    found
}

impl ServerConfig {
    /// What this config leaves open to other machines.
    pub fn exposures(&self) -> Vec<Exposure> {
        let listeners = [
            (ListenerKind::Decisions, Some(&self.listen)),
            (ListenerKind::Grpc, self.grpc.as_ref()),
            (ListenerKind::Resp, self.resp.as_ref()),
            (ListenerKind::Administration, self.admin.as_ref()),
        ];
        let listeners = listeners.into_iter().filter_map(|(kind, address)| Some((kind, address?.clone())));
        exposures(self, listeners)
    }
}
