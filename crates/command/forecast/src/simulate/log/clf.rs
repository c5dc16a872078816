//! The access log of web servers, common and combined:
//! `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326 "referer" "agent"`.

use std::borrow::Cow;

use super::{Reason, Value};

/// The fields of a line, in order, under the names that `--subject` and `--cost` know.
pub(super) const NAMES: [&str; 8] = ["ip", "ident", "user", "time", "request", "status", "bytes", "referer"];
/// The last one.
pub(super) const AGENT: &str = "agent";

/// Puts the fields at these places into `values`.
pub(super) fn read<'l>(line: &'l str, places: &[usize], values: &mut [Value<'l>]) -> Result<(), Reason> {
    let fields = split(line).ok_or("not a line of an access log")?;
    for (place, value) in places.iter().zip(values) {
        *value = match fields.get(*place).copied().flatten() {
            None | Some("-") => Value::Missing,
            Some(text) => Value::Text(Cow::Borrowed(text)),
        };
    }
    Ok(())
}

/// The fields of a line, if it is one of an access log: up to the request, what follows may be missing.
pub(super) fn split(line: &str) -> Option<[Option<&str>; NAMES.len() + 1]> {
    let (ip, rest) = line.split_once(' ')?;
    let (ident, rest) = rest.split_once(' ')?;
    // A user's name may have blanks in it; the time begins at the first bracket behind one.
    let (user, rest) = rest.split_once(" [")?;
    let (time, rest) = rest.split_once("] \"")?;
    let (request, rest) = until_quote(rest)?;
    let mut words = rest.trim_start().splitn(3, ' ');
    let (status, bytes) = (words.next(), words.next());
    let (referer, rest) = words.next().and_then(quoted).unzip();
    let agent = rest.and_then(quoted).map(|(agent, _)| agent);
    Some([Some(ip), Some(ident), Some(user), Some(time), Some(request), status, bytes, referer, agent])
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    until_quote(text.trim_start().strip_prefix('"')?)
}

/// Up to the closing quote; servers write one within as `\"`.
fn until_quote(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })?;
    Some((&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_and_combined_lines_are_split() {
        let common = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a \"b\" HTTP/1.0" 200 2326"#;
        let fields = split(common).unwrap();
        assert_eq!(fields[0], Some("127.0.0.1"));
        assert_eq!(fields[2], Some("frank"));
        assert_eq!(fields[3], Some("10/Oct/2000:13:55:36 -0700"));
        assert_eq!(fields[4], Some(r#"GET /a \"b\" HTTP/1.0"#));
        assert_eq!((fields[5], fields[6], fields[7]), (Some("200"), Some("2326"), None));
        let combined = format!(r#"{common} "http://x/" "Mozilla/5.0 (X11)""#);
        let fields = split(&combined).unwrap();
        assert_eq!((fields[7], fields[8]), (Some("http://x/"), Some("Mozilla/5.0 (X11)")));
        assert_eq!(split("not a line"), None);
    }
}
