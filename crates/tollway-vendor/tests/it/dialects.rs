//! `tollway-dialects` reads back what the vendor meant, for every dialect: kind, wait, quotas, remaining, resets.

use std::time::Duration;

use http::Method;
use tollway_core::{Span, Timestamp};
use tollway_dialects::{
    DAILY_WAIT_MAX, Dialect, Observation, QuotaReset, QuotaUnit, RefusalKind, VendorQuota, VendorResponse,
    WAIT_MAX,
};
use tollway_vendor::server::{VendorDialect, VendorServer};
use tollway_vendor::{
    Call, Outcome, Quota, QuotaState, Random, Ruling, Shape, Terms, Unit, Vendor, WindowStart,
};

use crate::client::{hour, send, settings};

/// Monday, 2 March 2026, 10:00:00 UTC: 02:00 in California.
const START: Timestamp = Timestamp::from_secs(1_772_445_600);

const DAY: Span = Span::from_days(1);

/// What a dialect can say of a decision, and so what its reader must find.
fn meant(dialect: &VendorDialect, ruling: &Ruling) -> Observation {
    let (refusal, quotas) = (kind(dialect.name(), ruling), quotas(dialect.name(), ruling));
    let wait = ruling.wait().and_then(|wait| meant_wait(dialect.name(), ruling, wait, refusal));
    let cap = if refusal == Some(RefusalKind::DailyQuota) { DAILY_WAIT_MAX } else { WAIT_MAX };
    Observation { refusal, wait: wait.map(|wait| wait.min(cap)), reason: None, quotas }
}

fn kind(name: &str, ruling: &Ruling) -> Option<RefusalKind> {
    let refused_by = ruling.refused_by();
    let is_daily = |quota: &QuotaState| quota.wait.is_some() && quota.shape.period() >= DAY;
    let tells_daily = match name {
        "ietf" => ruling.quotas.iter().any(|quota| is_daily(quota) && quota.unit == Unit::Calls),
        "openai" => refused_by.is_some_and(is_daily),
        "gemini" => ruling.quotas.iter().any(is_daily),
        _ => false,
    };
    (ruling.outcome == Outcome::Refused).then(|| match name {
        "ietf" | "stripe" | "anthropic" if ruling.is_concurrency() => RefusalKind::Concurrency,
        _ if tells_daily => RefusalKind::DailyQuota,
        _ => RefusalKind::Rate,
    })
}

fn meant_wait(name: &str, ruling: &Ruling, wait: Span, kind: Option<RefusalKind>) -> Option<Duration> {
    let by_calls = ruling.refused_by().filter(|quota| quota.unit == Unit::Calls);
    match (name, by_calls) {
        ("bare" | "stripe", _) => None,
        ("github", Some(quota)) => Some(dated(ruling.at, quota.full_in)),
        ("openai", _) => Some(rounded_up(wait, 1_000)),
        ("shopify", _) => Some(rounded_up(wait, 100_000)),
        // Whatever its delay says, a day ends at midnight in California.
        ("gemini", _) if kind == Some(RefusalKind::DailyQuota) => {
            Some(dated(ruling.at, until_midnight(ruling.at)))
        }
        _ => Some(rounded_up(wait, 1_000_000)),
    }
}

fn quotas(name: &str, ruling: &Ruling) -> Vec<VendorQuota> {
    let shown = |unit| shown(ruling, unit);
    let counts = |quota: &QuotaState| VendorQuota {
        unit: if quota.unit == Unit::Tokens { QuotaUnit::Tokens } else { QuotaUnit::Requests },
        limit: Some(quota.shape.limit()),
        remaining: Some(quota.left),
        ..VendorQuota::default()
    };
    let both = [shown(Unit::Calls), shown(Unit::Tokens)].into_iter().flatten();
    match name {
        "x-ratelimit" => shown(Unit::Calls)
            .into_iter()
            .map(|quota| {
                let reset = Some(QuotaReset::WindowEnds(rounded_up(quota.full_in, 1_000_000)));
                VendorQuota { reset, ..counts(quota) }
            })
            .collect(),
        "github" => shown(Unit::Calls)
            .into_iter()
            .map(|quota| {
                let reset = Some(QuotaReset::WindowEnds(dated(ruling.at, quota.full_in)));
                VendorQuota { name: Some("core".to_owned()), reset, ..counts(quota) }
            })
            .collect(),
        "openai" => both
            .map(|quota| {
                let reset = Some(QuotaReset::BucketFull(rounded_up(quota.full_in, 1_000)));
                VendorQuota { reset, ..counts(quota) }
            })
            .collect(),
        "anthropic" => both
            .map(|quota| {
                let reset = Some(QuotaReset::BucketFull(dated(ruling.at, quota.full_in)));
                VendorQuota { window: Some(Duration::from_secs(60)), reset, ..counts(quota) }
            })
            .collect(),
        "shopify" => shown(Unit::Calls).into_iter().map(counts).collect(),
        "ietf" => ietf(ruling),
        "gemini" => gemini(ruling),
        _ => Vec::new(),
    }
}

