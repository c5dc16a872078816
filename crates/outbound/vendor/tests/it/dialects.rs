//! `tollway-dialects` reads back what the vendor meant, for every dialect: kind, wait, quotas, remaining, resets.

use std::collections::HashSet;
use std::time::Duration;

use http::Method;
use tollway_core::{Span, Timestamp};
use tollway_dialects::{
    DAILY_WAIT_MAX, Dialect, Observation, QuotaReset, QuotaUnit, RefusalKind, VendorQuota, VendorResponse,
    WAIT_MAX,
};
use tollway_vendor::server::{VendorDialect, VendorServer};
use tollway_vendor::{
    CallCost, Outcome, Quota, QuotaState, Random, Ruling, Shape, Terms, Unit, Vendor, WindowStart,
};

use crate::client::{hour, send, settings};

/// Monday, 2 March 2026, 10:00:00 UTC: 02:00 in California.
const START: Timestamp = Timestamp::from_secs(1_772_445_600);

const DAY: Span = Span::from_days(1);

/// Dialects that tell no wait.
const WITHOUT_WAIT: [&str; 12] = [
    "bare",
    "stripe",
    "hubspot",
    "salesforce",
    "twilio",
    "google",
    "aws-json",
    "dynamodb",
    "lambda",
    "aws-query",
    "ec2",
    "s3",
];

/// What a query costs at the simulated Shopify, in points.
const QUERY_COST: u64 = 100;

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
        "google" => refused_by.is_some_and(is_daily),
        // The header shows the day, also if another quota refused.
        "hubspot" => {
            refused_by.is_some_and(is_daily)
                || header_quota(ruling, daily_calls).is_some_and(|quota| quota.left == 0)
        }
        "salesforce" => !ruling.is_concurrency(),
        _ => false,
    };
    if name == "anthropic" && ruling.outcome == Outcome::Failed {
        return Some(RefusalKind::Overload);
    }
    (ruling.outcome == Outcome::Refused).then(|| match name {
        "twilio" => RefusalKind::Concurrency,
        "ietf" | "stripe" | "anthropic" | "salesforce" | "lambda" if ruling.is_concurrency() => {
            RefusalKind::Concurrency
        }
        _ if tells_daily => RefusalKind::DailyQuota,
        _ => RefusalKind::Rate,
    })
}

fn meant_wait(name: &str, ruling: &Ruling, wait: Span, kind: Option<RefusalKind>) -> Option<Duration> {
    let by_calls = ruling.refused_by().filter(|quota| quota.unit == Unit::Calls);
    match (name, by_calls) {
        (silent, _) if WITHOUT_WAIT.contains(&silent) => None,
        ("shopify-graphql", _) => shopify_wait(ruling),
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
    let shown_by = |is_meant: fn(&QuotaState) -> bool| header_quota(ruling, is_meant);
    let shown = |unit| header_quota(ruling, |quota| quota.unit == unit);
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
        "shopify-graphql" if ruling.outcome == Outcome::Failed => Vec::new(),
        "shopify-graphql" => shown(Unit::Calls).into_iter().map(shopify_points).collect(),
        "hubspot" => {
            let daily = shown_by(daily_calls).map(|quota| (quota, "daily", Duration::from(DAY)));
            let shorter = shown_by(shorter_calls).map(|quota| {
                let period = Duration::from_millis(quota.shape.period().as_micros() / 1_000);
                let name = if quota.shape.period() == Span::from_secs(1) { "secondly" } else { "interval" };
                (quota, name, period)
            });
            let named = |(quota, name, window): (&QuotaState, &str, Duration)| VendorQuota {
                name: Some(name.to_owned()),
                window: Some(window).filter(|window| !window.is_zero()),
                ..counts(quota)
            };
            daily.into_iter().chain(shorter).map(named).collect()
        }
        "salesforce" => {
            let named = |quota| VendorQuota {
                name: Some("api-usage".to_owned()),
                window: Some(DAY.into()),
                ..counts(quota)
            };
            shown_by(daily_calls).into_iter().map(named).collect()
        }
        "ietf" => ietf(ruling),
        "gemini" => gemini(ruling),
        _ => Vec::new(),
    }
}

fn daily_calls(quota: &QuotaState) -> bool {
    quota.unit == Unit::Calls && quota.shape.period() >= DAY
}

fn shorter_calls(quota: &QuotaState) -> bool {
    quota.unit == Unit::Calls && quota.shape.period() < DAY
}

/// Points a second, whole.
fn restore_rate(quota: &QuotaState) -> u64 {
    quota.shape.rate() * QUERY_COST / 1_000_000
}

/// The time in which so many points come back.
fn restored(quota: &QuotaState, points: u64) -> Option<Duration> {
    let rate = restore_rate(quota);
    (rate > 0).then(|| Duration::from_millis((points * 1_000).div_ceil(rate)))
}

