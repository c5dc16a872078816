//! The summary as JSON.

use serde_json::{Value, json};
use tollway::{Span, Subject};
use tollway_forecast::simulate::{LimitCounts, Ranking, Spread, Trial};

use super::simulation::SimulationReport;
use super::text::TOP;

pub(super) fn of(report: &SimulationReport<'_>) -> Value {
    let (summary, traffic) = (report.summary, &report.summary.traffic);
    let (first, last) = traffic.range.unwrap_or_default();
    json!({
        "log": report.log,
        "format": summary.format.name(),
        "interrupted": report.interrupted,
        "calls": traffic.calls,
        "skipped_lines": summary.skipped,
        "out_of_order": traffic.out_of_order,
        "first_at": first.to_string(),
        "last_at": last.to_string(),
        "subjects": traffic.by_calls.subjects(),
        "subjects_exact": traffic.by_calls.error() == 0,
        "most_calls": ranking(&traffic.by_calls, "calls"),
        "policies": summary.trials.iter().map(policy).collect::<Vec<_>>(),
    })
}

fn policy(trial: &Trial) -> Value {
    let counts = &trial.counts;
    let calls = counts.granted + counts.denied;
    json!({
        "title": trial.title,
        "granted": counts.granted,
        "granted_share": fraction(counts.granted, calls),
        "denied": counts.denied,
        "denied_share": fraction(counts.denied, calls),
        "never_grantable": counts.never,
        "waited": counts.waits.count(),
        "wait_ms": spread(&counts.waits),
        "fits_after_ms": spread(&counts.fits_after),
        "limits": trial.limits().map(limit).collect::<Vec<_>>(),
        "most_denied": ranking(&counts.by_denials, "denied"),
        "shared_meters": trial.shared_accounts(),
    })
}

fn limit(counts: LimitCounts<'_>) -> Value {
    let LimitCounts { limit, peak, denied } = counts;
    let used = peak.used > 0;
    json!({
        "name": limit.name().as_str(),
        "limit": limit.to_string(),
        "unit": limit.unit().as_str(),
        "capacity": limit.capacity(),
        "denied": denied,
        "peak_used": peak.used,
        "peak_share": fraction(peak.used, limit.capacity()),
        "peak_at": used.then(|| peak.at.to_string()),
        "peak_subject": used.then(|| peak.subject.as_str()),
    })
}

fn ranking(ranking: &Ranking, what: &str) -> Value {
    let entry = |(subject, count): (&Subject, u64)| json!({ "subject": subject.as_str(), what: count });
    json!({
        "too_high_by_at_most": ranking.error(),
        "subjects": ranking.top(TOP).into_iter().map(entry).collect::<Vec<_>>(),
    })
}

/// `None` if nothing was measured.
fn spread(spread: &Spread) -> Option<Value> {
    let millis = |span: Span| span.as_micros().div_ceil(1_000);
    let percentile = |percent| millis(spread.percentile(percent));
    (spread.count() > 0).then(|| {
        json!({ "p50": percentile(50), "p90": percentile(90), "p99": percentile(99), "max": millis(spread.longest()) })
    })
}

/// Rounded to four decimals.
fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 10_000.0).round() / 10_000.0 }
}
