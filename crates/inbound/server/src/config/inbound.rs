//! Settings for requests: how a client is identified, and which headers a response has.

use std::collections::BTreeMap;

use tollway_config::{Section, Spanned, suggest};
use tollway_inbound::address::{AddressRules, ForwardingHeader, Network, NetworkError, Trust};
use tollway_inbound::headers::HeaderChoice;

use super::number;

const HEADERS: [&str; 3] = ["x-rate-limit", "x-ratelimit", "ratelimit"];
const HEADERS_EXAMPLE: &str = "[\"x-rate-limit\", \"ratelimit\"]";

/// A longer chain of proxies is a typo.
const HOPS_MAX: u64 = 16;

/// IPv6 prefixes that can identify a client: from a provider's allocation to a single address.
const IPV6_PREFIXES: std::ops::RangeInclusive<u64> = 32..=128;

/// More headers than any deployment needs.
const SUBJECT_HEADERS_MAX: usize = 8;

const FORWARDING: [(&str, ForwardingHeader); 2] =
    [("x-forwarded-for", ForwardingHeader::XForwardedFor), ("forwarded", ForwardingHeader::Forwarded)];

pub(super) fn read_headers(section: &mut Section<'_>) -> Option<HeaderChoice> {
    let mut choice = HeaderChoice::NONE;
    for word in words(section, "headers", HEADERS_EXAMPLE)? {
        match *word.get_ref() {
            "x-rate-limit" => choice.x_rate_limit = true,
            "x-ratelimit" => choice.x_ratelimit = true,
            "ratelimit" => choice.ratelimit = true,
            other => {
                let message = format!("{other:?} is not a value of `headers`");
                section.report().problem(word.span(), message, suggest::advice(other, &HEADERS));
            }
        }
    }
    Some(choice)
}

pub(super) fn read_policy_headers(
    section: &mut Section<'_>,
    policies: &[&str],
) -> BTreeMap<String, HeaderChoice> {
    let mut choices = BTreeMap::new();
    for (name, mut of_policy) in section.named_sections("policies") {
        if policies.binary_search(name.get_ref()).is_err() {
            let message = format!("there is no policy {:?}", name.get_ref());
            section.report().problem(name.span(), message, suggest::advice(name.get_ref(), policies));
        }
        choices.extend(read_headers(&mut of_policy).map(|choice| ((*name.get_ref()).to_owned(), choice)));
        of_policy.finish();
    }
    choices
}

pub(super) fn read_address(mut section: Section<'_>) -> AddressRules {
    let hops = number::read(&mut section, "trusted_hops", 1..=HOPS_MAX);
    let networks = read_networks(&mut section);
    if section.has("trusted_hops") && section.has("trusted_networks") {
        let message = "`trusted_hops` and `trusted_networks` exclude each other";
        section.problem("trusted_hops", message, "keep one of them");
    }
    let header = section.choice("header", &FORWARDING).unwrap_or_default();
    let prefix = number::read(&mut section, "ipv6_prefix", IPV6_PREFIXES);
    section.finish();
    let base = AddressRules::default();
    let trust = hops.map(Trust::Hops).or(networks).unwrap_or_default();
    let ipv6_prefix = prefix.and_then(|prefix| u8::try_from(prefix).ok()).unwrap_or(base.ipv6_prefix);
    AddressRules { trust, header, ipv6_prefix }
}

fn read_networks(section: &mut Section<'_>) -> Option<Trust> {
    let words = words(section, "trusted_networks", "[\"10.0.0.0/8\"]")?;
    let (unix, networks): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| *word.get_ref() == "unix");
    let read = |word: Spanned<&str>| {
        let wrong = |error: NetworkError| section.report().problem(word.span(), error.to_string(), "");
        word.get_ref().parse::<Network>().map_err(wrong).ok()
    };
    Some(Trust::Networks {
        networks: networks.into_iter().filter_map(read).collect(),
        unix: !unix.is_empty(),
    })
}

pub(super) fn read_subject_headers(mut section: Section<'_>) -> Vec<String> {
    let words = words(&mut section, "subject_headers", "[\"x-api-key\"]").unwrap_or_default();
    if words.len() > SUBJECT_HEADERS_MAX {
        section.problem("subject_headers", format!("more than {SUBJECT_HEADERS_MAX} headers"), "name fewer");
    }
    let read = |word: Spanned<&str>| {
        let name = word.get_ref().to_ascii_lowercase();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        // The header's name is the subject's prefix, and the prefix `address` means the client's address.
        if name.is_empty() || !name.bytes().all(fits) || name == "address" {
            let message = format!("{:?} is not a header's name", word.get_ref());
            section.report().problem(word.span(), message, "write it like \"x-api-key\"");
            return None;
        }
        Some(name)
    };
    let names = words.into_iter().filter_map(read).collect();
    section.finish();
    names
}

/// A list of strings; other values are reported and skipped.
pub(super) fn words<'a>(
    section: &mut Section<'a>,
    key: &'static str,
    example: &str,
) -> Option<Vec<Spanned<&'a str>>> {
    let list = section.list(key, example)?;
    let mut words = Vec::with_capacity(list.len());
    for value in list {
        match value.get_ref().as_str() {
            Some(word) => words.push(Spanned::new(value.span(), word)),
            None => {
                let message = format!("`{key}` is a list of strings");
                section.report().problem(value.span(), message, format!("write it like `{key} = {example}`"));
            }
        }
    }
    Some(words)
}
