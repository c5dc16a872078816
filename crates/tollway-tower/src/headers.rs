//! Headers that tell what is left, beside those that a service or a layer further in has put there.

use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tollway_inbound::headers::{self, Rank, Shown, most_telling};

use crate::decide::Decided;

/// Goes with an answer: how much the limit tells whose figures stand in `X-Rate-Limit-*`.
#[derive(Clone, Copy)]
struct Told(Rank);

/// Puts the headers of a decision on an answer. Lists are added to; what can be told of one limit only is left alone where
/// the one that it is told of tells more.
pub(crate) fn put<B>(decided: &Decided, response: &mut Response<B>) {
    let among_others = response.headers().contains_key("ratelimit-policy");
    let shown = decided.shown(among_others);
    let most = most_telling(shown.iter().filter(|one| one.choice.x_rate_limit)).map(Shown::rank);
    let most = most.filter(|most| tells_more(*most, response));
    let map = response.headers_mut();
    headers::write(&shown, decided.now(), decided.retry_after(), |name, value| {
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
        response.extensions_mut().insert(Told(most));
    }
}

/// Whether a limit tells more than the one that an answer tells of already, if any. A service that says no by itself knows
/// better than we do which limit that was.
fn tells_more<B>(rank: Rank, response: &Response<B>) -> bool {
    match response.extensions().get() {
        Some(Told(known)) => rank < *known,
        None => {
            response.status() != StatusCode::TOO_MANY_REQUESTS
                || !response.headers().contains_key("x-rate-limit-limit")
        }
    }
}
