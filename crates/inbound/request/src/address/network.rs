//! A network: addresses that begin with the same bits, as in `10.0.0.0/8`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::unmapped;

/// Addresses that begin with the same bits. A single address is a network, too.
///
/// Always unmapped and truncated: [`IpNet`] treats an IPv4-mapped network as IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpNet);

/// Why a text is not a network.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The address or the prefix length is invalid.
    #[error("{0:?} is not a network; write one like 10.0.0.0/8 or 2001:db8::/32")]
    NotOne(String),
    /// Bits are set after the prefix: the address or the prefix is probably a typo.
    #[error("{given} has bits behind its prefix; the network would be {network}")]
    BitsBehindPrefix {
        /// The text as given.
        given: String,
        /// The network that contains the address.
        network: Network,
    },
}

tollway_core::debug_as_display!(NetworkError);

impl Network {
    /// The network with this prefix length around an address. A longer prefix than the address has bits means all of them.
    pub fn around(address: IpAddr, prefix: u8) -> Self {
        let whole = IpNet::from(unmapped(address));
        // `IpNet::new` accepts every prefix up to the maximum.
        let network = IpNet::new(whole.addr(), prefix.min(whole.max_prefix_len())).unwrap_or(whole);
        Self(network.trunc())
    }

    /// Whether an address lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&unmapped(address))
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let not_one = || NetworkError::NotOne(text.chars().take(80).collect());
        // Parse addresses with the standard library: `IpNet` reads 010.0.0.0 as 10.0.0.0, other parsers as 8.0.0.0.
        let address = |text: &str| text.parse::<IpAddr>().map_err(|_| not_one());
        let given = match text.split_once('/') {
            None => IpNet::from(address(text)?),
            Some((text, prefix)) => {
                let prefix = prefix.parse().map_err(|_| not_one())?;
                IpNet::new(address(text)?, prefix).map_err(|_| not_one())?
            }
        };
        let first = unmapped(given.addr());
        // The first 96 bits of an IPv4-mapped network are fixed.
        let mapped_bits = given.max_prefix_len() - IpNet::from(first).max_prefix_len();
        let prefix = given.prefix_len().checked_sub(mapped_bits).ok_or_else(not_one)?;
        let network = Self::around(first, prefix);
        if network.0.addr() != first {
            return Err(NetworkError::BitsBehindPrefix { given: text.to_owned(), network });
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
