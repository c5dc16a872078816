//! Which addresses the names of vendors may have.
//!
//! A `base_url` with an IP address, or with `localhost`, says itself where calls go. A name is what its zone says, and a zone
//! that was taken over could point calls, with their credentials, at this machine, its network, or the metadata of its cloud.
//! So a name leads to public addresses only, unless `[apis.NAME.gateway]` says `private_addresses = true`. This is checked
//! when a connection is made, on the addresses that it would use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tollway::Limiter;
use url::Url;

/// Resolves the names of vendors, and leaves out the addresses that they may not have.
pub(crate) struct VendorAddresses(Limiter);

/// A name without an address that it may have.
#[derive(Debug, thiserror::Error)]
#[error(
    "{name} has only addresses of this machine or a private network, such as {address}; if that is meant, set `private_addresses = true` in [apis.{api}.gateway]"
)]
struct PrivateAddress {
    name: String,
    address: IpAddr,
    api: String,
}

impl VendorAddresses {
    pub(crate) fn new(limiter: Limiter) -> Self {
        Self(limiter)
    }

    /// The api whose name this is and that may have public addresses only. None of a proxy's name, or if any api of the same
    /// host may have others.
    fn guarded(&self, name: &str) -> Option<String> {
        if is_local(name) {
            return None;
        }
        let apis = self.0.apis();
        let of_host = |base: &str| {
            let url = Url::parse(base).ok();
            url.is_some_and(|url| url.host_str().is_some_and(|host| host.eq_ignore_ascii_case(name)))
        };
        let mut found = None;
        for api in apis.iter().filter(|api| of_host(api.base_url())) {
            if api.gateway().allows_private_addresses() {
                return None;
            }
            found = Some(api.name().to_string());
        }
        found
    }
}

impl Resolve for VendorAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let api = self.guarded(name.as_str());
        Box::pin(async move {
            // The port is that of the URL.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let Some(api) = api else { return Ok(Box::new(found.into_iter()) as Addrs) };
            let (public, private): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|address| is_public(address.ip()));
            match private.first().filter(|_| public.is_empty()) {
                None => Ok(Box::new(public.into_iter()) as Addrs),
                Some(address) => {
                    let (name, address) = (name.as_str().to_owned(), address.ip());
                    Err(PrivateAddress { name, address, api }.into())
                }
            }
        })
    }
}

/// Names that no zone decides about (RFC 6761).
fn is_local(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether an address is one of the internet. Addresses that carry an IPv4 address are judged by it.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.segments() {
            // NAT64 and 6to4.
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => is_public_v4(v4(high, low)),
            segments => is_public_v6(address, segments),
        },
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_shared = first == 100 && second & 0xc0 == 64;
    let is_protocol = first == 192 && second == 0 && third == 0;
    let is_benchmark = first == 198 && second & 0xfe == 18;
    !(first == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || is_shared
        || is_protocol
        || is_benchmark
        // Multicast, reserved and broadcast.
        || first >= 224)
}

/// Global unicast is 2000::/3, except documentation and the special 2001::/23.
fn is_public_v6(address: Ipv6Addr, segments: [u16; 8]) -> bool {
    let [first, second, ..] = segments;
    let is_documentation = first == 0x2001 && second == 0xdb8 || first == 0x3fff && second < 0x1000;
    let is_special = first == 0x2001 && second < 0x200;
    first & 0xe000 == 0x2000 && !is_documentation && !is_special && !address.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_machines_and_private_networks_are_not_public() {
        for private in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "::127.0.0.1",
            "3fff::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
            "2001:4860:4860::8888",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn names_of_apis_are_guarded_unless_one_of_them_says_otherwise() {
        let resolver = |config: &str| {
            let config = tollway::Config::parse(config).unwrap_or_else(|error| panic!("{error}"));
            VendorAddresses::new(Limiter::builder().config(&config).unwrap().build())
        };
        let api = |name: &str, host: &str| {
            format!("[apis.{name}]\nbase_url = \"http://{host}/v1\"\nrate = \"auto\"\n")
        };
        let allowed = "[apis.b.gateway]\nprivate_addresses = true\n";
        let guarded = resolver(&(api("a", "LLM.internal:80") + &api("c", "localhost:1")));
        assert_eq!(guarded.guarded("llm.internal").as_deref(), Some("a"));
        assert_eq!([guarded.guarded("localhost"), guarded.guarded("proxy.internal")], [None, None]);
        let both = resolver(&(api("a", "llm.internal") + &api("b", "llm.internal") + allowed));
        assert_eq!(both.guarded("llm.internal"), None);
    }
}
