//! Vendors that refuse in their own way.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use tollway_dialects::{Dialect, RefusalKind, VendorResponse};

/// A vendor of the application's own: errors inside a 200.
fn refused(response: &VendorResponse<'_>) -> Option<RefusalKind> {
    response.body.starts_with(b"{\"ok\":false,\"error\":\"busy\"").then_some(RefusalKind::Concurrency)
}

#[test]
fn application_recognises_a_refusal_inside_a_200() {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_static("3"));
    let body = br#"{"ok":false,"error":"busy"}"#;
    let busy = VendorResponse { status: StatusCode::OK, headers: &headers, body };
    let dialect = Dialect::by_name("http").unwrap();

    let alone = dialect.observe(&busy);
    assert_eq!((alone.refusal, alone.wait), (None, None));
    let told = dialect.observe_with(&busy, refused);
    assert_eq!((told.refusal, told.wait), (Some(RefusalKind::Concurrency), Some(Duration::from_secs(3))));
}

/// The body of a success is read for its wait once it is known to be a refusal.
#[test]
fn wait_in_the_body_of_such_a_refusal_is_read() {
    let headers = HeaderMap::new();
    let body = br#"{"ok":false,"error":"busy","retry_after":0.5}"#;
    let busy = VendorResponse { status: StatusCode::OK, headers: &headers, body };
    let told = Dialect::by_name("discord").unwrap().observe_with(&busy, refused);
    assert_eq!(told.wait, Some(Duration::from_millis(500)));
}

#[test]
fn dialect_decides_if_the_application_does_not() {
    let headers = HeaderMap::new();
    let response = VendorResponse { status: StatusCode::TOO_MANY_REQUESTS, headers: &headers, body: b"" };
    let observed = Dialect::by_name("http").unwrap().observe_with(&response, refused);
    assert_eq!(observed.refusal, Some(RefusalKind::Rate));
}

#[test]
fn application_wins_over_the_dialect() {
    let headers = HeaderMap::new();
    let response = VendorResponse { status: StatusCode::TOO_MANY_REQUESTS, headers: &headers, body: b"" };
    let observed =
        Dialect::by_name("stripe").unwrap().observe_with(&response, |_| Some(RefusalKind::DailyQuota));
    assert_eq!(observed.refusal, Some(RefusalKind::DailyQuota));
}
