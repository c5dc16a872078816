//! The client's address: which headers are trusted, and how addresses are parsed.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use std::net::IpAddr;

use tollway_inbound::address::{AddressRules, ENTRIES_MAX, ForwardingHeader, Network, Peer, Trust};

const PEER: &str = "10.0.0.9";

fn rules(trust: &str, header: ForwardingHeader) -> AddressRules {
    let networks = |list: &str| {
        let unix = list.split(' ').any(|word| word == "unix");
        let networks = list.split(' ').filter(|word| *word != "unix").map(|word| word.parse().unwrap());
        Trust::Networks { networks: networks.collect(), unix }
    };
    let trust = match trust.parse() {
        Ok(0) => Trust::None,
        Ok(hops) => Trust::Hops(hops),
        Err(_) => networks(trust),
    };
    AddressRules { trust, header, ..AddressRules::default() }
}

fn client(trust: &str, header: ForwardingHeader, peer: &str, lines: &[impl AsRef<[u8]>]) -> String {
    let peer = match peer {
        "unix" => Peer::Unix,
        address => Peer::Address(address.parse().unwrap()),
    };
    let found = rules(trust, header).client(peer, lines);
    found.map_or_else(|| "unknown".to_owned(), |address| address.to_string())
}

/// T17: no trust by default, hops and networks counted from the right, several lines, entries that are no address.
#[test]
fn only_the_trusted_part_of_a_chain_counts() {
    // (trust, peer, lines of X-Forwarded-For, expected client)
    let vectors: &[(&str, &str, &[&str], &str)] = &[
        // No proxy is trusted by default.
        ("0", PEER, &[], PEER),
        ("0", PEER, &["6.6.6.6"], PEER),
        ("0", "unix", &["6.6.6.6"], "unknown"),
        // Hops: the n-th entry from the right, which the outermost of n proxies appended.
        ("1", PEER, &["6.6.6.6, 203.0.113.7"], "203.0.113.7"),
        ("2", PEER, &["6.6.6.6, 203.0.113.7, 10.0.0.8"], "203.0.113.7"),
        ("1", PEER, &["6.6.6.6", "203.0.113.7"], "203.0.113.7"),
        ("2", PEER, &["6.6.6.6, 203.0.113.7", "10.0.0.8"], "203.0.113.7"),
        ("1", "unix", &["203.0.113.7"], "203.0.113.7"),
        // Fewer entries than proxies: the request bypassed some, so only the peer is certain.
        ("1", PEER, &[], PEER),
        ("2", PEER, &["6.6.6.6"], PEER),
        ("1", "unix", &[], "unknown"),
        // The client's entry is not an address: the nearest valid one counts.
        ("1", PEER, &["6.6.6.6, unknown"], PEER),
        ("2", PEER, &["6.6.6.6, _hidden, 10.0.0.8"], "10.0.0.8"),
        ("1", PEER, &["6.6.6.6,"], PEER),
        ("1", PEER, &[""], PEER),
        // Networks: the first untrusted address from the right.
        ("10.0.0.0/8", PEER, &["6.6.6.6, 203.0.113.7"], "203.0.113.7"),
        ("10.0.0.0/8", PEER, &["6.6.6.6, 203.0.113.7, 10.0.0.8, 10.1.1.1"], "203.0.113.7"),
        ("10.0.0.0/8", PEER, &["6.6.6.6", "203.0.113.7", "10.0.0.8"], "203.0.113.7"),
        ("10.0.0.0/8", "203.0.113.7", &["6.6.6.6"], "203.0.113.7"),
        ("10.0.0.0/8", PEER, &[], PEER),
        ("10.0.0.0/8", PEER, &["10.0.0.7, 10.0.0.8"], "10.0.0.7"),
        ("10.0.0.0/8", PEER, &["203.0.113.7, nonsense, 10.0.0.8"], "10.0.0.8"),
        ("10.0.0.0/8", PEER, &["nonsense"], PEER),
        ("10.0.0.9", PEER, &["203.0.113.7"], "203.0.113.7"),
        ("10.0.0.9", "10.0.0.10", &["203.0.113.7"], "10.0.0.10"),
        ("10.0.0.0/8 192.0.2.0/24", PEER, &["203.0.113.7, 192.0.2.1"], "203.0.113.7"),
        ("10.0.0.0/8", "unix", &["203.0.113.7"], "unknown"),
        ("10.0.0.0/8 unix", "unix", &["203.0.113.7, 10.0.0.8"], "203.0.113.7"),
        ("2001:db8:f::/48", "2001:db8:f::1", &["2001:db8:1:2::3"], "2001:db8:1:2::3"),
        // The kernel may show an IPv4 peer as IPv4-mapped IPv6; it is the same peer.
        ("10.0.0.0/8", "::ffff:10.0.0.9", &["203.0.113.7"], "203.0.113.7"),
        ("0", "::ffff:10.0.0.9", &[], PEER),
    ];
    for (trust, peer, lines, expected) in vectors {
        let found = client(trust, ForwardingHeader::XForwardedFor, peer, lines);
        assert_eq!(found, *expected, "trusting {trust:?}, from {peer}, {lines:?}");
    }
}

