//! The address of a dashboard, with a token for people at the terminal.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tollway_server::{LinkToken, ListenAddress, ServeError, TokenRight};

/// Where a dashboard is if nothing says so: on this machine alone, at the first port that is free.
pub(crate) fn usual_addresses() -> impl Iterator<Item = SocketAddr> {
    (9_090..9_100).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// A token of this process, which a printed address carries in its fragment: browsers send no fragment to a server.
pub(crate) struct Link {
    token: LinkToken,
    right: TokenRight,
}

impl Link {
    pub(crate) fn new(right: TokenRight) -> Result<Self, ServeError> {
        Ok(Self { token: LinkToken::new(right)?, right })
    }

    /// For the server to accept.
    pub(crate) fn token(&self) -> &LinkToken {
        &self.token
    }

    pub(crate) fn may_write(&self) -> bool {
        self.right == TokenRight::Write
    }

    /// The address to open in a browser. None: no browser reaches a unix socket.
    pub(crate) fn url(&self, address: &ListenAddress, tls: bool) -> Option<String> {
        Some(format!("{}#t={}", page_url(address, tls)?, self.token.text()))
    }
}

/// The same without a token.
pub(crate) fn page_url(address: &ListenAddress, tls: bool) -> Option<String> {
    let ListenAddress::Tcp(address) = address else { return None };
    let scheme = if tls { "https" } else { "http" };
    // An address that stands for all is none that a browser can open.
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    Some(format!("{scheme}://{}/", SocketAddr::new(ip, address.port())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_one_that_a_browser_can_open() {
        let link = Link::new(TokenRight::Read).unwrap();
        let url = |address: &str, tls| link.url(&address.parse().unwrap(), tls);
        let token = link.token().text().to_owned();
        assert_eq!(token.len(), 32);
        assert_eq!(url("127.0.0.1:9090", false), Some(format!("http://127.0.0.1:9090/#t={token}")));
        assert_eq!(url("0.0.0.0:9091", true), Some(format!("https://127.0.0.1:9091/#t={token}")));
        assert_eq!(url("[::]:9090", false), Some(format!("http://[::1]:9090/#t={token}")));
        assert_eq!(url("unix:/run/tollway.sock", false), None);
        assert!(!format!("{:?}", link.token()).contains(&token));
    }
}
