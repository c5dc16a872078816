//! A line of the `Forwarded` header (RFC 7239): elements of parameters, some in quotes.

use super::{Entries, entry};

/// Adds what `for` says in each element. A line whose quotes do not end is one entry that is no address: where its
/// elements begin is then anybody's guess.
pub(super) fn read(line: &str, entries: &mut Entries) {
    let Some(elements) = split(line, ',') else { return entries.push(None) };
    entries.extend(elements.map(read_for));
}

fn read_for(element: &str) -> Option<std::net::IpAddr> {
    let is_for = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim().to_owned())
    };
    let value = split(element, ';')?.find_map(is_for)?;
    let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(&value);
    entry::read(bare)
}

/// The parts between separators that stand outside quotes; nothing if a quote does not end.
fn split(text: &str, separator: char) -> Option<impl Iterator<Item = &str>> {
    let mut quoted = false;
    let mut escaped = false;
    let mut ends = Vec::new();
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if character == separator && !quoted => ends.push(at),
            _ => {}
        }
    }
    if quoted {
        return None;
    }
    let starts = std::iter::once(0).chain(ends.clone().into_iter().map(|at| at.saturating_add(1)));
    let ends = ends.into_iter().chain(std::iter::once(text.len()));
    Some(starts.zip(ends).filter_map(|(start, end)| text.get(start..end)))
}
