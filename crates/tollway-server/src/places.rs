//! Places for connections: so many in all, and so many for one client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollway_inbound::address::{IPV6_PREFIX_DEFAULT, Network, Peer};

/// The places of some doors of a server.
pub(crate) struct Places {
    room: Arc<Semaphore>,
    /// Connections of each client: an IPv4 address or a network of IPv6. No more entries than places.
    taken: Mutex<HashMap<Network, usize>>,
    most_for_one: usize,
}

/// Room for one more connection, whosever it will be.
pub(crate) type Room = OwnedSemaphorePermit;

/// A place that is taken; dropping it leaves it.
pub(crate) struct Place {
    _room: Room,
    client: Option<(Arc<Places>, Network)>,
}

impl Places {
    pub(crate) fn new(in_all: usize, most_for_one: usize) -> Self {
        let room = Arc::new(Semaphore::new(in_all.min(Semaphore::MAX_PERMITS)));
        Self { room, taken: Mutex::default(), most_for_one }
    }

    /// Room, if there is any.
    pub(crate) fn room_at_once(&self) -> Option<Room> {
        Arc::clone(&self.room).try_acquire_owned().ok()
    }

    /// Waits until there is room. Nobody is turned away for want of it: they wait in the kernel until others have gone.
    pub(crate) async fn room(&self) -> Option<Room> {
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    /// Takes a place for a client; nothing if it has as many as one may have.
    pub(crate) fn take(self: &Arc<Self>, room: Room, peer: Peer) -> Option<Place> {
        let Peer::Address(address) = peer else { return Some(Place { _room: room, client: None }) };
        let client = Network::around(address, if address.is_ipv4() { 32 } else { IPV6_PREFIX_DEFAULT });
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(client).or_default();
        if *count >= self.most_for_one {
            return None;
        }
        *count += 1;
        Some(Place { _room: room, client: Some((Arc::clone(self), client)) })
    }

    /// Takes a place for a proxy, which speaks for many.
    pub(crate) fn take_for_proxy(room: Room) -> Place {
        Place { _room: room, client: None }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((places, client)) = &self.client else { return };
        let mut taken = places.taken.lock().unwrap_or_else(PoisonError::into_inner);
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
    async fn one_client_has_no_more_than_its_share_and_leaves_no_trace() {
        let places = Arc::new(Places::new(10, 2));
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
            let place = places.take(places.room().await.unwrap(), peer(address));
            assert_eq!(place.is_some(), fits, "{address}");
            held.extend(place);
        }
        let unix = places.take(places.room().await.unwrap(), Peer::Unix);
        assert!(unix.is_some());
        drop((held, unix));
        assert!(places.taken.lock().unwrap().is_empty());
        assert_eq!(places.room.available_permits(), 10);
    }
}
