//! Headers of decisions, byte for byte.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use tollway_core::{Decision, Denial, Limit, Name, PermitId, Reading, Span, TakeOutcome, Timestamp};
use tollway_inbound::headers::{HeaderChoice, LimitStatus, write};

const NOW: Timestamp = Timestamp::from_secs(1_000_000);
const ONLY_X: HeaderChoice = HeaderChoice { x_rate_limit: true, ..HeaderChoice::NONE };
const ONLY_GITHUB: HeaderChoice = HeaderChoice { x_ratelimit: true, ..HeaderChoice::NONE };
const ONLY_RATELIMIT: HeaderChoice = HeaderChoice { ratelimit: true, ..HeaderChoice::NONE };

struct Case {
    limit: Limit,
    remaining: u64,
    resets_in: Span,
    refuses: bool,
}

fn case(limit: &str, remaining: u64, resets_in_ms: u64, refuses: bool) -> Case {
    Case { limit: limit.parse().unwrap(), remaining, resets_in: Span::from_millis(resets_in_ms), refuses }
}

fn lines(
    cases: &[Case],
    choice: HeaderChoice,
    policy: Option<&Name>,
    retry_after_ms: Option<u64>,
) -> Vec<String> {
    let shown: Vec<LimitStatus<'_>> = cases
        .iter()
        .map(|case| {
            let capacity = case.limit.capacity();
            let used = capacity.saturating_sub(case.remaining);
            let resets_at = NOW.plus(case.resets_in);
            let reading =
                Reading { capacity, used, remaining: case.remaining, resets_at, as_of: NOW, grants: 0 };
            LimitStatus { policy, limit: &case.limit, reading, refuses: case.refuses, choice }
        })
        .collect();
    let mut lines = Vec::new();
    let put =
        |name: &str, value: tollway_inbound::headers::HeaderValue| lines.push(format!("{name}: {value}"));
    let decision = match retry_after_ms {
        None => Decision::granted_now(PermitId(1), NOW),
        Some(ms) => {
            let denial =
                Denial { retry_at: NOW.plus(Span::from_millis(ms)), charge: 0, limit: 0, held: false };
            Decision::new(NOW, TakeOutcome::Denied(denial))
        }
    };
    write(&shown, &decision, put);
    lines
}

/// C5: the limit with the shortest period is shown, whatever the order.
#[test]
fn a_grant_shows_the_shortest_period() {
    let cases = [
        case("1000 / hour", 500, 1_800_000, false),
        case("10 / second", 9, 500, false),
        case("100 / minute", 42, 30_000, false),
    ];
    let expected = ["x-rate-limit-limit: 10", "x-rate-limit-remaining: 9", "x-rate-limit-reset: 1"];
    assert_eq!(lines(&cases, ONLY_X, None, None), expected);
}

/// C5: a 429 shows the refusing limit; of several, the one with the shortest period.
#[test]
fn a_denial_shows_the_refusing_limit_shortest_first() {
    let cases = [
        case("10 / second", 9, 500, false),
        case("1000 / hour", 0, 1_800_000, true),
        case("100 / minute", 0, 30_000, true),
    ];
    assert_eq!(
        lines(&cases, ONLY_X, None, Some(1_800_000)),
        [
            "x-rate-limit-limit: 100",
            "x-rate-limit-remaining: 0",
            "x-rate-limit-reset: 30",
            "retry-after: 1800"
        ]
    );
}

/// C5: the same limit in the spelling of GitHub and others, whose `-Reset` is a Unix time, rounded up to a second.
#[test]
fn reset_of_x_ratelimit_is_a_unix_time() {
    let cases = [case("1000 / hour", 0, 1_800_001, true), case("10 / second", 9, 500, false)];
    assert_eq!(
        lines(&cases, ONLY_GITHUB, None, Some(1_800_001)),
        [
            "x-ratelimit-limit: 1000",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 1001801",
            "retry-after: 1801"
        ]
    );
}