/// T17: ports, brackets, zones, IPv4 inside IPv6 in every notation.
#[test]
fn every_address_notation_is_parsed() {
    for (entry, expected) in [
        ("203.0.113.7", "203.0.113.7"),
        (" \t203.0.113.7 ", "203.0.113.7"),
        ("203.0.113.7:4711", "203.0.113.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]:80", "fe80::1"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("::ffff:cb00:7107", "203.0.113.7"),
        ("[::FFFF:cb00:7107]:80", "203.0.113.7"),
        ("0:0:0:0:0:ffff:203.0.113.7", "203.0.113.7"),
        ("64:ff9b::203.0.113.7", "203.0.113.7"),
        ("64:ff9b::cb00:7107", "203.0.113.7"),
        // Not an address: the peer counts.
        ("203.0.113", PEER),
        ("203.0.113.07", PEER),
        ("203.0.113.7:", PEER),
        ("203.0.113.7:80:80", PEER),
        ("[2001:db8::1", PEER),
        ("[2001:db8::1]x", PEER),
        ("[203.0.113.7]", PEER),
        ("\"203.0.113.7\"", PEER),
        ("203.0.113.7\u{0}", PEER),
        ("example.com", PEER),
    ] {
        assert_eq!(client("1", ForwardingHeader::XForwardedFor, PEER, &[entry]), expected, "{entry:?}");
    }
}

/// T17: the header of RFC 7239, with its quotes.
#[test]
fn forwarded_header_quoting_is_parsed() {
    for (lines, expected) in [
        (&["for=203.0.113.7"][..], "203.0.113.7"),
        (&["For=203.0.113.7;proto=https;by=10.0.0.1"], "203.0.113.7"),
        (&["proto=https; for=203.0.113.7"], "203.0.113.7"),
        (&["for=6.6.6.6, for=203.0.113.7"], "203.0.113.7"),
        (&["for=6.6.6.6", "for=203.0.113.7"], "203.0.113.7"),
        (&["for=\"[2001:db8::1]:4711\""], "2001:db8::1"),
        (&["for=\"203.0.113.7:80\";host=\"a,b;c\""], "203.0.113.7"),
        (&["host=\"a\\\",for=6.6.6.6\";for=203.0.113.7"], "203.0.113.7"),
        (&["for=unknown"], PEER),
        (&["for=_hidden"], PEER),
        (&["proto=https"], PEER),
        (&["for=6.6.6.6;host=\"a\\\\\", for=203.0.113.7;host=\"a\\\\\""], "203.0.113.7"),
        // An unclosed quote from a client does not hide the element of a proxy.
        (&["for=\"6.6.6.6, for=203.0.113.7"], "203.0.113.7"),
        (&["for=\"6.6.6.6\\, for=\"203.0.113.7:80\";host=\"a,b\""], "203.0.113.7"),
        (&["host=\"a\\\", for=203.0.113.7"], "203.0.113.7"),
        (&["for=6.6.6.6\", for=\"[2001:db8::1]\""], "2001:db8::1"),
        // If the proxy's own element has an unclosed quote, nothing left of it is trusted.
        (&["for=6.6.6.6, for=203.0.113.7;host=\"a"], PEER),
        (&["for=6.6.6.6, host=\"a;for=203.0.113.7"], PEER),
        (&["for=6.6.6.6, for=203.0.113.7\""], PEER),
        (&["203.0.113.7"], PEER),
    ] {
        assert_eq!(client("1", ForwardingHeader::Forwarded, PEER, lines), expected, "{lines:?}");
    }
}

/// T17: invalid UTF-8 makes only its own entry invalid.
#[test]
fn invalid_utf8_does_not_hide_entries_on_its_right() {
    let vectors: &[(&str, &[&[u8]], &str)] = &[
        ("1", &[b"\xff, 203.0.113.7"], "203.0.113.7"),
        ("1", &[b"\xff\xfe", b"\xc3,203.0.113.7"], "203.0.113.7"),
        ("2", &[b"\xff, 203.0.113.7, 10.0.0.8"], "203.0.113.7"),
        ("10.0.0.0/8", &[b"6.6.6.6, \xff, 203.0.113.7, 10.0.0.8"], "203.0.113.7"),
        // An invalid entry in the client's position: nothing left of it is trusted.
        ("1", &[b"6.6.6.6, \xff"], PEER),
        ("1", &[b"6.6.6.6, 203.0.113.7\xff"], PEER),
        ("2", &[b"6.6.6.6, \xff, 10.0.0.8"], "10.0.0.8"),
        ("10.0.0.0/8", &[b"203.0.113.7, \xff, 10.0.0.8"], "10.0.0.8"),
        ("10.0.0.0/8", &[b"203.0.113.7", b"\xff"], PEER),
    ];
    for (trust, lines, expected) in vectors {
        let found = client(trust, ForwardingHeader::XForwardedFor, PEER, lines);
        assert_eq!(found, *expected, "trusting {trust:?}, {lines:?}");
        let elements: Vec<Vec<u8>> = lines.iter().map(|line| in_elements(line)).collect();
        let found = client(trust, ForwardingHeader::Forwarded, PEER, &elements);
        assert_eq!(found, *expected, "trusting {trust:?}, {elements:?}");
    }
}

/// The same chain as in `X-Forwarded-For`, in elements of `Forwarded`.
fn in_elements(line: &[u8]) -> Vec<u8> {
    let elements = line.split(|byte| *byte == b',').map(|entry| [b"for=", entry.trim_ascii()].concat());
    elements.collect::<Vec<_>>().join(&b", "[..])
}

/// T17: only the configured header is read.
#[test]
fn only_the_configured_header_is_read() {
    assert_eq!(client("1", ForwardingHeader::Forwarded, PEER, &["203.0.113.7"]), PEER);
    assert_eq!(client("1", ForwardingHeader::XForwardedFor, PEER, &["for=203.0.113.7"]), PEER);
}

/// T17: a header of any length is read from the right, up to a bound.
#[test]
fn a_long_chain_is_read_from_the_right() {
    let long = "6.6.6.6,".repeat(10_000) + "203.0.113.7";
    assert_eq!(client("1", ForwardingHeader::XForwardedFor, PEER, &[&long]), "203.0.113.7");
    let trusted = "203.0.113.7,".to_owned() + &"10.0.0.8,".repeat(ENTRIES_MAX) + "10.0.0.8";
    assert_eq!(client("10.0.0.0/8", ForwardingHeader::XForwardedFor, PEER, &[&trusted]), "10.0.0.8");
}

/// T17: IPv6 counts by /64 by default, IPv4 by address, and all notations of one client are equal.
#[test]
fn all_notations_of_a_client_are_one_subject() {
    let subject = |address: &str, ipv6_prefix| {
        let rules = AddressRules { ipv6_prefix, ..AddressRules::default() };
        let peer = Peer::Address(address.parse().unwrap());
        rules.subject(rules.client(peer, [""; 0]).unwrap())
    };
    for (address, prefix, expected) in [
        ("203.0.113.7", 64, "203.0.113.7"),
        ("::ffff:203.0.113.7", 64, "203.0.113.7"),
        ("::ffff:cb00:7107", 64, "203.0.113.7"),
        ("64:ff9b::cb00:7107", 64, "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", 64, "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", 64, "2001:db8:1:3::/64"),
        ("2001:db8:1:2:3:4:5:6", 48, "2001:db8:1::/48"),
        ("2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6/128"),
    ] {
        assert_eq!(subject(address, prefix), expected, "{address}/{prefix}");
    }
}

#[test]
fn networks_are_validated_and_contain_their_addresses() {
    for (network, inside, outside) in [
        ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
        ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("0.0.0.0/0", "255.1.2.3", "2001:db8::1"),
        ("::/0", "2001:db8::1", "10.0.0.1"),
        ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
        ("::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"),
    ] {
        let network: Network = network.parse().unwrap();
        let holds = |address: &str| network.contains(address.parse::<IpAddr>().unwrap());
        assert!(holds(inside) && !holds(outside), "{network}");
    }
    for wrong in [
        "",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0/8",
        "ten",
        "::/129",
        "::ffff:10.0.0.0/8",
        "10.0.0.0/8/8",
        "010.0.0.0/8",
    ] {
        assert!(wrong.parse::<Network>().is_err(), "{wrong:?}");
    }
    let bits = "10.1.2.3/8".parse::<Network>().unwrap_err();
    assert_eq!(bits.to_string(), "10.1.2.3/8 has bits behind its prefix; the network would be 10.0.0.0/8");
}
