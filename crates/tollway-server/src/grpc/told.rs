//! What a proxy is told: a status for every descriptor, headers for both sides, and what shadows would have done.

use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};
use tollway::core::{Algorithm, Calendar};
use tollway::{Limit, Span, Timestamp};
use tollway_inbound::escapes::escaped;
use tollway_inbound::headers::{self, Shown, WOULD_DENY};

use super::asked::{Asked, Place};
use super::message::{
    Code, DescriptorStatus, Duration, HeaderValue, RateLimit, RateLimitResponse, Struct, Unit, Value,
};
use super::refusal::Refusal;
use crate::decide::Verdict;

/// What shadows would have done, for the proxy's log; the service behind it has the same in a header: `%DYNAMIC_METADATA(envoy.filters.http.ratelimit:would_deny)%`.
const WOULD_DENY_METADATA: &str = "would_deny";

/// What is known of an answer so far.
pub(super) struct Told {
    /// Whether the request is not let through.
    pub(super) over: bool,
    /// Counts of shadow policies that would not have let it through.
    pub(super) would_deny: SmallVec<[usize; 2]>,
    /// One for each count.
    statuses: SmallVec<[DescriptorStatus; 4]>,
    headers: Vec<HeaderValue>,
    /// What is said to whoever is not let through, if there are words for it. Those of the first count that says no.
    pub(super) refusal: Option<Refusal>,
}

impl Told {
    pub(super) fn new(counts: usize) -> Self {
        let statuses = smallvec![status(Code::Ok); counts];
        Self { over: false, would_deny: SmallVec::new(), statuses, headers: Vec::new(), refusal: None }
    }

    /// What became of one count, and what the one of its limits shows that matters most.
    pub(super) fn tell(&mut self, count: usize, most: Option<&Shown<'_>>, now: Timestamp, over: bool) {
        let Some(told) = self.statuses.get_mut(count) else { return };
        *told = status(if over { Code::OverLimit } else { Code::Ok });
        let Some(most) = most else { return };
        told.current_limit = Some(RateLimit {
            requests_per_unit: u32::try_from(most.limit.amount()).unwrap_or(u32::MAX),
            unit: unit(most.limit).into(),
            name: most.limit.name().as_str().to_owned(),
        });
        told.limit_remaining = u32::try_from(most.reading.remaining).unwrap_or(u32::MAX);
        // Rounded up: whoever waits that long has waited enough.
        let seconds = most.reading.resets_at.since(now).as_micros().div_ceil(1_000_000);
        told.duration_until_reset = Some(Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX) });
    }

    /// The headers that the config chooses, for whoever sent the request.
    pub(super) fn tell_headers(&mut self, shown: &[Shown<'_>], verdict: &Verdict) {
        headers::write(shown, verdict.now(), verdict.retry_after(), |name, value| {
            self.headers.push(HeaderValue { key: name.to_owned(), value: value.to_string() });
        });
    }

    /// Nobody is let through, because of what the values of the descriptors are.
    pub(super) fn refuse_all(&mut self, refusal: Refusal) {
        self.over = true;
        self.statuses.fill(status(Code::OverLimit));
        self.refusal = Some(refusal);
    }

    pub(super) fn into_response(self, asked: Asked) -> RateLimitResponse {
        let of_place = |place: &Place| match place {
            Place::Unlimited => status(Code::Ok),
            Place::Blocked => status(Code::OverLimit),
            Place::Counted(index) => self.statuses.get(*index).cloned().unwrap_or_default(),
        };
        let over = self.over || asked.is_blocked();
        let mut response = RateLimitResponse {
            overall_code: (if over { Code::OverLimit } else { Code::Ok }).into(),
            statuses: asked.places.iter().map(of_place).collect(),
            response_headers_to_add: self.headers,
            ..RateLimitResponse::default()
        };
        if !self.would_deny.is_empty() {
            let policies = self.would_deny.iter().filter_map(|index| asked.counts.get(*index));
            let names: Vec<&str> = policies.map(|count| count.known.policy.name().as_str()).collect();
            let names = names.join(", ");
            let text = Value { text: Some(names.clone()) };
            let fields = HashMap::from([(WOULD_DENY_METADATA.to_owned(), text)]);
            response.request_headers_to_add =
                vec![HeaderValue { key: WOULD_DENY.to_owned(), value: escaped(&names) }];
            response.dynamic_metadata = Some(Struct { fields });
        }
        if let Some(refusal) = asked.refusal.or(self.refusal).filter(|_| over) {
            refusal.put_into(&mut response);
        }
        response
    }
}

fn status(code: Code) -> DescriptorStatus {
    DescriptorStatus { code: code.into(), ..DescriptorStatus::default() }
}

/// The period of a limit, if Envoy has a word for it.
fn unit(limit: &Limit) -> Unit {
    const NAMED: [(Span, Unit); 7] = [
        (Span::from_secs(1), Unit::Second),
        (Span::from_mins(1), Unit::Minute),
        (Span::from_hours(1), Unit::Hour),
        (Span::from_days(1), Unit::Day),
        (Span::from_days(7), Unit::Week),
        (Span::from_days(30), Unit::Month),
        (Span::from_days(365), Unit::Year),
    ];
    match limit.algorithm() {
        Algorithm::Window(Calendar::Day(_)) => Unit::Day,
        Algorithm::Window(Calendar::Week(_)) => Unit::Week,
        Algorithm::Window(Calendar::Month(_)) => Unit::Month,
        Algorithm::Window(Calendar::Every(period))
        | Algorithm::FromFirstCall(period)
        | Algorithm::Sliding(period)
        | Algorithm::Bucket { period, .. }
        | Algorithm::Paced(period) => {
            NAMED.iter().find(|(length, _)| length == period).map_or(Unit::Unknown, |(_, unit)| *unit)
        }
        Algorithm::Concurrency { .. } => Unit::Unknown,
    }
}