fn shopify_points(quota: &QuotaState) -> VendorQuota {
    let (limit, remaining) = (quota.shape.limit() * QUERY_COST, quota.left * QUERY_COST);
    VendorQuota {
        name: None,
        unit: QuotaUnit::Points,
        limit: Some(limit),
        window: restored(quota, limit),
        remaining: Some(remaining),
        reset: restored(quota, limit - remaining).map(QuotaReset::BucketFull),
    }
}

/// Until the points of a query are there. If they are, another quota refused, which has no words.
fn shopify_wait(ruling: &Ruling) -> Option<Duration> {
    let quota = header_quota(ruling, |quota| quota.unit == Unit::Calls)?;
    let missing = QUERY_COST.saturating_sub(quota.left * QUERY_COST);
    restored(quota, missing).filter(|wait| !wait.is_zero())
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
fn header_quota(ruling: &Ruling, is_meant: impl Fn(&QuotaState) -> bool) -> Option<&QuotaState> {
    let refused = ruling.refused_by().filter(|quota| is_meant(quota));
    let meant = ruling.quotas.iter().filter(|quota| is_meant(quota));
    refused.or_else(|| meant.min_by_key(|quota| quota.left * 1_000_000 / quota.shape.limit()))
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

/// Random vendors decide random calls for two days; every answer is read back, also by a reader that is not told the vendor.
#[test]
fn every_dialect_is_read_back_exactly() {
    for dialect in VendorDialect::all() {
        let reader = Dialect::by_name(dialect.read_by()).unwrap();
        let (mut refused, mut accepted) = (0, 0);
        let mut seen = HashSet::new();
        for seed in 0..30 {
            let random = &mut Random::new(seed);
            let mut vendor = Vendor::starting_at(START, random_terms(random), seed);
            let (mut now, end) = (START, START.plus(Span::from_days(2)));
            for _ in 0..200 {
                now = now.plus(Span::from_micros(random.log_between(1.0, 3e9) as u64)).min(end);
                let ruling = vendor.rule(now, CallCost { tokens: random.between(0, 3_000) });
                if random.per_thousand(500) {
                    vendor.finish_call();
                }
                let said = dialect.answer(&ruling);
                let body = match ruling.outcome {
                    Outcome::Accepted => dialect.success(&ruling, serde_json::json!({})).to_string(),
                    Outcome::Refused | Outcome::Failed => said.body.unwrap_or_default(),
                };
                let response =
                    VendorResponse { status: said.status, headers: &said.headers, body: body.as_bytes() };
                let mut observed = reader.observe(&response);
                seen.extend(observed.refusal.map(|kind| (kind, observed.wait.is_some())));
                let unnamed = Dialect::detect(&said.headers).observe(&response);
                assert_eq!(
                    (unnamed.refusal, unnamed.wait),
                    (observed.refusal, observed.wait),
                    "without its name: {dialect:?}\n{ruling:?}\n{:?}\n{body}",
                    said.headers
                );
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
        for listed in dialect.refusals() {
            assert!(seen.contains(&(listed.kind, listed.tells_wait)), "{dialect:?} never: {listed:?}");
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
        let ruling = Vendor::new(terms.clone(), 1).rule(START, CallCost::default());
        let detected = Dialect::detect(&dialect.answer(&ruling).headers);
        // Salesforce tells the quota of a day, and there is none here.
        let silent = ["http", "aws", "gemini", "google", "salesforce"].contains(&dialect.read_by());
        let expected = if silent { "http" } else { dialect.read_by() };
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
        assert!(accepted.json().is_object());
        let refused = send(&vendor, Method::GET, "/v1/users", "").await;
        let response =
            VendorResponse { status: refused.status, headers: &refused.headers, body: &refused.body };
        let observed = Dialect::by_name(dialect.read_by()).unwrap().observe(&response);
        let kind = match dialect.name() {
            "twilio" => RefusalKind::Concurrency,
            "salesforce" => RefusalKind::DailyQuota,
            _ => RefusalKind::Rate,
        };
        assert_eq!(observed.refusal, Some(kind), "{dialect:?}");
        let at = vendor.calls()[1].at;
        let left = now.plus(Span::from_mins(10)).since(at);
        let wait = match dialect.name() {
            silent if WITHOUT_WAIT.contains(&silent) => None,
            // A hundred points in ten minutes are none a second.
            "shopify-graphql" => None,
            "github" => Some(dated(at, left)),
            "openai" => Some(rounded_up(left, 1_000)),
            "shopify" => Some(rounded_up(left, 100_000)),
            _ => Some(rounded_up(left, 1_000_000)),
        };
        assert_eq!(observed.wait, wait, "{dialect:?}");
    }
}
