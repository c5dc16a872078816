//! The limits of all policies in force, also of those that were not used, a page at a time.

use std::sync::Arc;

use serde::Serialize;
use tollway::{Name, Policy, Subject};

use crate::answer::{Answer, Problem, json};
use crate::dashboard::Shared;
use crate::handler::Asked;
use crate::rows::{Moment, ShownLimit, readings};
use crate::snapshot::Row;

/// Policies on a page: its accounts are read in one batch.
const PAGE: usize = 50;

#[derive(Serialize)]
struct PoliciesView {
    rows: Vec<Row>,
    /// How many policies there are, or match the search.
    total: usize,
}

pub(crate) async fn list(shared: &Arc<Shared>, asked: &Asked) -> Result<Answer, Problem> {
    let search = asked.query("search").unwrap_or_default().to_lowercase();
    let from = asked.number("from")?;
    let mut policies = shared.limiter.policies();
    policies.retain(|policy| search.is_empty() || policy.name().as_str().to_lowercase().contains(&search));
    let total = policies.len();
    let page: Vec<_> = policies.into_iter().skip(from).take(PAGE).collect();
    let rows = rows(shared, &page).await?;
    Ok(json(&PoliciesView { rows, total }))
}

/// The rows of these policies. What this process does not know of a shared account is read.
pub(crate) async fn rows(shared: &Arc<Shared>, policies: &[Arc<Policy>]) -> Result<Vec<Row>, Problem> {
    let accounts: Vec<(Name, Subject)> =
        policies.iter().map(|policy| (policy.name().clone(), Subject::SHARED)).collect();
    // Without the store, the figures are missing, and the rest is not.
    let usages = shared.limiter.usage_of_accounts(&accounts).await.unwrap_or_default();
    let (now, waiting) = (shared.now(), shared.limiter.all_waiting());
    let degraded = shared.limiter.store_status().degraded_since.is_some();
    let moment = Moment { now, degraded, waiting: &waiting };
    let seen = shared.seen();
    let mut rows = Vec::new();
    for (index, policy) in policies.iter().enumerate() {
        let read = usages.get(index).and_then(Option::as_ref).map(|usage| readings(usage, Some(policy), now));
        let tracked = seen.table.policy(policy.name().as_str());
        let tracked = tracked.filter(|tracked| tracked.limits.len() == policy.limits().len());
        let has_subjects = tracked.is_some_and(|tracked| tracked.has_subjects());
        for (place, limit) in policy.limits().iter().enumerate() {
            let tracked = tracked.and_then(|policy| Some((policy, policy.limits.get(place)?)));
            let known = tracked.and_then(|(_, limit)| limit.reading);
            let read = read.as_ref().and_then(|read| read.get(place).copied());
            let is_stopped = shared.limiter.is_stopped(policy.name().as_str(), limit.name().as_str());
            let reading = if has_subjects { known } else { read.or(known) };
            rows.push(ShownLimit { policy, limit, is_stopped, reading, tracked }.row(&moment));
        }
    }
    Ok(rows)
}
