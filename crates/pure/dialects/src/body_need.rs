//! How much of a body has to be read before its response can be observed. Streams are left alone: of a success, only what
//! begins like a refusal is read.

use std::borrow::Cow;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use crate::body::{BODY_BYTES_MAX, trimmed};
use crate::dialect::Dialect;

/// Words in the types of bodies whose parts are read as they come: events, lines of JSON, parts.
const STREAMS: [&str; 9] = [
    "event-stream",
    "ndjson",
    "jsonl",
    "json-lines",
    "jsonlines",
    "json-seq",
    "json-stream",
    "stream+json",
    "multipart/",
];

/// The type of most answers.
const JSON: &str = "application/json";

/// The members with which a refusal inside a success begins: those of Slack and of GraphQL, in any order.
const FIRST_MEMBERS: [&[u8]; 5] = [b"ok", b"error", b"errors", b"extensions", b"data"];

/// The longest beginning of an XML document before its root element, such as `<?xml version="1.0"?>`.
const PROLOG_BYTES_MAX: usize = 256;

/// How much of a body is needed. Ask it with all that was read, after each part.
#[derive(Debug)]
pub struct BodyNeed {
    /// Whether the body has to begin like a refusal.
    only_refusals: bool,
    /// What was scanned for the end of the document.
    scanned: usize,
    depth: u32,
    in_string: bool,
    escaped: bool,
    is_over: bool,
}

/// Whether a body comes in parts that are read one by one, perhaps for minutes.
pub fn is_stream(headers: &HeaderMap) -> bool {
    is_type_of_stream(&content_type(headers))
}

fn is_type_of_stream(kind: &str) -> bool {
    kind != JSON && STREAMS.iter().any(|word| kind.contains(word))
}

/// Without its parameters, in lower case.
fn content_type(headers: &HeaderMap) -> Cow<'_, str> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(kind.to_ascii_lowercase()),
        false => Cow::Borrowed(kind),
    }
}

impl Dialect {
    /// What is needed of the body of such a response; `None` if nothing is. `asks` is whether the application looks at
    /// bodies too, as in [`observe_with`](Self::observe_with).
    pub fn body_need(&self, status: StatusCode, headers: &HeaderMap, asks: bool) -> Option<BodyNeed> {
        let kind = content_type(headers);
        if is_type_of_stream(&kind) {
            return None;
        }
        if status.is_client_error() || status.is_server_error() {
            return Some(BodyNeed::new(false));
        }
        let is_document =
            kind == JSON || kind.contains("json") || kind.ends_with("/xml") || kind.ends_with("+xml");
        let is_text = is_document || kind.starts_with("text/") || kind.is_empty();
        if !status.is_success() {
            None
        } else if asks {
            is_text.then(|| BodyNeed::new(false))
        } else if self.reads_successes {
            is_document.then(|| BodyNeed::new(false))
        } else {
            (is_document && self.refuses_in_success()).then(|| BodyNeed::new(true))
        }
    }
}

impl BodyNeed {
    fn new(only_refusals: bool) -> Self {
        Self { only_refusals, scanned: 0, depth: 0, in_string: false, escaped: false, is_over: false }
    }

    /// Whether more is needed than this beginning of the body.
    pub fn wants_more(&mut self, begun: &[u8]) -> bool {
        if self.only_refusals && !may_be_refusal(begun) {
            return false;
        }
        self.scan(begun);
        !self.is_over && begun.len() < BODY_BYTES_MAX
    }

    /// Looks for the end of a JSON document: behind it, nothing is waited for.
    fn scan(&mut self, begun: &[u8]) {
        if !matches!(trimmed(begun).first(), Some(b'{' | b'[')) {
            return;
        }
        for byte in begun.get(self.scanned..).unwrap_or_default() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.is_over |= self.depth == 0;
                }
                _ => {}
            }
        }
        self.scanned = begun.len();
    }
}

/// Whether a success that begins like this may be a refusal; also if that cannot be told yet.
pub(crate) fn may_be_refusal(begun: &[u8]) -> bool {
    let begun = trimmed(begun);
    match begun.first() {
        None => true,
        Some(b'{') => may_be_refusing_object(begun.get(1..).unwrap_or_default().trim_ascii_start()),
        Some(b'<') => may_be_refusing_xml(begun),
        Some(_) => false,
    }
}

