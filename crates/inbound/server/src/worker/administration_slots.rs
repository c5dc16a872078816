//! The slots of the administration: at their limit, the connection that has waited longest for a request yields to a new one.
//!
//! Otherwise a few hundred idle connections would keep operators out. Connections with a request in flight do not yield; if
//! all have one, a new connection may only check the health.

use tollway_inbound::address::{IPV6_PREFIX_DEFAULT, Network, Peer};

use super::{Watched, Worker};
use crate::ListenerKind;
use crate::bounds::{ADMINISTRATION_CONNECTIONS_MAX, ADMINISTRATION_CONNECTIONS_PER_ADDRESS_MAX};
use crate::counts::count;

impl Worker {
    /// Makes room for a new connection of this client to the administration. False if none can yield.
    pub(super) fn make_room(&self, peer: Peer) -> bool {
        let connections = self.connections.borrow();
        let open = || connections.values().filter(|known| !known.deadlines.is_over());
        let of_client = |known: &&Watched| client(known.peer) == client(peer);
        // A proxy that the config names has clients of its own, and a unix socket has no address.
        let limited = client(peer).is_some() && !self.state.rules().address.names(peer);
        let yields =
            if limited && open().filter(of_client).count() >= ADMINISTRATION_CONNECTIONS_PER_ADDRESS_MAX {
                longest_without_request(open().filter(of_client))
            } else if open().count() >= ADMINISTRATION_CONNECTIONS_MAX {
                longest_without_request(open())
            } else {
                return true;
            };
        if let Some(known) = yields {
            known.deadlines.cut_off();
            count(&self.state.counts.at(ListenerKind::Administration).cut_off);
        }
        yields.is_some()
    }
}

fn longest_without_request<'w>(connections: impl Iterator<Item = &'w Watched>) -> Option<&'w Watched> {
    let waiting = connections.filter_map(|known| Some((known.deadlines.without_request_since()?, known)));
    waiting.min_by_key(|(since, _)| *since).map(|(_, known)| known)
}

/// An IPv4 address or an IPv6 network.
fn client(peer: Peer) -> Option<Network> {
    let Peer::Address(address) = peer else { return None };
    Some(Network::around(address, if address.is_ipv4() { 32 } else { IPV6_PREFIX_DEFAULT }))
}
