//! Whatever a response contains, it is observed within the bounds.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use tollway_dialects::{
    DAILY_WAIT_MAX, Dialect, RefusalKind, TokenUsage, UsageReader, VendorResponse, WAIT_MAX,
};

/// Names that tables know, so that random values reach the parsers.
const HEADERS: [&str; 26] = [
    "date",
    "retry-after",
    "retry-after-ms",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-used",
    "x-ratelimit-reset",
    "x-ratelimit-policy",
    "x-ratelimit-bucket",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-reset-tokens",
    "x-rate-limit-remaining",
    "x-shopify-shop-api-call-limit",
    "sforce-limit-info",
    "x-app-rate-limit",
    "x-app-rate-limit-count",
    "anthropic-ratelimit-requests-reset",
    "stripe-rate-limited-reason",
    "x-amzn-errortype",
    "x-hubspot-ratelimit-remaining",
    "x-hubspot-ratelimit-interval-milliseconds",
    "twilio-concurrent-requests",
];

/// Arbitrary bytes, and text made of what values consist of.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[0-9]{1,20}",
        "[0-9]{1,3}\\.[0-9]{0,12}",
        "[hmsd]|ms|us",
        "[,;:/=\" .()?@%-]",
        "(r|t|q|w|window|pk|qu)=",
        Just("\"default\"".to_owned()),
        Just("Mon, 02 Mar 2026 10:05:00 GMT".to_owned()),
        Just("2026-03-02T10:05Z".to_owned()),
        Just("Mon Mar 02 2026 10:05:00 GMT+0000 (UTC)".to_owned()),
    ];
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat().into_bytes()),
    ]
}

/// XML of the elements that tables know, in any order, open or closed.
fn xml() -> impl Strategy<Value = Vec<u8>> {
    let name = "Error|Errors|Code|Response|ErrorResponse|Message|RestException|TwilioResponse|a:b";
    let piece = prop_oneof![
        name.prop_map(|name| format!("<{name}>")),
        name.prop_map(|name| format!("</{name}>")),
        "Throttling|SlowDown|20429|&lt;|[<>/!?&]{1,3}|<!--|-->|<!\\[CDATA\\[|\\]\\]>|<\\?xml",
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

/// JSON with the keys that tables know, whole or cut, XML, or arbitrary bytes.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        "[0-9]{1,20}(\\.[0-9]{1,12})?",
        Just("null".to_owned()),
        Just("-1".to_owned()),
        "\"([0-9]{1,12}s?|THROTTLED|RATE_LIMITED|GenerateRequestsPerDay|try again in 7m|limit: 0)\"",
    ];
    let json = leaf.prop_recursive(8, 64, 6, |inner| {
        let key = prop_oneof![
            "error|errors|extensions|cost|throttleStatus|maximumAvailable|currentlyAvailable|restoreRate",
            "requestedQueryCost|details|violations|quotaId|quotaValue|retryDelay|message|code|type|usage",
            "ok|__type|errorCode|documentation_url|global|metadata|quota_limit|reason|@type|data",
            "usageMetadata|prompt_tokens|output_tokens|response|retry_after|violated-policies|additional_data",
        ];
        let object = proptest::collection::vec((key, inner.clone()), 0..6).prop_map(|members| {
            let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
            format!("{{{}}}", members.join(", "))
        });
        prop_oneof![object, proptest::collection::vec(inner, 0..4).prop_map(|values| format!("[{}]", values.join(",")))]
    });
    let cut = (json, any::<prop::sample::Index>())
        .prop_map(|(json, cut)| json.as_bytes()[..cut.index(json.len() + 1)].to_vec());
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), xml(), cut]
}

proptest! {
    #[test]
    fn observation_stays_within_its_bounds(
        status in prop_oneof![Just(200_u16), Just(403), Just(429), Just(503), Just(529), 100..1000_u16],
        lines in proptest::collection::vec((prop::sample::select(&HEADERS[..]), value()), 0..12),
        body in body(),
    ) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(HeaderName::from_static(name), value);
            }
        }
        let status = StatusCode::from_u16(status).unwrap();
        let response = VendorResponse { status, headers: &headers, body: &body };
        for name in Dialect::names() {
            let observed = Dialect::by_name(name).unwrap().observe(&response);
            let most = observed.refusal.map_or(WAIT_MAX, RefusalKind::wait_max);
            prop_assert!(most <= DAILY_WAIT_MAX && observed.wait.is_none_or(|wait| !wait.is_zero() && wait <= most));
            prop_assert!(observed.quotas.len() <= 16);
            prop_assert!(observed.reason.is_none() || observed.refusal.is_some());
            for quota in &observed.quotas {
                prop_assert!(quota.limit.max(quota.remaining).is_none_or(|count| count < 1 << 53));
                prop_assert!(quota.limit.is_some() || quota.remaining.is_some() || quota.reset.is_some());
            }
            if status == StatusCode::TOO_MANY_REQUESTS {
                prop_assert!(observed.refusal.is_some());
            }
        }
        let _ = Dialect::detect_in(&response);
    }

    /// What is read of a body does not depend on its parts, and is bounded.
    #[test]
    fn need_of_a_body_does_not_depend_on_its_parts(
        status in prop_oneof![Just(200_u16), Just(429), Just(500)],
        body in body(),
        size in 1..20_usize,
    ) {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        let status = StatusCode::from_u16(status).unwrap();
        let need = || Dialect::detect(&headers).body_need(status, &headers, false).unwrap();
        let mut parts = need();
        let ends = (0..=body.len()).filter(|end| end % size == 0 || *end == body.len());
        let over = ends.into_iter().find(|end| !parts.wants_more(&body[..*end]));
        prop_assert_eq!(over.is_none(), need().wants_more(&body));
    }

    #[test]
    fn usage_does_not_depend_on_the_chunks(body in body(), size in 1..20_usize) {
        let mut reader = UsageReader::new();
        body.chunks(size).for_each(|chunk| reader.feed(chunk));
        prop_assert_eq!(reader.usage(), TokenUsage::in_answer(&body));
    }
}
