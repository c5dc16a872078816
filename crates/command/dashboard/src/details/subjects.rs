//! Who uses a policy most, as far as this process saw it. Needs a token: subjects may be names of persons.

use std::sync::Arc;

use serde::Serialize;
use tollway::{Name, Span, Subject};

use super::unknown;
use crate::answer::{Answer, Problem, json};
use crate::dashboard::Shared;
use crate::handler::Asked;
use crate::snapshot::SeenBy;

/// The subjects of one answer: their accounts are read in one batch.
const SUBJECTS_MAX: usize = 50;

#[derive(Serialize)]
struct SubjectsView {
    subjects: Vec<SubjectView>,
    /// Since when takes are noted: since a page is open, at most five minutes.
    since: u64,
    seen_by: SeenBy,
}

#[derive(Serialize)]
struct SubjectView {
    subject: String,
    /// Of its fullest limit.
    limit: Option<String>,
    used: Option<u64>,
    amount: Option<u64>,
    granted_5m: u64,
    denied_5m: u64,
}

pub(crate) async fn of_policy(shared: &Arc<Shared>, asked: &Asked) -> Result<Answer, Problem> {
    let name = asked.parameter(0);
    shared.limiter.policy_in_force(name).ok_or_else(|| unknown("policy", name))?;
    let policy = Name::new(name).map_err(|_| unknown("policy", name))?;
    let seen = shared.seen().table.policy(name).and_then(|policy| policy.subjects());
    let mut busiest = seen.unwrap_or_default().busiest;
    busiest.truncate(SUBJECTS_MAX);
    let accounts: Vec<(Name, Subject)> =
        busiest.iter().map(|one| (policy.clone(), one.subject.clone())).collect();
    let usages = shared.limiter.usage_of_accounts(&accounts).await.unwrap_or_default();
    let subjects = busiest.into_iter().enumerate().map(|(index, one)| {
        let usage = usages.get(index).and_then(Option::as_ref);
        let fullest = usage.and_then(|usage| usage.limits.iter().min_by_key(|limit| left(limit)));
        SubjectView {
            subject: one.subject.as_str().to_owned(),
            limit: fullest.map(|limit| limit.name.to_string()),
            used: fullest.map(|limit| limit.used),
            amount: fullest.map(|limit| limit.capacity),
            granted_5m: one.granted,
            denied_5m: one.denied,
        }
    });
    let (now, noted_since) = (shared.now(), shared.seen().subjects_since);
    let since = noted_since.unwrap_or(now).max(now.minus(Span::from_mins(5))).as_millis();
    Ok(json(&SubjectsView { subjects: subjects.collect(), since, seen_by: SeenBy::Process }))
}

/// What is left of a limit, in 1,000ths.
fn left(limit: &tollway::LimitUsage) -> u128 {
    u128::from(limit.remaining) * 1_000 / u128::from(limit.capacity.max(1))
}
