//! Who makes a change, for the log.

use std::fmt;
use std::sync::Arc;

use tollway_inbound::address::Peer;

/// The token and the address of a change.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    token: Option<Arc<str>>,
    peer: Peer,
}

impl Actor {
    pub(crate) fn new(token: Option<Arc<str>>, peer: Peer) -> Self {
        Self { token, peer }
    }
}

/// The name of the token and the address, as in `alice at 10.0.0.7`.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.token.as_deref().unwrap_or("no token"))?;
        match self.peer {
            Peer::Address(address) => write!(f, " at {address}"),
            Peer::Unix => f.write_str(" at a unix socket"),
        }
    }
}
