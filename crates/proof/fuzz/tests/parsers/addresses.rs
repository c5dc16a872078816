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

/// T17: whatever a client sends, its address is the one the trusted proxy has seen.
#[test]
fn addresses() {
    fuzz("addresses", |input| {
        let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        for header in [ForwardingHeader::XForwardedFor, ForwardingHeader::Forwarded] {
            no_proxy_is_trusted_by_default(&lines, header);
            trusted_proxy_sets_the_address(&lines, header);
        }
        networks_survive_a_round_trip(&crate::text(input));
        let hops = rules(Trust::Hops(2), ForwardingHeader::Forwarded);
        let said = hops.client(Peer::Unix, &lines);
        said.map_or("unknown".to_owned(), |client| {
            assert_eq!(unmapped(client), client);
            Subject::new(&hops.subject(client)).unwrap();
            format!("{} {}", client.is_ipv4(), lines.len().min(4))
        })
    });
}

fn no_proxy_is_trusted_by_default(lines: &[&[u8]], header: ForwardingHeader) {
    let stranger = Peer::Address(address(CLIENT));
    let networks = Trust::Networks { networks: vec!["10.0.0.0/8".parse().unwrap()], unix: true };
    for trust in [Trust::None, Trust::Hops(0), networks] {
        let client = rules(trust, header).client(stranger, lines);
        assert_eq!(client, Some(address(CLIENT)));
    }
}

/// The proxy appends the address it has seen, in its own header line or at the end of the last one.
fn trusted_proxy_sets_the_address(lines: &[&[u8]], header: ForwardingHeader) {
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

fn networks_survive_a_round_trip(text: &str) {
    for network in text.split([',', '\n']).filter_map(|text| text.trim().parse::<Network>().ok()) {
        assert_eq!(network.to_string().parse(), Ok(network));
    }
}
