//! One entry of a forwarding header: an address, perhaps with a port, brackets or a zone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address in an entry; `None` if it holds no valid address or is not UTF-8.
pub(super) fn read(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry).ok()?.trim();
    let address = match entry.strip_prefix('[') {
        Some(bracketed) => {
            let (address, port) = bracketed.split_once(']')?;
            let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
            read_v6(address).filter(|_| port_fits)?
        }
        None => match entry.parse() {
            Ok(address) => address,
            Err(_) => read_v4_with_port(entry).or_else(|| read_v6(entry))?,
        },
    };
    Some(unmapped(address))
}

fn read_v4_with_port(entry: &str) -> Option<IpAddr> {
    let (address, port) = entry.rsplit_once(':')?;
    let address: Ipv4Addr = address.parse().ok()?;
    is_port(port).then_some(address.into())
}

/// The zone names an interface on the machine that wrote the entry, so it is dropped.
fn read_v6(entry: &str) -> Option<IpAddr> {
    let address = entry.split_once('%').map_or(entry, |(address, _zone)| address);
    address.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn is_port(text: &str) -> bool {
    // RFC 7239 also allows obfuscated ports, which begin with an underscore.
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Converts an IPv4-mapped (`::ffff:0:0/96`) or translated (`64:ff9b::/96`) IPv6 address to IPv4. Otherwise all IPv4 clients
/// would share one IPv6 /64.
pub fn unmapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)).into()
        }
        _ => address,
    }
}
