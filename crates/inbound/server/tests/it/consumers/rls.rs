//! Consumers and anonymous callers behind Envoy: a descriptor names one, and the response matches `/v1/authorize`.

use prost::Message;
use serde_json::{Value, json};
use tollway::core::Period;

use super::bank::{Bank, CONSUMERS, Place, only};
use crate::call::{Reply, SHOULD_RATE_LIMIT, framed};
use crate::messages::{OK, OVER_LIMIT, RateLimitResponse, descriptor, question};

/// Rules for both kinds of callers, and one for an ordinary policy.
const DESCRIPTORS: &str = r#"
    [policies.plain]
    limits = ["3 requests / day from first call"]
    [[server.descriptors]]
    domain = "edge"
    keys = ["consumer"]
    policy = "consumers"
    [[server.descriptors]]
    domain = "edge"
    keys = ["header_match=anonymous", "remote_address"]
    policy = "anonymous"
    [[server.descriptors]]
    domain = "edge"
    keys = ["user"]
    policy = "plain"
    subject = "{user}"
"#;

fn anonymous(address: &str) -> [String; 2] {
    ["header_match=anonymous".to_owned(), format!("remote_address={address}")]
}

fn ask(bank: &Bank, descriptors: &[&[&str]]) -> RateLimitResponse {
    bank.running.envoy().ask(&question(descriptors.iter().map(|entries| descriptor(entries))))
}

fn ask_of(bank: &Bank, consumer: &str) -> RateLimitResponse {
    ask(bank, &[&[&format!("consumer={consumer}")]])
}

fn body(response: &RateLimitResponse) -> Value {
    serde_json::from_slice(&response.raw_body).unwrap_or_else(|error| panic!("{error}: {response:?}"))
}

fn told(response: &RateLimitResponse) -> Option<[&str; 2]> {
    Some([response.header("x-rate-limit-limit")?, response.header("x-rate-limit-remaining")?])
}

