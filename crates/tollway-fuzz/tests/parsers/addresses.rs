//! Forwarding headers, and networks.

use std::net::IpAddr;

use tollway_core::Subject;
use tollway_inbound::address::{AddressRules, ForwardingHeader, Network, Peer, Trust, unmapped};

use crate::fuzz;

const PROXY: &str = "10.0.0.9";
const CLIENT: &str = "203.0.113.7";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn rules(trust: Trust, header: ForwardingHeader) -> AddressRules {
    AddressRules { trust, header, ..AddressRules::default() }
}

/// T17: whatever a client writes, it is whom the trusted proxy has seen.
#[test]
fn addresses() {
    fuzz("addresses", |input| {
        let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        for header in [ForwardingHeader::XForwardedFor, ForwardingHeader::Forwarded] {
            nobody_is_believed_unless_told(&lines, header);
            a_trusted_proxy_is_believed(&lines, header);
        }
        networks_are_the_same_again(&crate::text(input));
        let hops = rules(Trust::Hops(2), ForwardingHeader::Forwarded);
        let said = hops.client(Peer::Unix, &lines);
        said.map_or("nobody".to_owned(), |client| {
            assert_eq!(unmapped(client), client);
            Subject::new(&hops.subject(client)).unwrap();
            format!("{} {}", client.is_ipv4(), lines.len().min(4))
        })
    });
}

fn nobody_is_believed_unless_told(lines: &[&[u8]], header: ForwardingHeader) {
    let stranger = Peer::Address(address(CLIENT));
    let networks = Trust::Networks { networks: vec!["10.0.0.0/8".parse().unwrap()], unix: true };
    for trust in [Trust::Nobody, Trust::Hops(0), networks] {
        let client = rules(trust, header).client(stranger, lines);
        assert_eq!(client, Some(address(CLIENT)));
    }
}

/// The proxy adds whom it has seen, in a line of its own or at the end of the last.
fn a_trusted_proxy_is_believed(lines: &[&[u8]], header: ForwardingHeader) {
    let proxy = Peer::Address(address(PROXY));
    let networks = Trust::Networks { networks: vec!["10.0.0.0/8".parse().unwrap()], unix: false };
    let seen = match header {
        ForwardingHeader::XForwardedFor => CLIENT.to_owned(),
        ForwardingHeader::Forwarded => format!("for={CLIENT}"),
    };
    let apart = [lines, &[seen.as_bytes()]].concat();
    let joined = apart.join(&b", "[..]);
    for trust in [Trust::Hops(1), networks] {
        let rules = rules(trust, header);
        assert_eq!(rules.client(proxy, &apart), Some(address(CLIENT)));
        assert_eq!(rules.client(proxy, [&joined]), Some(address(CLIENT)));
    }
}

fn networks_are_the_same_again(text: &str) {
    for network in text.split([',', '\n']).filter_map(|text| text.trim().parse::<Network>().ok()) {
        assert_eq!(network.to_string().parse(), Ok(network));
    }
}