/// The draft has room for all quotas, but no unit for tokens.
fn ietf(ruling: &Ruling) -> Vec<VendorQuota> {
    let places = ruling.quotas.iter().enumerate().filter(|(_, quota)| quota.unit == Unit::Calls);
    let mut quotas: Vec<VendorQuota> = places
        .map(|(place, quota)| VendorQuota {
            name: Some(format!("requests-{}", place + 1)),
            unit: QuotaUnit::Requests,
            limit: Some(quota.shape.limit()),
            window: Some(rounded_up(quota.shape.period(), 1_000_000)),
            remaining: Some(quota.left),
            reset: Some(QuotaReset::WindowEnds(rounded_up(quota.full_in, 1_000_000))),
        })
        .collect();
    quotas.extend(ruling.concurrent.map(|(limit, left)| VendorQuota {
        name: Some("concurrent".to_owned()),
        unit: QuotaUnit::ConcurrentRequests,
        limit: Some(limit),
        remaining: ruling.refused_by().is_none().then_some(left),
        ..VendorQuota::default()
    }));
    quotas
}

/// A body names the quotas that refused, and nothing else.
fn gemini(ruling: &Ruling) -> Vec<VendorQuota> {
    let refused = ruling.quotas.iter().filter(|quota| quota.wait.is_some());
    refused
        .map(|quota| {
            let period = quota.shape.period();
            let window =
                if period >= DAY { Some(DAY) } else { Some(period).filter(|p| *p == Span::from_mins(1)) };
            let midnight = || QuotaReset::WindowEnds(dated(ruling.at, until_midnight(ruling.at)));
            VendorQuota {
                name: None,
                unit: if quota.unit == Unit::Tokens { QuotaUnit::InputTokens } else { QuotaUnit::Requests },
                limit: Some(quota.shape.limit()),
                window: window.map(Duration::from),
                remaining: Some(0),
                reset: (window == Some(DAY)).then(midnight),
            }
        })
        .collect()
}

/// The quota that a header with room for one shows: the one that refused, else the one with the least left.
fn shown(ruling: &Ruling, unit: Unit) -> Option<&QuotaState> {
    let refused = ruling.refused_by().filter(|quota| quota.unit == unit);
    let of_unit = ruling.quotas.iter().filter(|quota| quota.unit == unit);
    refused.or_else(|| of_unit.min_by_key(|quota| quota.left * 1_000_000 / quota.shape.limit()))
}

fn rounded_up(span: Span, micros: u64) -> Duration {
    Duration::from_micros(span.as_micros().div_ceil(micros) * micros)
}

/// A date has whole seconds, and so has the `Date` with which it is compared.
fn dated(at: Timestamp, span: Span) -> Duration {
    let end = at.plus(span).as_micros().div_ceil(1_000_000);
    Duration::from_secs(end - at.as_micros() / 1_000_000)
}

/// In the first week of March 2026.
fn until_midnight(at: Timestamp) -> Span {
    let day = DAY.as_micros();
    Span::from_micros(day - (at.as_micros() - Span::from_hours(8).as_micros()) % day)
}

fn random_quota(random: &mut Random, unit: Unit) -> Quota {
    let amount = random.between(1, 40) * if unit == Unit::Tokens { 500 } else { 1 };
    let lengths = [Span::from_millis(700), Span::from_secs(10), Span::from_mins(1), hour()];
    let length = lengths[random.between(0, 3) as usize];
    let phase = Span::from_micros(random.between(0, 10_000_000));
    let shape = match random.between(0, 3) {
        0 => Shape::Window { amount, length, phase },
        1 => Shape::Bucket { rate: random.between(300_000, 90_000_000), burst: amount },
        2 => Shape::Sliding { amount, length },
        // The calendar day of California.
        _ => Shape::Window { amount, length: DAY, phase: Span::from_hours(8) },
    };
    match unit {
        Unit::Calls => Quota::calls(shape),
        Unit::Tokens => Quota::tokens(shape),
    }
}