/// C1, C3: a consumer named by a descriptor is limited by its records, and shares its counters with HTTP.
#[test]
fn consumer_descriptor_is_limited_by_its_records() {
    for place in [Place::memory(), Place::redis()] {
        let mut bank = Bank::at(place, "", DESCRIPTORS);
        bank.record("c", only(Period::Hour, 3));
        assert_eq!(bank.call("c").status, 200);
        let codes = [(); 4].map(|()| ask_of(&bank, "c").overall_code);
        assert_eq!(codes, [OK, OK, OVER_LIMIT, OVER_LIMIT]);
        assert_eq!(bank.call("c").status, 429);
        assert_eq!(ask_of(&bank, "without-a-record").overall_code, OK);
        bank.manage("PUT", &format!("{CONSUMERS}/blocked-one/blocked"), r#"{"blocked": true}"#);
        let blocked = ask_of(&bank, "blocked-one");
        assert_eq!(blocked.overall_code, OVER_LIMIT);
        assert_eq!(body(&blocked), bank.call("blocked-one").json());
        assert_eq!(blocked.header("content-type"), Some("application/problem+json"));
    }
}

/// C2, T19: an invalid consumer id is denied as over HTTP. The call succeeds, so that a proxy that fails open does not let
/// the request through.
#[test]
fn invalid_consumer_id_is_over_limit_not_an_error() {
    for place in [Place::memory(), Place::redis()] {
        let bank = Bank::at(place, "per_hour = 5", DESCRIPTORS);
        let long = [256, 1_024, 1_025, 20_000].map(|length| "x".repeat(length));
        let short = ["", " ", "a b", "_PER_", "c_PER_MINUTE", "192.0.2.7", "2001:db8::1", "a\u{200b}"];
        for id in long.iter().map(String::as_str).chain(short) {
            let response = ask(&bank, &[&[&format!("consumer={id}")], &["user=ann"]]);
            assert_eq!(
                (response.overall_code, response.codes()),
                (OVER_LIMIT, vec![OVER_LIMIT, OK]),
                "{id:?}"
            );
            assert_eq!(body(&response)["type"], "urn:tollway:unknown-consumer", "{id:?}");
        }
        let request = question([descriptor(&["consumer=@@@@"]), descriptor(&["user=ann"])]).encode_to_vec();
        let place = request.windows(4).position(|bytes| bytes == b"@@@@").unwrap();
        let not_text = [&request[..place], &[0xff; 4], &request[place + 4..]].concat();
        let reply: Reply =
            bank.running.envoy().send(SHOULD_RATE_LIMIT, "application/grpc", framed(&not_text));
        assert_eq!(reply.read::<RateLimitResponse>().overall_code, OVER_LIMIT);
        let left = ask(&bank, &[&["user=ann"]]).statuses[0].limit_remaining;
        assert_eq!(left, 2, "a denied request charges none of its other limits");
    }
}

/// T18, T19: the key layout `consumers` cannot hold every subject, and two policies can collide in one key. Such requests
/// are denied, whatever the rule.
#[test]
fn values_without_a_redis_key_are_over_limit() {
    let mut bank = Bank::at(Place::redis(), "", DESCRIPTORS);
    bank.record("c", only(Period::Day, 5));
    let [named, at] = anonymous("a_PER_b");
    for descriptors in [&[&["user=a_PER_MINUTE"][..]][..], &[&["user="]], &[&[&named, &at]]] {
        let response = ask(&bank, descriptors);
        assert_eq!((response.overall_code, response.codes()), (OVER_LIMIT, vec![OVER_LIMIT]));
        assert_eq!(body(&response)["type"], "urn:tollway:refused");
        let look = descriptors.iter().map(|entries| descriptor(entries).with_hits(0));
        assert_eq!(bank.running.envoy().ask(&question(look)).overall_code, OVER_LIMIT);
    }
    assert_eq!(
        ask(&bank, &[&["consumer=c"], &["user=c"]]).overall_code,
        OVER_LIMIT,
        "one key for two limits"
    );
    assert_eq!(ask(&bank, &[&["consumer=c"], &["user=ann"]]).overall_code, OK);
}

/// C5: headers, status and message show the shortest period on a grant, and the denying period on a denial.
#[test]
fn envoy_response_for_a_consumer_matches_http() {
    for place in [Place::memory(), Place::redis()] {
        let mut bank = Bank::at(place, "", DESCRIPTORS);
        bank.record("c", [-1, 10, 2, -1, -1, -1]);
        for remaining in ["9", "8"] {
            let granted = ask(&bank, &[&["user=ann"], &["consumer=c"]]);
            assert_eq!((told(&granted), &*granted.raw_body), (Some(["10", remaining]), &b""[..]));
            assert_eq!(granted.statuses[1].current_limit.as_ref().unwrap().name, "consumers.per_minute");
            assert_eq!(granted.header("content-type"), None);
        }
        let refused = ask_of(&bank, "c");
        assert_eq!((told(&refused), refused.overall_code), (Some(["2", "0"]), OVER_LIMIT), "the hour denies");
        assert_eq!(refused.statuses[0].current_limit.as_ref().unwrap().name, "per_hour");
        assert_eq!(refused.header("content-type"), Some("application/json"));
        let [mut envoy, mut http] = [body(&refused), bank.call("c").json()];
        for told in [&mut envoy, &mut http] {
            assert!(told["retry_after_ms"].take().as_u64().is_some_and(|wait| wait > 3_500_000));
        }
        assert_eq!(envoy, http);
        let message = "Too Many Requests. We only allow 2 requests per hour for this Consumer.";
        assert_eq!((&envoy["code"], &envoy["message"]), (&json!(429), &json!(message)));
        let looked = bank.running.envoy().ask(&question([descriptor(&["consumer=c"]).with_hits(0)]));
        assert_eq!((looked.overall_code, &body(&looked)["message"]), (OVER_LIMIT, &json!(message)));
    }
}

/// C5: the config may choose other headers for consumers, or none.
#[test]
fn the_config_chooses_the_headers_of_consumers() {
    let none = format!("{DESCRIPTORS}\n[server.policies.consumers]\nheaders = []");
    let bank = Bank::at(Place::memory(), "per_hour = 1", &none);
    assert_eq!([(); 2].map(|()| told(&ask_of(&bank, "c")).is_some()), [false, false]);
    let refused = ask_of(&bank, "c");
    assert_eq!((refused.overall_code, &body(&refused)["limit"]), (OVER_LIMIT, &json!("per_hour")));
}

/// C4, C5: anonymous callers share the counters of their address with HTTP, and get the same message.
#[test]
fn anonymous_callers_are_limited_by_address() {
    for place in [Place::memory(), Place::redis()] {
        let mut bank = Bank::at(place, "anonymous_per_hour = 2", DESCRIPTORS);
        let ask_from = |bank: &Bank, address: &str| {
            let [named, at] = anonymous(address);
            ask(bank, &[&[&named, &at]])
        };
        assert_eq!(bank.call_with("").status, 200);
        assert_eq!(told(&ask_from(&bank, "127.0.0.1")), Some(["2", "0"]));
        let refused = ask_from(&bank, "127.0.0.1");
        let message = "Too Many Requests. We only allow 2 requests per hour for anonymous access.";
        assert_eq!((refused.overall_code, &body(&refused)["message"]), (OVER_LIMIT, &json!(message)));
        assert_eq!(ask_from(&bank, "192.0.2.7").overall_code, OK);
        if let Place::Redis(redis) = &bank.place {
            assert_eq!(redis.command(&["GET", "127.0.0.1_PER_HOUR"]), "2");
        }
    }
}

/// C6: `enabled = false`, and `-1` for anonymous callers, mean the same for Envoy as over HTTP.
#[test]
fn disabled_or_unlimited_consumers_are_not_limited() {
    let [named, at] = anonymous("192.0.2.7");
    let mut off = Bank::at(Place::memory(), "enabled = false\nanonymous_per_hour = 1", DESCRIPTORS);
    off.record("c", only(Period::Hour, 1));
    for _ in 0..3 {
        let response = ask(&off, &[&["consumer=c"], &[&named, &at], &["consumer="]]);
        assert_eq!((response.overall_code, told(&response)), (OK, None));
    }
    let unlimited = Bank::at(Place::memory(), "anonymous_per_hour = -1", DESCRIPTORS);
    assert_eq!([(); 3].map(|()| ask(&unlimited, &[&[&named, &at]]).overall_code), [OK; 3]);
}
