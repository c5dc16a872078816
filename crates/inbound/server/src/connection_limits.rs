//! Connection limits: in total and per client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollway_inbound::address::{IPV6_PREFIX_DEFAULT, Network, Peer};

/// The connection limits of some listeners of a server.
pub(crate) struct ConnectionLimits {
    room: Arc<Semaphore>,
    /// Connections of each client, which is an IPv4 address or an IPv6 network. No more entries than connections.
    taken: Mutex<HashMap<Network, usize>>,
    most_for_one: usize,
}

/// Room for one more connection of any client.
pub(crate) type Room = OwnedSemaphorePermit;

/// The slot of an open connection; dropping it frees the slot.
pub(crate) struct ConnectionSlot {
    _room: Room,
    client: Option<(Arc<ConnectionLimits>, Network)>,
}

impl ConnectionLimits {
    pub(crate) fn new(in_all: usize, most_for_one: usize) -> Self {
        let room = Arc::new(Semaphore::new(in_all.min(Semaphore::MAX_PERMITS)));
        Self { room, taken: Mutex::default(), most_for_one }
    }

    /// Room, if there is any.
    pub(crate) fn room_at_once(&self) -> Option<Room> {
        Arc::clone(&self.room).try_acquire_owned().ok()
    }

    /// Waits until there is room. Connections beyond the limit are not refused: they wait in the kernel's backlog.
    pub(crate) async fn room(&self) -> Option<Room> {
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    /// Takes a slot for a client; `None` if it has its maximum.
    pub(crate) fn take(self: &Arc<Self>, room: Room, peer: Peer) -> Option<ConnectionSlot> {
        let Peer::Address(address) = peer else { return Some(ConnectionSlot { _room: room, client: None }) };
        let client = Network::around(address, if address.is_ipv4() { 32 } else { IPV6_PREFIX_DEFAULT });
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(client).or_default();
        if *count >= self.most_for_one {
            return None;
        }
        *count += 1;
        Some(ConnectionSlot { _room: room, client: Some((Arc::clone(self), client)) })
    }

    /// Takes a slot for a proxy, which has no limit of its own.
    pub(crate) fn take_for_proxy(room: Room) -> ConnectionSlot {
        ConnectionSlot { _room: room, client: None }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let Some((limits, client)) = &self.client else { return };
        let mut taken = limits.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                taken.remove(client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_per_client_are_limited_and_freed_on_close() {
        let limits = Arc::new(ConnectionLimits::new(10, 2));
        let peer = |address: &str| Peer::Address(address.parse().unwrap());
        let mut held = Vec::new();
        for (address, fits) in [
            ("192.0.2.1", true),
            ("192.0.2.1", true),
            ("192.0.2.1", false),
            ("::ffff:192.0.2.1", false),
            ("192.0.2.2", true),
            ("2001:db8::1", true),
            ("2001:db8::2", true),
            ("2001:db8::3", false),
            ("2001:db8:0:1::3", true),
        ] {
            let slot = limits.take(limits.room().await.unwrap(), peer(address));
            assert_eq!(slot.is_some(), fits, "{address}");
            held.extend(slot);
        }
        let unix = limits.take(limits.room().await.unwrap(), Peer::Unix);
        assert!(unix.is_some());
        drop((held, unix));
        assert!(limits.taken.lock().unwrap().is_empty());
        assert_eq!(limits.room.available_permits(), 10);
    }
}
