//! Where a server listens: an address and a port, or a unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::config::section::Section;

/// Where a server listens.
///
/// ```
/// use tollway::ListenAddress;
///
/// assert!(matches!("127.0.0.1:8080".parse(), Ok(ListenAddress::Tcp(_))));
/// assert!(matches!("unix:/run/tollway.sock".parse(), Ok(ListenAddress::Unix(_))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and a port; port 0 is any that is free.
    Tcp(SocketAddr),
    /// A unix socket, by its path.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Whether only processes of this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(path) => Some(path),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("the path is missing; write it like unix:/run/tollway.sock".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                let text: String = text.chars().take(80).collect();
                format!("{text:?} is no place to listen; write an IP address and a port like 127.0.0.1:8080, or unix:PATH")
            }),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub(super) fn read(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<ListenAddress> {
    let text = section.string(key, example)?;
    text.get_ref().parse().map_err(|message: String| section.problem(key, message, "")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_sockets_are_local() {
        for (address, local) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("unix:/run/x", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
        ] {
            let address: ListenAddress = address.parse().unwrap();
            assert_eq!(address.is_local(), local, "{address}");
            assert_eq!(address.to_string().parse(), Ok(address));
        }
    }
}
