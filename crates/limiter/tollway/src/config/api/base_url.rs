//! `base_url`: what the addresses of an api begin with.

use std::ops::Range;

use tollway_config::Section;

const EXAMPLE: &str = "https://api.notion.com/v1";

/// The URL of the section, if it has one; what is wrong with it is in the report.
pub(super) fn read(section: &mut Section<'_>) -> Option<String> {
    let url = section.string("base_url", EXAMPLE)?;
    let Some((part, message)) = what_is_wrong_with(url.get_ref()) else {
        return Some((*url.get_ref()).to_owned());
    };
    section.report().problem_in(&url, part, message, format!("write it like {EXAMPLE:?}"));
    None
}

/// Whether a profile's URL has a part that the config must fill in, as in `https://{store}.myshopify.com`.
pub(super) fn has_placeholder(url: &str) -> bool {
    url.contains(['{', '}'])
}

/// The wrong part of a URL, and why. The crate `url` reports no position and accepts what must be refused (`https:///v1`
/// becomes the host `v1`). The part never contains a password, because it is shown and logged.
pub(super) fn what_is_wrong_with(url: &str) -> Option<(Range<usize>, &'static str)> {
    let whole = 0..url.len();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Some((0..scheme.len(), "`base_url` must begin with https:// or http://"));
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some(at) = host.rfind('@') {
        let at = url.len().saturating_sub(rest.len()).saturating_add(at);
        let message =
            "`base_url` has a user or a password before its host, and config files are copied around";
        return Some((at..at.saturating_add(1), message));
    }
    if url.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return Some((whole, "`base_url` has a space or a control character in it"));
    }
    if url.contains(['?', '#']) {
        return Some((whole, "`base_url` ends where paths begin, so it has no `?` and no `#`"));
    }
    (host.is_empty() || host.starts_with(':')).then_some((whole, "`base_url` names no host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_http_and_names_a_host() {
        for good in ["https://api.notion.com/v1", "http://127.0.0.1:8080", "HTTPS://[::1]/", "http://a/@b"] {
            assert_eq!(what_is_wrong_with(good), None, "{good}");
        }
        for (wrong, part, message) in [
            ("", "", "begin with"),
            ("api.notion.com/v1", "", "begin with"),
            ("ftp://a", "ftp", "begin with"),
            ("://a", "", "begin with"),
            ("https://", "https://", "no host"),
            ("https:///v1", "https:///v1", "no host"),
            ("https://:80", "https://:80", "no host"),
            ("https://a b", "https://a b", "space"),
            ("https://me:secret@a", "@", "password"),
            ("https://a/?key=1", "https://a/?key=1", "`?`"),
        ] {
            let found = what_is_wrong_with(wrong).unwrap();
            assert_eq!(wrong.get(found.0), Some(part), "{wrong}");
            assert!(found.1.contains(message), "{wrong}: {}", found.1);
        }
    }
}
