//! The client's address: who is at the other end, or whom a trusted proxy says it speaks for.
//!
//! A forwarding header is text that anybody can write. No header is trusted unless the configuration names its proxy, and then
//! entries count from the right, where the nearest proxy has added its own: what stands left of the first stranger was
//! written by that stranger.
//!
//! ```
//! use tollway_inbound::address::{AddressRules, Peer, Trust};
//!
//! let peer = Peer::Address("10.0.0.9".parse().unwrap());
//! let header = ["6.6.6.6, 203.0.113.7"]; // the client claims to be 6.6.6.6; our proxy has seen 203.0.113.7
//!
//! let nobody = AddressRules::default();
//! assert_eq!(nobody.client(peer, header).unwrap().to_string(), "10.0.0.9");
//! let proxy = AddressRules { trust: Trust::Networks { networks: vec!["10.0.0.0/8".parse().unwrap()], unix: false }, ..nobody };
//! assert_eq!(proxy.client(peer, header).unwrap().to_string(), "203.0.113.7");
//! ```

mod entry;
mod forwarded;
mod network;

use std::net::IpAddr;

use smallvec::SmallVec;

pub use entry::unmapped;
pub use network::{Network, NetworkError};

/// How many entries of forwarding headers are looked at, from the right: no chain of proxies is longer, and a header is
/// cheap to fill.
pub const ENTRIES_MAX: usize = 32;

/// The part of an IPv6 address that counts as one client, unless the configuration says otherwise: what one customer is
/// given at the least, and can change within at will.
pub const IPV6_PREFIX_DEFAULT: u8 = 64;

/// Who is at the other end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A client on a network.
    Address(IpAddr),
    /// A process on this machine, which has no address.
    Unix,
}

/// Whose forwarding headers are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// None.
    #[default]
    Nobody,
    /// Those of the last so many proxies, whatever their addresses: every request passes through all of them.
    Hops(usize),
    /// Those of proxies with these addresses.
    Networks {
        /// The addresses.
        networks: Vec<Network>,
        /// Also clients of a unix socket.
        unix: bool,
    },
}

/// Which header says whom a proxy speaks for.
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

/// How the client's address is found, and how much of it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRules {
    /// Whose word counts.
    pub trust: Trust,
    /// Where it stands.
    pub header: ForwardingHeader,
    /// How many bits of an IPv6 address are one client.
    pub ipv6_prefix: u8,
}

impl Default for AddressRules {
    fn default() -> Self {
        let (trust, header) = (Trust::default(), ForwardingHeader::default());
        Self { trust, header, ipv6_prefix: IPV6_PREFIX_DEFAULT }
    }
}

/// What the headers say, from left to right; nothing where an entry is not an address.
type Entries = SmallVec<[Option<IpAddr>; 4]>;

impl AddressRules {
    /// The client's address, out of all lines of the forwarding header in their order, as bytes: what a client has
    /// written must not hide what a proxy has added, and need be no text. Nothing if it cannot be known, which is so
    /// behind a unix socket that is not trusted.
    pub fn client(&self, peer: Peer, lines: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Option<IpAddr> {
        let nearest = match peer {
            Peer::Address(address) => Some(unmapped(address)),
            Peer::Unix => None,
        };
        match &self.trust {
            Trust::Nobody | Trust::Hops(0) => nearest,
            Trust::Hops(hops) => nth_from_right(&self.entries(lines), *hops, nearest),
            Trust::Networks { .. } if !self.names(peer) => nearest,
            Trust::Networks { .. } => {
                let trusted = |address: &IpAddr| self.names(Peer::Address(*address));
                first_stranger(&self.entries(lines), trusted, nearest)
            }
        }
    }

    /// Whether the peer is configured as a proxy, which speaks for many clients. A number of hops names no proxy: a client that
    /// reaches the server past the proxies looks like the last of them.
    pub fn names(&self, peer: Peer) -> bool {
        match (&self.trust, peer) {
            (Trust::Nobody | Trust::Hops(_), _) => false,
            (Trust::Networks { unix, .. }, Peer::Unix) => *unix,
            (Trust::Networks { networks, .. }, Peer::Address(address)) => {
                networks.iter().any(|network| network.contains(address))
            }
        }
    }

    /// The client as a subject: an IPv4 address as it is, an IPv6 address by its network.
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

/// What the outermost trusted proxy has seen. Fewer entries than proxies mean that the request came another way, and
/// then only the nearest is certain; so it is where an entry is no address.
fn nth_from_right(entries: &[Option<IpAddr>], hops: usize, nearest: Option<IpAddr>) -> Option<IpAddr> {
    let Some(first) = entries.len().checked_sub(hops) else { return nearest };
    entries.iter().skip(first).find_map(|entry| *entry).or(nearest)
}

/// From the right, the first that is not trusted; if all are, the leftmost. An entry that is no address ends the search:
/// who stands left of it is hearsay.
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
