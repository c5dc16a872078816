//! Apis: their rates and holds, and whose the last refusals were.

use std::sync::Arc;

use serde::Serialize;
use tollway::config::Api;
use tollway::metrics::{ApiRefusal, RefusedBy};
use tollway::{Limiter, Span, Timestamp};

use super::unknown;
use crate::answer::{Answer, Problem, json};
use crate::dashboard::Shared;
use crate::handler::Asked;
use crate::rows::Table;
use crate::snapshot::ApiRow;

/// What rows count over.
const RECENT: Span = Span::from_mins(5);

/// The apis of the config, each with what this process knows.
pub(crate) fn rows(limiter: &Limiter, table: &Table, now: Timestamp) -> Vec<ApiRow> {
    limiter.apis().iter().map(|api| row(limiter, table, api, now)).collect()
}

fn row(limiter: &Limiter, table: &Table, api: &Api, now: Timestamp) -> ApiRow {
    let figures = limiter.api_figures(api.name());
    let per_second = |millionths: u64| millionths as f64 / 1e6;
    let is_recent = |refusal: &&ApiRefusal| now.since(refusal.at) <= RECENT;
    let by_vendor = |refusal: &&ApiRefusal| matches!(refusal.by, RefusedBy::Vendor { .. });
    let refused = figures.refusals().filter(|(_, count)| *count > 0);
    let tracked = api.policy().and_then(|policy| table.policy(policy.as_str()));
    ApiRow {
        api: api.name().to_string(),
        policy: api.policy().map(ToString::to_string),
        rate_per_second: figures.rate().map(per_second),
        ceiling_per_second: figures.ceiling().map(per_second),
        held_until: figures.held_until(now).map(|until| until.as_millis()),
        refused: refused.map(|(kind, count)| (kind.to_owned(), count)).collect(),
        refused_5m: figures.last_refusals().iter().filter(is_recent).filter(by_vendor).count() as u64,
        denied_5m: tracked.map_or(0, |policy| policy.limits.iter().map(|limit| limit.denied_5m()).sum()),
    }
}

#[derive(Serialize)]
struct ApiView {
    #[serde(flatten)]
    row: ApiRow,
    /// Where it is called.
    base_url: String,
    /// The dialect in which its answers are read, if the config names one.
    dialect: Option<&'static str>,
    /// The last ones, the newest first.
    refusals: Vec<RefusalView>,
}

#[derive(Serialize)]
struct RefusalView {
    at: u64,
    /// `ours` or `vendor`.
    whose: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
}

impl RefusalView {
    /// What a vendor said may hold what a caller sent: only clients with a token see it.
    fn new(refusal: ApiRefusal, with_words: bool) -> Self {
        let base = Self {
            at: refusal.at.as_millis(),
            whose: "ours",
            policy: None,
            limit: None,
            dialect: None,
            kind: None,
            words: None,
            wait_ms: refusal.wait.map(|wait| wait.as_micros().div_ceil(1_000)),
        };
        match refusal.by {
            RefusedBy::OurLimit { policy, limit } => Self { policy: Some(policy), limit, ..base },
            RefusedBy::Vendor { dialect, kind, words } => Self {
                whose: "vendor",
                dialect: Some(dialect),
                kind: Some(kind),
                words: words.filter(|_| with_words),
                ..base
            },
        }
    }
}

pub(crate) fn one(shared: &Arc<Shared>, asked: &Asked) -> Result<Answer, Problem> {
    let name = asked.parameter(0);
    let api = shared.limiter.api(name).ok_or_else(|| unknown("api", name))?;
    let row = row(&shared.limiter, &shared.seen().table, &api, shared.now());
    let refusals = shared.limiter.api_figures(api.name()).last_refusals();
    let with_words = asked.may_read();
    Ok(json(&ApiView {
        row,
        base_url: api.base_url().to_owned(),
        dialect: api.dialect_name(),
        refusals: refusals.into_iter().map(|refusal| RefusalView::new(refusal, with_words)).collect(),
    }))
}
