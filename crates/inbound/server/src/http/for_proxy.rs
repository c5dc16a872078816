//! Denials for nginx's `auth_request`, which understands only 401 and 403 and reads no body: headers carry the real status
//! and body.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue, WWW_AUTHENTICATE};

use super::body::Response;

/// The status that the caller should see.
const STATUS: HeaderName = HeaderName::from_static("x-tollway-status");

/// The body that the caller should see.
const BODY: HeaderName = HeaderName::from_static("x-tollway-body");

/// The challenge of a 401, which RFC 9110 requires: a scheme that no client knows and no browser shows a dialog for, since
/// credentials would not help.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Tollway");

/// Turns a denial into one that nginx understands. With the default status, 429, it stays as it is.
pub(crate) fn refused_with(status: StatusCode, mut response: Response) -> Response {
    if status == StatusCode::TOO_MANY_REQUESTS {
        return response;
    }
    let meant = response.status();
    let body = in_ascii(response.body().bytes());
    response.headers_mut().insert(STATUS, HeaderValue::from(meant.as_u16()));
    if let Some(body) = body {
        response.headers_mut().insert(BODY, body);
    }
    if !matches!(meant, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        *response.status_mut() = status;
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().entry(WWW_AUTHENTICATE).or_insert(CHALLENGE);
    }
    response
}

/// Equivalent JSON with escapes for characters that a header cannot hold.
fn in_ascii(json: &[u8]) -> Option<HeaderValue> {
    use std::fmt::Write;
    let json = std::str::from_utf8(json).ok()?;
    let mut text = String::with_capacity(json.len());
    for sign in json.chars() {
        if matches!(sign, ' '..='~') {
            text.push(sign);
            continue;
        }
        for unit in sign.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::json;

    #[test]
    fn denial_for_nginx_carries_status_and_body_in_headers() {
        let refusal = || json(StatusCode::TOO_MANY_REQUESTS, &"größe \u{1f600}\u{7f}");
        let plain = refused_with(StatusCode::TOO_MANY_REQUESTS, refusal());
        assert_eq!((plain.status(), plain.headers().get(BODY)), (StatusCode::TOO_MANY_REQUESTS, None));
        let denied = refused_with(StatusCode::FORBIDDEN, refusal());
        assert_eq!(denied.status(), StatusCode::FORBIDDEN);
        assert_eq!(denied.headers()[STATUS], "429");
        let header = denied.headers()[BODY].to_str().unwrap();
        assert_eq!(header, r#""gr\u00f6\u00dfe \ud83d\ude00\u007f""#);
        assert_eq!(serde_json::from_str::<String>(header).unwrap(), "größe \u{1f600}\u{7f}");
        let blocked = refused_with(StatusCode::UNAUTHORIZED, json(StatusCode::FORBIDDEN, &""));
        assert_eq!(blocked.status(), StatusCode::FORBIDDEN, "403 stays 403");
        assert_eq!(blocked.headers()[STATUS], "403");
        let unknown = || {
            let mut unknown = json(StatusCode::UNAUTHORIZED, &"");
            unknown.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            unknown
        };
        for (response, challenge) in [(refusal(), "Tollway"), (unknown(), "Bearer")] {
            let denied = refused_with(StatusCode::UNAUTHORIZED, response);
            assert_eq!(
                (denied.status(), &denied.headers()[WWW_AUTHENTICATE]),
                (StatusCode::UNAUTHORIZED, &HeaderValue::from_static(challenge))
            );
        }
    }
}
