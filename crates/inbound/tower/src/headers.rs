//! Adds rate limit headers to those of the service or of an inner layer.

use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tollway::core::Decision;
use tollway_inbound::InboundTake;
use tollway_inbound::headers::{self, HeaderChoice, LimitStatus, Rank, most_restrictive};

/// A family of headers that show one limit.
struct HeaderFamily {
    /// How their names begin.
    prefix: &'static str,
    is_chosen: fn(HeaderChoice) -> bool,
}

const ONE_LIMIT: [HeaderFamily; 2] = [
    HeaderFamily { prefix: "x-rate-limit-", is_chosen: |choice| choice.x_rate_limit },
    HeaderFamily { prefix: "x-ratelimit-", is_chosen: |choice| choice.x_ratelimit },
];

/// A response extension: the rank of the limit that each of these families shows.
#[derive(Clone, Copy, Default)]
struct ShownRanks([Option<Rank>; 2]);

/// Adds the headers of a decision to a response. Lists are extended. `X-Rate-Limit-*` and `X-RateLimit-*` show one limit,
/// and stay if theirs is more restrictive.
pub(crate) fn put<B>(take: &InboundTake<'_>, decision: &Decision, response: &mut Response<B>) {
    let among_others = response.headers().contains_key("ratelimit-policy");
    let statuses = take.limit_statuses(decision, among_others);
    let mut shown: ShownRanks = response.extensions().get().copied().unwrap_or_default();
    let mut replaced = [false; 2];
    for (index, family) in ONE_LIMIT.iter().enumerate() {
        let most = most_restrictive(statuses.iter().filter(|status| (family.is_chosen)(status.choice)));
        let most = most.map(LimitStatus::rank);
        let most = most.filter(|most| is_more_restrictive(*most, shown.0[index], family, response));
        replaced[index] = most.is_some();
        shown.0[index] = most.or(shown.0[index]);
    }
    let map = response.headers_mut();
    headers::write(&statuses, decision, |name, value| {
        let value = match value {
            headers::HeaderValue::Number(number) => Ok(HeaderValue::from(number)),
            headers::HeaderValue::Text(text) => HeaderValue::try_from(text),
        };
        let (header, Ok(value)) = (HeaderName::from_static(name), value) else { return };
        match ONE_LIMIT.iter().position(|family| name.starts_with(family.prefix)) {
            None if name.starts_with("ratelimit") => {
                map.append(header, value);
            }
            Some(index) if !replaced[index] => {}
            _ => {
                map.insert(header, value);
            }
        }
    });
    response.extensions_mut().insert(shown);
}

/// Whether a limit is more restrictive than the one that the response shows, if any. A 429 of the service itself keeps its
/// own headers.
fn is_more_restrictive<B>(
    rank: Rank,
    shown: Option<Rank>,
    family: &HeaderFamily,
    response: &Response<B>,
) -> bool {
    match shown {
        Some(known) => rank < known,
        None => {
            response.status() != StatusCode::TOO_MANY_REQUESTS
                || !response.headers().contains_key(format!("{}limit", family.prefix))
        }
    }
}