fn random_terms(random: &mut Random) -> Terms {
    let mut quotas: Vec<Quota> =
        (0..random.between(0, 2)).map(|_| random_quota(random, Unit::Calls)).collect();
    quotas.extend((0..random.between(0, 1)).map(|_| random_quota(random, Unit::Tokens)));
    let mut terms = Terms::new(quotas);
    terms.concurrent = random.per_thousand(400).then(|| random.between(1, 5));
    terms.refusals_count = random.per_thousand(200);
    terms.errors = if random.per_thousand(200) { 100 } else { 0 };
    terms
}

/// Random vendors decide random calls for two days; every answer is read back.
#[test]
fn every_dialect_is_read_back_exactly() {
    for dialect in VendorDialect::all() {
        let reader = Dialect::by_name(dialect.read_by()).unwrap();
        let (mut refused, mut accepted) = (0, 0);
        for seed in 0..60 {
            let random = &mut Random::new(seed);
            let mut vendor = Vendor::starting_at(START, random_terms(random), seed);
            let (mut now, end) = (START, START.plus(Span::from_days(2)));
            for _ in 0..200 {
                now = now.plus(Span::from_micros(random.log_between(1.0, 3e9) as u64)).min(end);
                let ruling = vendor.rule(now, Call { tokens: random.between(0, 3_000) });
                if random.per_thousand(500) {
                    vendor.finish_call();
                }
                let said = dialect.answer(&ruling);
                let body = said.body.map(|body| body.to_string()).unwrap_or_default();
                let response =
                    VendorResponse { status: said.status, headers: &said.headers, body: body.as_bytes() };
                let mut observed = reader.observe(&response);
                observed.reason = None;
                if dialect.name() == "gemini" {
                    observed.quotas.iter_mut().for_each(|quota| quota.name = None);
                }
                assert_eq!(
                    observed,
                    meant(dialect, &ruling),
                    "{dialect:?}\n{ruling:?}\n{:?}\n{body}",
                    said.headers
                );
                accepted += u64::from(ruling.outcome == Outcome::Accepted);
                refused += u64::from(ruling.outcome == Outcome::Refused);
            }
        }
        assert!(accepted > 1_000 && refused > 1_000, "{dialect:?}: {accepted} accepted, {refused} refused");
    }
}

/// A reader that does not know the vendor finds its dialect by the headers, if it has any of its own.
#[test]
fn headers_give_the_dialect_away() {
    let mut terms = Terms::new(Vec::new());
    terms.add_limit("5 / minute", WindowStart::default()).unwrap();
    for dialect in VendorDialect::all() {
        let ruling = Vendor::new(terms.clone(), 1).rule(START, Call::default());
        let detected = Dialect::detect(&dialect.answer(&ruling).headers);
        let silent = ["http", "bare", "slack", "gemini"].contains(&dialect.name());
        let expected = if silent { "http" } else { dialect.name() };
        assert_eq!(detected.name(), expected, "{dialect:?}");
    }
}

/// Over HTTP: the second call in ten minutes with one is refused, and the reader finds the wait that the log implies.
#[tokio::test]
async fn refusals_are_read_back_from_the_wire() {
    for dialect in VendorDialect::all() {
        let (settings, now) = settings(&["1 / 10 minutes"]);
        let vendor = VendorServer::start(settings.dialect(dialect.name()).unwrap()).await.unwrap();
        let accepted = send(&vendor, Method::GET, "/v1/users", "").await;
        assert!(accepted.status.is_success());
        let refused = send(&vendor, Method::GET, "/v1/users", "").await;
        let response =
            VendorResponse { status: refused.status, headers: &refused.headers, body: &refused.body };
        let observed = Dialect::by_name(dialect.read_by()).unwrap().observe(&response);
        assert_eq!(observed.refusal, Some(RefusalKind::Rate), "{dialect:?}");
        let at = vendor.calls()[1].at;
        let left = now.plus(Span::from_mins(10)).since(at);
        let wait = match dialect.name() {
            "bare" | "stripe" => None,
            "github" => Some(dated(at, left)),
            "openai" => Some(rounded_up(left, 1_000)),
            "shopify" => Some(rounded_up(left, 100_000)),
            _ => Some(rounded_up(left, 1_000_000)),
        };
        assert_eq!(observed.wait, wait, "{dialect:?}");
    }
}
