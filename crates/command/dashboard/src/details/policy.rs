//! One policy: its limits, what operators set and changed, and its history.

use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;
use tollway::Policy;
use tollway::core::WhenStoreFails;

use super::unknown;
use crate::answer::{Answer, Problem, json};
use crate::dashboard::Shared;
use crate::handler::Asked;
use crate::history::Span;
use crate::rows::STEP;
use crate::snapshot::Row;

#[derive(Serialize)]
struct PolicyView {
    rows: Vec<Row>,
    /// What the policy does, in words.
    text: String,
    /// The limits that operators set.
    settings: Vec<SettingView>,
    /// Takes that a shadow would have denied in five minutes.
    would_deny_5m: u64,
    /// The last changes, the newest first.
    changes: Vec<ChangeView>,
}

#[derive(Serialize)]
struct SettingView {
    limit: String,
    /// 0: stopped.
    amount: u64,
    burst: Option<u64>,
    set_at: u64,
}

#[derive(Serialize)]
pub(crate) struct ChangeView {
    at: u64,
    who: String,
    what: String,
    from: String,
    to: String,
}

pub(crate) fn changes(shared: &Shared, target: &str) -> Vec<ChangeView> {
    let view = |change: tollway_server::Change| ChangeView {
        at: change.at.as_millis(),
        who: change.who,
        what: change.what,
        from: change.from,
        to: change.to,
    };
    shared.changes.of(target).into_iter().map(view).collect()
}

pub(crate) async fn one(shared: &Arc<Shared>, asked: &Asked) -> Result<Answer, Problem> {
    let name = asked.parameter(0);
    let policy = shared.limiter.policy_in_force(name).ok_or_else(|| unknown("policy", name))?;
    let rows = super::policies::rows(shared, &[Arc::clone(&policy)]).await?;
    let settings = shared.limiter.settings().into_iter().filter(|setting| setting.policy.as_str() == name);
    let setting = |setting: tollway::Setting| SettingView {
        limit: setting.limit.to_string(),
        amount: setting.amount,
        burst: setting.burst,
        set_at: setting.set_at.as_millis(),
    };
    let would_deny_5m = shared.seen().table.policy(name).map_or(0, |policy| policy.would_deny_5m());
    Ok(json(&PolicyView {
        rows,
        text: in_words(&policy),
        settings: settings.map(setting).collect(),
        would_deny_5m,
        changes: changes(shared, name),
    }))
}

/// What the policy does; `tollway policy explain` says more.
fn in_words(policy: &Policy) -> String {
    let limits: Vec<String> = policy.limits().iter().map(ToString::to_string).collect();
    let mut text = match policy.shadow() {
        true => format!("Counts, and never denies: {}.", limits.join(", ")),
        false => format!("Grants at most {}.", limits.join(" and ")),
    };
    let wait = policy.max_wait();
    let _ = match wait.as_micros() {
        0 => write!(text, " Takes do not wait."),
        _ => write!(text, " Takes wait up to {wait}."),
    };
    let fails = match policy.when_store_fails() {
        WhenStoreFails::Local => "each process grants its share of what was left",
        WhenStoreFails::Open => "everything is granted",
        WhenStoreFails::Closed => "nothing is granted",
    };
    let _ = write!(text, " While the store does not answer, {fails}.");
    text
}

#[derive(Serialize)]
struct HistoryView {
    /// The time of the first value.
    since: u64,
    step_ms: u64,
    limits: Vec<LimitHistory>,
}

/// A value for each step; `null` where it is unknown.
#[derive(Serialize)]
struct LimitHistory {
    limit: String,
    amount: Vec<Option<u64>>,
    used: Vec<Option<u64>>,
    granted: Vec<Option<u64>>,
    denied: Vec<Option<u64>>,
}

pub(crate) fn history(shared: &Arc<Shared>, asked: &Asked) -> Result<Answer, Problem> {
    let name = asked.parameter(0);
    let span = match asked.query("span") {
        None | Some("1h") => Span::Hour,
        Some("24h") => Span::Day,
        Some(_) => return Err(Problem::bad_request("the parameter span may be 1h or 24h")),
    };
    let policy = shared.limiter.policy_in_force(name).ok_or_else(|| unknown("policy", name))?;
    let step = shared.now().as_micros() / STEP.as_micros();
    let (seen, mut limits, mut oldest) = (shared.seen(), Vec::new(), None);
    for limit in policy.limits() {
        let id = format!("{name}/{}", limit.name());
        // The step that runs is not over.
        let Some((first, known)) =
            seen.history.of(&id).map(|series| series.read(span, step.saturating_sub(1)))
        else {
            continue;
        };
        oldest = Some(first);
        limits.push(LimitHistory {
            limit: limit.name().to_string(),
            amount: known.iter().map(|known| known.amount).collect(),
            used: known.iter().map(|known| known.used).collect(),
            granted: known.iter().map(|known| known.granted).collect(),
            denied: known.iter().map(|known| known.denied).collect(),
        });
    }
    let step_ms = span.step_millis();
    let since = oldest.map_or(seen.history.since().as_millis(), |oldest| oldest * step_ms);
    Ok(json(&HistoryView { since, step_ms, limits }))
}
