//! Adds rate limit headers to those of the service or of an inner layer.

use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tollway::core::Decision;
use tollway_inbound::InboundTake;
use tollway_inbound::headers::{self, LimitStatus, Rank, most_restrictive};

/// A response extension: the rank of the limit that `X-Rate-Limit-*` shows.
#[derive(Clone, Copy)]
struct ShownRank(Rank);

/// Adds the headers of a decision to a response. Lists are extended; `X-Rate-Limit-*` show one limit, and stay if theirs is
/// more restrictive.
pub(crate) fn put<B>(take: &InboundTake<'_>, decision: &Decision, response: &mut Response<B>) {
    let among_others = response.headers().contains_key("ratelimit-policy");
    let statuses = take.limit_statuses(decision, among_others);
    let most = most_restrictive(statuses.iter().filter(|status| status.choice.x_rate_limit));
    let most = most.map(LimitStatus::rank).filter(|most| is_more_restrictive(*most, response));
    let map = response.headers_mut();
    headers::write(&statuses, decision, |name, value| {
        let value = match value {
            headers::HeaderValue::Number(number) => Ok(HeaderValue::from(number)),
            headers::HeaderValue::Text(text) => HeaderValue::try_from(text),
        };
        let (name, Ok(value)) = (HeaderName::from_static(name), value) else { return };
        if name.as_str().starts_with("ratelimit") {
            map.append(name, value);
        } else if most.is_some() || !name.as_str().starts_with("x-rate-limit") {
            map.insert(name, value);
        }
    });
    if let Some(most) = most {
        response.extensions_mut().insert(ShownRank(most));
    }
}

/// Whether a limit is more restrictive than the one that the response shows, if any. A 429 of the service itself keeps its
/// own headers.
fn is_more_restrictive<B>(rank: Rank, response: &Response<B>) -> bool {
    match response.extensions().get() {
        Some(ShownRank(known)) => rank < *known,
        None => {
            response.status() != StatusCode::TOO_MANY_REQUESTS
                || !response.headers().contains_key("x-rate-limit-limit")
        }
    }
}