/// By its first member. `ok` has to be false, and `data` null.
fn may_be_refusing_object(members: &[u8]) -> bool {
    let Some(key) = members.strip_prefix(b"\"") else { return members.is_empty() };
    let Some(end) = key.iter().position(|byte| *byte == b'"') else {
        return FIRST_MEMBERS.iter().any(|member| member.starts_with(key));
    };
    let (key, behind) = key.split_at(end);
    let value = behind.get(1..).unwrap_or_default().trim_ascii_start();
    let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii_start();
    match key {
        b"ok" => value.is_empty() || value.first() == Some(&b'f'),
        b"data" => value.is_empty() || value.first() == Some(&b'n'),
        _ => FIRST_MEMBERS.contains(&key),
    }
}

/// By its root element: S3 answers `<Error>` in a 200 to calls that take long.
fn may_be_refusing_xml(document: &[u8]) -> bool {
    let mut rest = document;
    while rest.starts_with(b"<?") || rest.starts_with(b"<!") {
        match rest.iter().position(|byte| *byte == b'>') {
            Some(end) => rest = rest.get(end + 1..).unwrap_or_default().trim_ascii_start(),
            None => return rest.len() < PROLOG_BYTES_MAX,
        }
    }
    let root = rest.iter().position(|byte| matches!(byte, b'>' | b' ' | b'/'));
    match root {
        Some(end) => rest.get(..end) == Some(b"<Error"),
        None => b"<Error".starts_with(rest),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn need(status: u16, kind: &'static str, asks: bool) -> Option<BodyNeed> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        Dialect::detect(&headers).body_need(StatusCode::from_u16(status).unwrap(), &headers, asks)
    }

    #[test]
    fn streams_and_redirects_are_not_read_whoever_asks() {
        for (status, kind) in [
            (200, "text/event-stream"),
            (429, "text/event-stream; charset=utf-8"),
            (200, "application/x-ndjson"),
            (200, "Application/JSONL"),
            (200, "application/vnd.vendor.x-ndjson+json"),
            (500, "application/x-json-stream"),
            (200, "application/octet-stream"),
            (200, "multipart/mixed; boundary=x"),
            (200, "video/mp4"),
            (304, "application/json"),
            (302, "text/html"),
        ] {
            assert!(need(status, kind, true).is_none(), "{status} {kind}");
        }
        assert!(need(200, "text/plain", false).is_none());
        assert!(need(200, "text/plain", true).is_some());
        assert!(need(400, "application/octet-stream", false).is_some());
    }

    #[test]
    fn success_is_read_while_it_may_be_a_refusal() {
        let wants = |body: &str| need(200, "application/json", false).unwrap().wants_more(body.as_bytes());
        for undecided in ["", " ", "{", "{ \"er", "{\"ok\"", "{\"ok\" : f", "{\"data\":", "{\"data\":null,"] {
            assert!(wants(undecided), "{undecided}");
        }
        for data in
            ["[", "{\"id\":", "{\"ok\":true", "{\"data\":{", "{\"okay", "7", "{}", "{\"o\":", "\x1f\u{8b}"]
        {
            assert!(!wants(data), "{data}");
        }
        let wants = |body: &str| need(200, "application/xml", false).unwrap().wants_more(body.as_bytes());
        for undecided in ["<", "<?xml version=\"1.0\"?>\n<Err", "<Error>", "<Error><Code>Slow"] {
            assert!(wants(undecided), "{undecided}");
        }
        for data in ["<ListBucketResult>", "<?xml?><Errors>", "<ErrorLog>"] {
            assert!(!wants(data), "{data}");
        }
    }

    #[test]
    fn reading_ends_with_the_document_in_any_parts() {
        let body = br#" {"error": {"message": "a } \" ] brace", "errors": [{}]}} "#;
        let end = body.len() - 1;
        for size in [1, 3, 64] {
            let mut need = need(429, "application/json", false).unwrap();
            let over = (size..=body.len() + size).step_by(size).find(|read| {
                let read = (*read).min(body.len());
                !need.wants_more(&body[..read])
            });
            assert!((end..end + size).contains(&over.unwrap()), "{size}: {over:?}");
        }
        let mut long = need(500, "text/plain", false).unwrap();
        assert!(long.wants_more(&[b'x'; BODY_BYTES_MAX - 1]));
        assert!(!long.wants_more(&[b'x'; BODY_BYTES_MAX]));
    }
}
