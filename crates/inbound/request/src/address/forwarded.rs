//! Parses a `Forwarded` header line (RFC 7239): elements of parameters, some of them quoted.
//!
//! Parsing starts at the right end, where the nearest proxy appends its element. An unclosed quote further left, perhaps
//! sent by the client, cannot affect that element.

use std::net::IpAddr;

use super::{ENTRIES_MAX, Entries, entry};

/// Appends the `for` address of each element. After an unbalanced quote, the rest of the line is one entry without an
/// address, because its element boundaries are unknown.
pub(super) fn read(line: &[u8], entries: &mut Entries) {
    let from_right = from_right(line, b',').take(ENTRIES_MAX);
    let mut read: Entries = from_right.map(|element| element.and_then(read_for)).collect();
    read.reverse();
    entries.append(&mut read);
}

/// The first `for` parameter of an element.
fn read_for(element: &[u8]) -> Option<IpAddr> {
    let value = from_right(element, b';').filter_map(|pair| value_of_for(pair?)).last()?;
    let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    entry::read(bare)
}

fn value_of_for(pair: &[u8]) -> Option<&[u8]> {
    let mut halves = pair.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
    let (name, value) = (halves.next()?, halves.next()?);
    name.eq_ignore_ascii_case(b"for").then_some(value)
}

/// The parts between unquoted separators, last to first; `None` for a part with an unbalanced quote.
fn from_right(text: &[u8], separator: u8) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let (left, part) = cut_last(rest?, separator);
        rest = left;
        Some(part)
    })
}

/// Splits at the last unquoted separator: the text before it, and the part after it.
fn cut_last(text: &[u8], separator: u8) -> (Option<&[u8]>, Option<&[u8]>) {
    let mut quoted = false;
    for (at, byte) in text.iter().enumerate().rev() {
        let (left, right) = text.split_at(at);
        match byte {
            b'"' if quoted && is_escaped(left) => {}
            b'"' => quoted = !quoted,
            _ if *byte == separator && !quoted => return (Some(left), right.get(1..)),
            _ => {}
        }
    }
    (None, Some(text).filter(|_| !quoted))
}

/// Whether an odd number of backslashes precedes the next byte.
fn is_escaped(left: &[u8]) -> bool {
    left.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}
