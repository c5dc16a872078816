//! The names and web pages that may call the server.

use tollway_config::Section;

use super::inbound::words;
use crate::http::host_port::HostPort;

/// More names than a server has. Each is compared with the names of requests.
const HOSTS_MAX: usize = 64;

/// Reads `hosts`.
pub(super) fn read_hosts(section: &mut Section<'_>) -> Vec<String> {
    read(section, "hosts", "[\"tollway.example.com\"]", "a host name without a port", |host| {
        let HostPort { host: name, port: None } = HostPort::parse(host)? else { return None };
        (name == host && !name.is_empty()).then(|| name.to_ascii_lowercase())
    })
}

/// Reads `allowed_origins`.
pub(super) fn read_origins(section: &mut Section<'_>) -> Vec<String> {
    let example = "[\"https://app.example.com\"]";
    read(section, "allowed_origins", example, "the origin of a web page, without a path", |origin| {
        let (scheme, place) = origin.split_once("://")?;
        let HostPort { host, .. } = HostPort::parse(place)?;
        let valid = ["http", "https"].contains(&scheme) && !host.is_empty();
        valid.then(|| origin.to_ascii_lowercase())
    })
}

fn read(
    section: &mut Section<'_>,
    key: &'static str,
    example: &str,
    what: &str,
    valid: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let words = words(section, key, example).unwrap_or_default();
    if words.len() > HOSTS_MAX {
        section.problem(key, format!("more than {HOSTS_MAX} entries"), "name fewer");
    }
    let mut read = Vec::with_capacity(words.len().min(HOSTS_MAX));
    for word in words.iter().take(HOSTS_MAX) {
        match valid(word.get_ref()) {
            Some(value) => read.push(value),
            None => {
                let message = format!("{:?} is not {what}", word.get_ref());
                section.report().problem(word.span(), message, format!("write it like `{key} = {example}`"));
            }
        }
    }
    read
}
