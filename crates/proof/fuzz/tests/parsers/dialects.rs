//! Responses of vendors, and the tokens that answers of language models say they used.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tollway_dialects::{
    Dialect, Observation, RefusalKind, TokenUsage, UsageReader, VendorResponse, WAIT_MAX,
};

use crate::{fuzz, is_harmless, text};

/// T19: the wait, the names and the counts of an observation are bounded; a 429 is always a refusal; a body takes no quota
/// of the headers away.
#[test]
fn vendor_responses() {
    fuzz("vendor_responses", |input| {
        let (dialect, status, headers, body) = parts(input);
        let response = VendorResponse { status, headers: &headers, body };
        let observed = dialect.observe(&response);
        is_bounded(&observed);
        if status == StatusCode::TOO_MANY_REQUESTS {
            assert!(observed.refusal.is_some());
        }
        is_bounded(&Dialect::detect(&headers).observe(&response));
        let without_body = dialect.observe(&VendorResponse { body: b"", ..response });
        assert!(without_body.quotas.len() <= observed.quotas.len(), "a body takes no quota away");
        kind_of(dialect, &observed)
    });
}

/// `NAME STATUS`, lines of headers, an empty line, a body. An unknown name is detected.
fn parts(input: &[u8]) -> (&'static Dialect, StatusCode, HeaderMap, &[u8]) {
    let end = input.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((input, &b""[..]), |end| (&input[..end], &input[end + 2..]));
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = text(lines.next().unwrap_or_default()).into_owned();
    let (name, status) = first.split_once(' ').unwrap_or((&first, "429"));
    let mut headers = HeaderMap::new();
    for line in lines.take(64) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let dialect = Dialect::by_name(name).unwrap_or_else(|| Dialect::detect(&headers));
    (dialect, status.parse().unwrap_or(StatusCode::TOO_MANY_REQUESTS), headers, body)
}

fn is_bounded(observed: &Observation) {
    let most = observed.refusal.map_or(WAIT_MAX, RefusalKind::wait_max);
    assert!(observed.wait.is_none_or(|wait| !wait.is_zero() && wait <= most), "{observed:?}");
    assert!(observed.quotas.len() <= 16);
    let names = observed.quotas.iter().filter_map(|quota| quota.name.as_deref());
    for name in names.chain(observed.reason.as_deref()) {
        assert!(name.chars().count() <= 128);
        is_harmless(name);
    }
    for quota in &observed.quotas {
        assert!(quota.limit.max(quota.remaining).is_none_or(|count| count < 1 << 53), "{quota:?}");
        assert!(quota.reset.is_none_or(|reset| reset.after().as_secs() <= 400 * 86_400), "{quota:?}");
    }
}

fn kind_of(dialect: &Dialect, observed: &Observation) -> String {
    let quotas = observed.quotas.iter().take(4).map(|quota| {
        let said = [quota.limit.is_some(), quota.window.is_some(), quota.remaining.is_some()];
        format!("{} {said:?} {}", quota.unit, quota.reset.is_some())
    });
    let quotas = quotas.collect::<Vec<_>>().join(", ");
    format!("{} {:?} {} {quotas}", dialect.name(), observed.refusal, observed.wait.is_some())
}

/// T19: the usage does not depend on where a stream is cut, and bytes that follow an answer do not panic.
#[test]
fn token_usage() {
    fuzz("token_usage", |input| {
        let whole = TokenUsage::in_answer(input);
        for size in [1, 3, 1_000] {
            let mut reader = UsageReader::new();
            input.chunks(size).for_each(|chunk| reader.feed(chunk));
            assert_eq!(reader.usage(), whole);
        }
        match whole {
            None => "none".to_owned(),
            Some(TokenUsage { input, cached_input, output }) => {
                assert!(input.max(cached_input).max(output) < 1 << 53);
                format!("{} {} {}", input > 0, cached_input > 0, output > 0)
            }
        }
    });
}
