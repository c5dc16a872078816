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
        let text = crate::text(input);
        let lines: Vec<&str> = text.lines().collect();
        for header in [ForwardingHeader::XForwardedFor, ForwardingHeader::Forwarded] {
            nobody_is_believed_unless_told(&lines, header);
            a_trusted_proxy_is_believed(&lines, header);
        }
        networks_are_the_same_again(&lines);
        let hops = rules(Trust::Hops(2), ForwardingHeader::Forwarded);
        let said = hops.client(Peer::Unix, lines.iter().copied());
        said.map_or("nobody".to_owned(), |client| {
            assert_eq!(unmapped(client), client);
            Subject::new(&hops.subject(client)).unwrap();
            format!("{} {}", client.is_ipv4(), lines.len().min(4))
        })
    });
}

fn nobody_is_believed_unless_told(lines: &[&str], header: ForwardingHeader) {
    let stranger = Peer::Address(address(CLIENT));
    let networks = Trust::Networks { networks: vec!["10.0.0.0/8".parse().unwrap()], unix: true };
    for trust in [Trust::Nobody, Trust::Hops(0), networks] {
        let client = rules(trust, header).client(stranger, lines.iter().copied());
        assert_eq!(client, Some(address(CLIENT)));
    }
}

/// The proxy adds whom it has seen, in a line of its own or at the end of the last.
fn a_trusted_proxy_is_believed(lines: &[&str], header: ForwardingHeader) {
    let proxy = Peer::Address(address(PROXY));
    let networks = Trust::Networks { networks: vec!["10.0.0.0/8".parse().unwrap()], unix: false };
    let seen = match header {
        ForwardingHeader::XForwardedFor => CLIENT.to_owned(),
        ForwardingHeader::Forwarded => format!("for={CLIENT}"),
    };
    let joined = format!("{}, {seen}", lines.join(", "));
    for trust in [Trust::Hops(1), networks] {
        let rules = rules(trust, header);
        let apart = rules.client(proxy, lines.iter().copied().chain([seen.as_str()]));
        assert_eq!(apart, Some(address(CLIENT)));
        let client = rules.client(proxy, [joined.as_str()]);
        match header {
            ForwardingHeader::XForwardedFor => assert_eq!(client, Some(address(CLIENT))),
            // A quote that the client left open swallows what the proxy has added: then only the proxy is certain.
            ForwardingHeader::Forwarded => {
                assert!([CLIENT, PROXY].map(|known| Some(address(known))).contains(&client), "{client:?}");
            }
        }
    }
}

fn networks_are_the_same_again(lines: &[&str]) {
    for network in
        lines.iter().flat_map(|line| line.split(',')).filter_map(|text| text.trim().parse::<Network>().ok())
    {
        assert_eq!(network.to_string().parse(), Ok(network));
    }
}