/// The fields of draft-ietf-httpapi-ratelimit-headers-11: every limit, with its unit and window.
#[test]
fn structured_fields_name_every_limit() {
    let cases = [
        case("5 / minute bucket", 4, 12_000, false),
        case("250k tokens / minute bucket burst 500k", 496_250, 900, false),
        case("rpd: 25 requests / day in America/Los_Angeles", 3, 86_399_001, false),
        case("50 concurrent", 49, 60_000, false),
        case("3 / 100ms", 2, 50, false),
    ];
    assert_eq!(
        lines(&cases, ONLY_RATELIMIT, None, None),
        [
            "ratelimit-policy: \"requests_per_minute\";q=5;w=60, \"tokens_per_minute\";q=250000;qu=\"tokens\";w=60, \
             \"rpd\";q=25;w=86400, \"concurrent\";q=50;qu=\"concurrent-requests\", \"requests_per_100_ms\";q=3",
            "ratelimit: \"requests_per_minute\";r=4;t=12, \"tokens_per_minute\";r=496250;t=1, \"rpd\";r=3;t=86400, \
             \"concurrent\";r=49;t=60, \"requests_per_100_ms\";r=2;t=1",
        ]
    );
}

/// The draft forbids a `Retry-After` before the end of the effective window.
#[test]
fn a_refusing_limit_shows_the_retry_delay() {
    let cases = [case("60 / minute bucket", 0, 60_000, true), case("1000 / hour", 900, 3_600_000, false)];
    assert_eq!(
        lines(&cases, ONLY_RATELIMIT, None, Some(1_000))[1..],
        ["ratelimit: \"requests_per_minute\";r=0;t=1, \"requests_per_hour\";r=900;t=3600", "retry-after: 1"]
    );
}

#[test]
fn limits_of_several_policies_carry_the_policy_name() {
    let name = Name::new("tenant").unwrap();
    let shown = lines(&[case("5 / minute", 4, 60_000, false)], ONLY_RATELIMIT, Some(&name), None);
    assert_eq!(shown[1], "ratelimit: \"tenant.requests_per_minute\";r=4;t=60");
}

#[test]
fn retry_after_is_the_only_header_that_is_always_present() {
    let cases = [case("5 / minute", 0, 60_000, true)];
    assert!(lines(&cases, HeaderChoice::NONE, None, None).is_empty());
    assert_eq!(lines(&cases, HeaderChoice::NONE, None, Some(59_001)), ["retry-after: 60"]);
    assert_eq!(lines(&cases, HeaderChoice::NONE, None, Some(0)), ["retry-after: 1"]);
    assert_eq!(lines(&[], HeaderChoice::ALL, None, Some(1)), ["retry-after: 1"]);
}

/// T23: a field stays one line of ASCII for any limit name, and names stay distinct.
#[test]
fn names_beyond_ascii_are_escaped() {
    let cases = [case("größe: 5 / minute", 4, 60_000, false)];
    let shown = lines(&cases, ONLY_RATELIMIT, None, None);
    assert_eq!(shown[1], "ratelimit: \"gr%C3%B6%C3%9Fe\";r=4;t=60");
    assert!(shown.iter().all(|line| line.bytes().all(|byte| (0x20..0x7f).contains(&byte))));
}

/// Structured fields have integers of at most fifteen digits.
#[test]
fn amounts_are_capped_at_the_largest_structured_integer() {
    let cases = [case("1000000000000000 bytes / day", 1_000_000_000_000_000, 1, false)];
    assert_eq!(
        lines(&cases, ONLY_RATELIMIT, None, None),
        [
            "ratelimit-policy: \"bytes_per_day\";q=999999999999999;qu=\"bytes\";w=86400",
            "ratelimit: \"bytes_per_day\";r=999999999999999;t=1"
        ]
    );
}
