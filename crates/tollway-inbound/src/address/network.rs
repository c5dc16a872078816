//! A network: addresses that begin with the same bits, as in `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::unmapped;

/// Addresses that begin with the same bits. A single address is a network, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// No address, or no number of bits.
    #[error("{0:?} is not a network; write one like 10.0.0.0/8 or 2001:db8::/32")]
    NotOne(String),
    /// Bits are set behind the prefix: perhaps another address or another prefix was meant.
    #[error("{given} has bits behind its prefix; the network would be {network}")]
    BitsBehindPrefix {
        /// What was given.
        given: String,
        /// The network it lies in.
        network: Network,
    },
}

impl Network {
    /// The network of so many bits that an address lies in; all of its bits if there are fewer.
    pub fn around(address: IpAddr, prefix: u8) -> Self {
        match unmapped(address) {
            IpAddr::V4(v4) => {
                let prefix = prefix.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                Self { first: Ipv4Addr::from_bits(v4.to_bits() & mask).into(), prefix }
            }
            IpAddr::V6(v6) => {
                let prefix = prefix.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                Self { first: Ipv6Addr::from_bits(v6.to_bits() & mask).into(), prefix }
            }
        }
    }

    /// Whether an address lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = unmapped(address);
        address.is_ipv4() == self.first.is_ipv4() && Self::around(address, self.prefix) == *self
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let not_one = || NetworkError::NotOne(text.chars().take(80).collect());
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| not_one())?)),
        };
        let given: IpAddr = address.parse().map_err(|_| not_one())?;
        let bits = if given.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        if prefix > bits {
            return Err(not_one());
        }
        // Of a network written in IPv6 that holds IPv4 addresses only, the first 96 bits say just that.
        let shortened = if unmapped(given).is_ipv4() { prefix.checked_sub(bits - 32) } else { Some(prefix) };
        let network = Self::around(given, shortened.ok_or_else(not_one)?);
        if network.first != unmapped(given) {
            return Err(NetworkError::BitsBehindPrefix { given: text.to_owned(), network });
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}
