//! What there is to report, in the words that programs read.

use serde_json::{Value, json};
use tollway::{Span, Subject, Timestamp};

use super::replay::{LimitTally, Ranking, Replay, Spread, Trial};

/// How many subjects are listed.
pub(super) const TOP: usize = 5;

/// A replay that is over.
pub(super) struct Summary<'r> {
    pub(super) log: &'r str,
    pub(super) format: &'static str,
    pub(super) skipped: u64,
    pub(super) interrupted: bool,
    pub(super) replay: &'r Replay,
}

impl Summary<'_> {
    /// As JSON.
    pub(super) fn to_json(&self) -> Value {
        let seen = &self.replay.seen;
        let (first, last) = seen.range.unwrap_or_default();
        json!({
            "log": self.log,
            "format": self.format,
            "interrupted": self.interrupted,
            "calls": seen.calls,
            "skipped_lines": self.skipped,
            "out_of_order": seen.out_of_order,
            "first_at": first.to_string(),
            "last_at": last.to_string(),
            "subjects": seen.by_calls.subjects(),
            "subjects_exact": seen.by_calls.error() == 0,
            "most_calls": ranking(&seen.by_calls, "calls"),
            "policies": self.replay.trials.iter().map(policy).collect::<Vec<_>>(),
        })
    }
}

fn policy(trial: &Trial) -> Value {
    let tally = &trial.tally;
    let calls = tally.granted + tally.denied;
    json!({
        "title": trial.title,
        "granted": tally.granted,
        "granted_share": fraction(tally.granted, calls),
        "denied": tally.denied,
        "denied_share": fraction(tally.denied, calls),
        "never_grantable": tally.never,
        "waited": tally.waits.count(),
        "wait_ms": spread(&tally.waits),
        "fits_after_ms": spread(&tally.fits_after),
        "limits": trial.limits().map(limit).collect::<Vec<_>>(),
        "most_denied": ranking(&tally.by_denials, "denied"),
        "shared_meters": trial.shared_meters(),
    })
}

fn limit(tally: LimitTally<'_>) -> Value {
    let LimitTally { limit, peak, denied } = tally;
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

/// Nothing where nothing was measured.
fn spread(spread: &Spread) -> Option<Value> {
    let millis = |span: Span| span.as_micros().div_ceil(1_000);
    let percentile = |percent| millis(spread.percentile(percent));
    (spread.count() > 0).then(|| {
        json!({ "p50": percentile(50), "p90": percentile(90), "p99": percentile(99), "max": millis(spread.longest()) })
    })
}

/// To four places, so that it reads well.
fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 10_000.0).round() / 10_000.0 }
}

/// A part of a whole, as people read it: `75.0 %`, and never 0 or 100 where it is not.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let tenths =
        if whole == 0 { 0 } else { (u128::from(part) * 2_000 + u128::from(whole)) / (u128::from(whole) * 2) };
    match (tenths, part) {
        (0, 1..) => "<0.1 %".to_owned(),
        (1_000, _) if part < whole => ">99.9 %".to_owned(),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// How long the log lasts.
pub(super) fn length((first, last): (Timestamp, Timestamp)) -> Span {
    last.since(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_never_claim_all_or_nothing_wrongly() {
        assert_eq!(percent(3, 4), "75.0 %");
        assert_eq!(percent(1, 10_000), "<0.1 %");
        assert_eq!(percent(9_999, 10_000), ">99.9 %");
        assert_eq!(
            (percent(0, 9), percent(9, 9), percent(0, 0)),
            ("0.0 %".into(), "100.0 %".into(), "0.0 %".into())
        );
    }
}
