//! Finds the client's address: the peer of the connection, or the address that a trusted proxy forwards.
//!
//! Any client can send a forwarding header, so no header is trusted unless the configuration names its proxy. Entries are
//! read from the right, where the nearest proxy appends its own. Everything left of the first untrusted address may be
//! forged.
//!
//! ```
//! use tollway_inbound::address::{AddressRules, Peer, Trust};
//!
//! let peer = Peer::Address("10.0.0.9".parse().unwrap());
//! let header = ["6.6.6.6, 203.0.113.7"]; // the client claims to be 6.6.6.6; our proxy has seen 203.0.113.7
//!
//! let untrusted = AddressRules::default();
//! assert_eq!(untrusted.client(peer, header).unwrap().to_string(), "10.0.0.9");
//! let proxy = AddressRules { trust: Trust::Networks { networks: vec!["10.0.0.0/8".parse().unwrap()], unix: false }, ..untrusted };
//! assert_eq!(proxy.client(peer, header).unwrap().to_string(), "203.0.113.7");
//! ```

mod entry;
mod forwarded;
mod network;

use std::net::IpAddr;

use smallvec::SmallVec;

pub use entry::unmapped;
pub use network::{Network, NetworkError};

/// The most forwarding entries that are read, from the right. It bounds the work for a long header; real proxy chains are
/// shorter.
pub const ENTRIES_MAX: usize = 32;

/// The default prefix of an IPv6 address that counts as one client: the smallest block that providers assign to a customer.
pub const IPV6_PREFIX_DEFAULT: u8 = 64;

/// The remote end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A client on a network.
    Address(IpAddr),
    /// A process on this machine, which has no address.
    Unix,
}

/// Which proxies' forwarding headers are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// No forwarding header is trusted.
    #[default]
    None,
    /// The last n proxies are trusted, whatever their addresses. Every request must pass through all of them.
    Hops(usize),
    /// Proxies with these addresses are trusted.
    Networks {
        /// The addresses of the proxies.
        networks: Vec<Network>,
        /// Whether clients of a unix socket are trusted, too.
        unix: bool,
    },
}

/// The header in which a proxy forwards the client's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardingHeader {
    /// `X-Forwarded-For`, which nearly all proxies write.
    #[default]
    XForwardedFor,
    /// `Forwarded`, of RFC 7239.
    Forwarded,
}

impl ForwardingHeader {
    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }
}

/// How the client's address is found, and which part of it identifies the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRules {
    /// Which proxies are trusted.
    pub trust: Trust,
    /// The forwarding header to read.
    pub header: ForwardingHeader,
    /// How many bits of an IPv6 address identify one client.
    pub ipv6_prefix: u8,
}

impl Default for AddressRules {
    fn default() -> Self {
        let (trust, header) = (Trust::default(), ForwardingHeader::default());
        Self { trust, header, ipv6_prefix: IPV6_PREFIX_DEFAULT }
    }
}

/// The forwarded addresses, left to right; `None` where an entry is not an address.
type Entries = SmallVec<[Option<IpAddr>; 4]>;

impl AddressRules {
    /// The client's address. `lines` are all lines of the forwarding header in order, as bytes: invalid UTF-8 from a client
    /// must not hide the entry of a proxy. `None` if the peer is an untrusted unix socket, which has no address.
    pub fn client(&self, peer: Peer, lines: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Option<IpAddr> {
        let nearest = match peer {
            Peer::Address(address) => Some(unmapped(address)),
            Peer::Unix => None,
        };
        match &self.trust {
            Trust::None | Trust::Hops(0) => nearest,
            Trust::Hops(hops) => nth_from_right(&self.entries(lines), *hops, nearest),
            Trust::Networks { .. } if !self.names(peer) => nearest,
            Trust::Networks { .. } => {
                let trusted = |address: &IpAddr| self.names(Peer::Address(*address));
                first_stranger(&self.entries(lines), trusted, nearest)
            }
        }
    }

    /// Whether the peer is configured as a proxy, which forwards for many clients. `Hops` identifies no proxy: a client that
    /// bypasses the proxies looks like the last one.
    pub fn names(&self, peer: Peer) -> bool {
        match (&self.trust, peer) {
            (Trust::None | Trust::Hops(_), _) => false,
            (Trust::Networks { unix, .. }, Peer::Unix) => *unix,
            (Trust::Networks { networks, .. }, Peer::Address(address)) => {
                networks.iter().any(|network| network.contains(address))
            }
        }
    }

    /// The client as a subject: the IPv4 address, or the network of the IPv6 address.
    pub fn subject(&self, client: IpAddr) -> String {
        match client {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(_) => Network::around(client, self.ipv6_prefix).to_string(),
        }
    }

    fn entries(&self, lines: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Entries {
        let mut entries = Entries::new();
        for line in lines {
            let line = line.as_ref();
            match self.header {
                ForwardingHeader::XForwardedFor => {
                    entries.extend(line.split(|byte| *byte == b',').map(entry::read));
                }
                ForwardingHeader::Forwarded => forwarded::read(line, &mut entries),
            }
            let surplus = entries.len().saturating_sub(ENTRIES_MAX);
            entries.drain(..surplus);
        }
        entries
    }
}

/// The address that the outermost trusted proxy saw. With fewer entries than proxies the request bypassed some of them, so
/// only the peer is certain. Invalid entries are skipped toward the peer.
fn nth_from_right(entries: &[Option<IpAddr>], hops: usize, nearest: Option<IpAddr>) -> Option<IpAddr> {
    let Some(first) = entries.len().checked_sub(hops) else { return nearest };
    entries.iter().skip(first).find_map(|entry| *entry).or(nearest)
}

/// From the right, the first untrusted address; if all are trusted, the leftmost. An invalid entry ends the search, because
/// everything left of it may be forged.
fn first_stranger(
    entries: &[Option<IpAddr>],
    trusted: impl Fn(&IpAddr) -> bool,
    nearest: Option<IpAddr>,
) -> Option<IpAddr> {
    let mut known = nearest;
    for entry in entries.iter().rev() {
        match entry {
            None => return known,
            Some(address) if !trusted(address) => return Some(*address),
            Some(address) => known = Some(*address),
        }
    }
    known
}
