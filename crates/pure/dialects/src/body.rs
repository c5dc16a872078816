//! The members of a body that a table asks for, in JSON or XML. The rest of JSON is skipped without being parsed.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::xml;

/// The most bytes of a body that are looked at. A refusal has a few hundred; with a stack trace of the vendor's, some
/// thousand.
pub const BODY_BYTES_MAX: usize = 64 * 1_024;

/// The longest member that is parsed: what vendors say about limits is short.
const MEMBER_BYTES_MAX: usize = 16 * 1_024;

/// The most values that a path with `*` finds.
const FOUND_MAX: usize = 32;

/// Members of the top level of a body, or of the first element if the body is an array.
///
/// Of a body that is cut off, these are the members before the cut. Of XML, the root element is the only member.
#[derive(Default)]
pub(crate) struct ResponseBody {
    members: Map<String, Value>,
    /// Whether they are those of the first element of an array.
    pub(crate) is_in_array: bool,
}

/// A body without a byte order mark and without white space before it.
pub(crate) fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start()
}

impl ResponseBody {
    pub(crate) fn parse(bytes: &[u8], is_wanted: impl Fn(&str) -> bool) -> Self {
        let mut body = Self::default();
        let bytes = trimmed(&bytes[..bytes.len().min(BODY_BYTES_MAX)]);
        if bytes.starts_with(b"<") {
            body.members = xml::parse(&String::from_utf8_lossy(bytes));
            body.members.retain(|root, _| is_wanted(root));
        } else {
            let _ = body.read(bytes, is_wanted);
        }
        body
    }

    /// `None` at the end of what makes sense.
    fn read(&mut self, bytes: &[u8], is_wanted: impl Fn(&str) -> bool) -> Option<()> {
        self.is_in_array = bytes.starts_with(b"[");
        let bytes = bytes.strip_prefix(b"[").unwrap_or(bytes).trim_ascii_start();
        let mut rest = bytes.strip_prefix(b"{")?.trim_ascii_start();
        while rest.first() == Some(&b'"') {
            let (key, behind) = rest.split_at(end_of_value(rest)?);
            let value = behind.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
            let (value, behind) = value.split_at(end_of_value(value)?);
            let key: String = serde_json::from_slice(key).ok()?;
            if value.len() <= MEMBER_BYTES_MAX && is_wanted(&key) {
                self.members.insert(key, serde_json::from_slice(value).ok()?);
            }
            rest = behind.trim_ascii_start().strip_prefix(b",")?.trim_ascii_start();
        }
        None
    }

    /// The values at a path such as `error.details.*.retryDelay`, where `*` is every element of an array.
    pub(crate) fn find(&self, path: &str) -> Vec<&Value> {
        // As that of most answers, which are not read.
        if self.members.is_empty() {
            return Vec::new();
        }
        let mut keys = path.split('.');
        let mut found: Vec<&Value> = keys.next().and_then(|key| self.members.get(key)).into_iter().collect();
        for key in keys {
            found = found.into_iter().flat_map(|value| step(value, key)).take(FOUND_MAX).collect();
        }
        found
    }

    /// The same as text: strings, numbers and booleans.
    pub(crate) fn texts(&self, path: &str) -> impl Iterator<Item = Cow<'_, str>> {
        self.find(path).into_iter().filter_map(text)
    }
}

pub(crate) fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(_) | Value::Bool(_) => Some(Cow::Owned(value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn step<'v>(value: &'v Value, key: &str) -> Vec<&'v Value> {
    match value {
        Value::Array(values) if key == "*" => values.iter().take(FOUND_MAX).collect(),
        _ => value.get(key).into_iter().collect(),
    }
}

/// Where the JSON value at the beginning of the bytes ends. It is not validated; that is left to the parser.
fn end_of_value(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (place, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => {
                in_string = !in_string;
                if !in_string && depth == 0 {
                    return Some(place + 1);
                }
            }
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            // Ends a number or a word.
            b'}' | b']' | b',' if depth == 0 => return Some(place),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(place + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> ResponseBody {
        ResponseBody::parse(bytes, |_| true)
    }

    fn texts(bytes: &[u8], path: &str) -> Vec<String> {
        all(bytes).texts(path).map(Cow::into_owned).collect()
    }

    #[test]
    fn paths_find_every_element() {
        let body = br#" {"a": "x}\"", "errors" : [{"type":"one"},{"type":2},{"type":null},3], "n": 7 }"#;
        assert_eq!(texts(body, "errors.*.type"), ["one", "2"]);
        assert_eq!(texts(body, "a"), ["x}\""]);
        assert_eq!(texts(body, "n"), ["7"]);
        assert_eq!(texts(br#"[{"code":"A"},{"code":"B"}]"#, "code"), ["A"]);
    }

    #[test]
    fn xml_has_the_same_paths() {
        let body = b"\xef\xbb\xbf\n<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>";
        assert_eq!(texts(body, "Response.Errors.Error.Code"), ["RequestLimitExceeded"]);
        assert!(ResponseBody::parse(body, |root| root == "Error").members.is_empty());
    }

    #[test]
    fn members_before_a_cut_are_kept() {
        let body = br#"{"errors":[{"type":"one"}],"data":{"text":"a long ans"#;
        assert_eq!(texts(body, "errors.*.type"), ["one"]);
        for nonsense in [
            &b""[..],
            b"{",
            b"[",
            b"<html>",
            b"{\"a\"",
            b"{\"a\":",
            b"{\"a\":}",
            b"{]",
            b"\"a\"",
            b"{\"a\":1]}",
        ] {
            assert!(all(nonsense).members.len() <= 1);
        }
    }

    #[test]
    fn unwanted_and_long_members_are_skipped() {
        let long = format!(r#"{{"data":"{}","code":"x","other":1}}"#, "y".repeat(MEMBER_BYTES_MAX));
        let body = ResponseBody::parse(long.as_bytes(), |key| key != "other");
        assert_eq!(body.members.keys().collect::<Vec<_>>(), ["code"]);
    }
}
