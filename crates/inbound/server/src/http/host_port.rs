//! A host with an optional port, as in `Host` and in an origin.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest name of a host, as in DNS.
const HOST_BYTES_MAX: usize = 253;

/// A host and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostPort<'a> {
    /// A name or an IPv4 address, or an IPv6 address in brackets.
    pub(crate) host: &'a str,
    pub(crate) port: Option<u16>,
}

impl<'a> HostPort<'a> {
    /// `None` if the text is no host, or its port no number. An empty host is valid in HTTP.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let end = match text.strip_prefix('[') {
            Some(rest) => rest.find(']')?.checked_add(2)?,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, port) = text.split_at_checked(end)?;
        let valid = is_address(host) || host.len() <= HOST_BYTES_MAX && host.bytes().all(is_name_byte);
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            None => return None,
            Some("") => None,
            Some(port) => Some(port.parse().ok()?),
        };
        valid.then_some(Self { host, port })
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}

/// Whether this is an IP address, as a URL writes it.
fn is_address(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

/// Whether no one on the Internet can point this host here: an IP address, `localhost` and names below it, and names without
/// a dot, which local resolvers and container networks have.
pub(crate) fn is_local(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    let below = |suffix: &str| {
        let start = name.len().checked_sub(suffix.len());
        start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    is_address(host) || !host.contains('.') || name.eq_ignore_ascii_case("localhost") || below(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_split_from_its_port() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("a.example:8080", "a.example", Some(8_080)),
            ("a.example:", "a.example", None),
            ("127.0.0.1:1", "127.0.0.1", Some(1)),
            ("[::1]:9090", "[::1]", Some(9_090)),
            ("[::1]", "[::1]", None),
            ("", "", None),
        ] {
            assert_eq!(HostPort::parse(text), Some(HostPort { host, port }), "{text}");
        }
        for wrong in ["a b", "a:b", "a:65536", "a:1:2", "[::1", "[::1]x", "[evil.example]", "u@h", "a/b", "ä"]
        {
            assert_eq!(HostPort::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_that_can_be_registered_are_not_local() {
        for local in ["127.0.0.1", "10.1.2.3", "[::1]", "LOCALHOST", "localhost.", "a.b.localhost", "tollway"]
        {
            assert!(is_local(local), "{local}");
        }
        for other in ["evil.example", "localhost.example", "notlocalhost.", "127.0.0.1.example", "127.0.0.1."]
        {
            assert!(!is_local(other), "{other}");
        }
    }
}
