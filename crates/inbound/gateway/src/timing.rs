//! Where the time of a call went, as `Server-Timing`: browsers and HAR viewers show it.

use std::fmt;

use http::header::HeaderMap;
use http::{HeaderName, HeaderValue};
use tollway::{Span, Timestamp};
use tollway_client::Attempt;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Adds the timing of an answer that is ready at `now`. Refused attempts count as waiting.
pub(crate) fn add(headers: &mut HeaderMap, began: Timestamp, now: Timestamp, attempts: &[Attempt]) {
    let total = now.since(began);
    let (wait, vendor) = match attempts.last() {
        Some(last) => (waited(attempts), now.since(last.at)),
        None => (total, Span::ZERO),
    };
    let own = total.as_micros().saturating_sub(wait.as_micros()).saturating_sub(vendor.as_micros());
    let (wait, own, vendor) = (Millis(wait.as_micros()), Millis(own), Millis(vendor.as_micros()));
    let text = match attempts {
        [] => format!("wait;dur={wait}, tollway;dur={own}"),
        _ => format!("wait;dur={wait}, tollway;dur={own}, vendor;dur={vendor}"),
    };
    // A vendor may have one, too: both count.
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.append(SERVER_TIMING, value);
    }
}

/// How long a call waited until its last attempt was sent.
pub(crate) fn waited(attempts: &[Attempt]) -> Span {
    match (attempts.first(), attempts.last()) {
        (Some(first), Some(last)) => last.at.since(first.at).plus(Span::from(first.waited)),
        _ => Span::ZERO,
    }
}

/// Microseconds, shown in milliseconds.
struct Millis(u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_is_divided_between_waiting_the_gateway_and_the_vendor() {
        let at = Timestamp::from_micros;
        let attempt = |sent, waited| Attempt {
            at: at(sent),
            waited: Duration::from_micros(waited),
            status: None,
            refusal: None,
            wait: None,
            said: None,
        };
        let timing = |attempts: &[Attempt]| {
            let mut headers = HeaderMap::new();
            add(&mut headers, at(1_000), at(1_002_000), attempts);
            headers[SERVER_TIMING].to_str().unwrap().to_owned()
        };
        assert_eq!(
            timing(&[attempt(311_200, 310_000)]),
            "wait;dur=310.000, tollway;dur=0.200, vendor;dur=690.800"
        );
        let twice = [attempt(11_100, 10_000), attempt(911_100, 700_000)];
        assert_eq!(timing(&twice), "wait;dur=910.000, tollway;dur=0.100, vendor;dur=90.900");
        assert_eq!(timing(&[]), "wait;dur=1001.000, tollway;dur=0.000");
    }
}
