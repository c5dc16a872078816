//! Headers on their way to a vendor and back.

use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Request, StatusCode, Version};
use tollway::config::Api;
use tollway_server::Client;

use crate::refusal::Refusal;

/// Headers for the next hop alone, besides those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-connection"),
];

/// The token of the gateway itself.
const TOKEN: HeaderName = HeaderName::from_static("x-tollway-token");

/// What the gateway's own headers begin with. They end here, in both directions.
const OWN_PREFIX: &str = "tollway-";

/// The headers that hold a caller's credential at a vendor, the usual one first.
const CREDENTIALS: [HeaderName; 5] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("x-auth-token"),
];

/// The credential of a request.
pub(crate) fn credential(headers: &HeaderMap) -> Option<&HeaderValue> {
    CREDENTIALS.iter().find_map(|name| headers.get(name)).filter(|value| !value.is_empty())
}

/// Refuses a request that a vendor could read in another way than this gateway.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Refusal> {
    let headers = request.headers();
    if headers.contains_key(UPGRADE) {
        return Err(Refusal::not_supported("the gateway passes no upgrades on, such as to WebSocket"));
    }
    // The server has refused a length beside it.
    if headers.contains_key(TRANSFER_ENCODING) {
        let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
        let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
        if request.version() == Version::HTTP_10
            || !codings.next().is_some_and(is_chunked)
            || codings.next().is_some()
        {
            return Err(Refusal::bad_request("the only transfer-encoding is chunked, in HTTP/1.1"));
        }
    }
    if headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
        return Err(Refusal::bad_request("the header content-length occurs twice"));
    }
    let expects_other = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if headers.get(EXPECT).is_some_and(expects_other) {
        let detail = "the only expectation that is known is 100-continue";
        return Err(Refusal::problem(
            StatusCode::EXPECTATION_FAILED,
            "urn:tollway:expectation-failed",
            "unknown expectation",
            detail,
        ));
    }
    Ok(())
}

/// Makes a caller's headers those of the vendor's request. The config's come last, when the destination is fixed: its
/// credentials replace the caller's, its other headers are for callers that have none.
pub(crate) fn for_vendor(headers: &mut HeaderMap, api: &Api, client: Client) -> Result<(), Refusal> {
    remove_hop_by_hop(headers);
    for name in [HOST, CONTENT_LENGTH, EXPECT, TOKEN] {
        headers.remove(name);
    }
    if client.sent_token_as_authorization {
        headers.remove(AUTHORIZATION);
    }
    if api.headers().iter().any(|header| header.holds_credential()) {
        CREDENTIALS.iter().for_each(|name| drop(headers.remove(name)));
    }
    // So that no log shows them, whatever prints headers.
    headers
        .iter_mut()
        .filter(|(name, _)| CREDENTIALS.contains(name))
        .for_each(|(_, value)| value.set_sensitive(true));
    for header in api.headers() {
        let Ok(name) = HeaderName::try_from(header.name()) else { continue };
        if !header.holds_credential() && headers.contains_key(&name) {
            continue;
        }
        let value = header.value().map_err(|error| Refusal::wrong_config(error.to_string()))?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| Refusal::wrong_config(format!("header {} has no valid value", header.name())))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(())
}

/// Makes a vendor's headers those of the answer.
pub(crate) fn for_caller(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let is_removed = |name: &&HeaderName| {
        name.as_str().starts_with(OWN_PREFIX) || HOP_BY_HOP.contains(name) || named.contains(name)
    };
    // Most requests and answers have none.
    let removed: Vec<HeaderName> = headers.keys().filter(is_removed).cloned().collect();
    for name in &removed {
        headers.remove(name);
    }
}

/// Whether the caller wants a stream of events.
pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    let events =
        |value: &HeaderValue| value.to_str().is_ok_and(|value| value.starts_with("text/event-stream"));
    headers.get(ACCEPT).is_some_and(events)
}
