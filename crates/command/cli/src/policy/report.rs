//! The result of `policy check`: serialized as JSON, or written as text by `text`.

use serde::Serialize;
use tollway::config::Api;
use tollway::core::{Calendar, WhenStoreFails};
use tollway::{Config, Limit, Policy, Span, Timestamp};
use tollway_server::DescriptorRule;

use super::compare::Changes;
use super::explain;
use super::findings::{Finding, Level};

/// The report on a config.
#[derive(Serialize)]
pub(super) struct CheckReport {
    pub(super) file: String,
    /// The files that it includes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) includes: Vec<String>,
    valid: bool,
    store: Option<String>,
    #[serde(skip)]
    pub(super) store_explained: String,
    pub(super) policies: Vec<PolicyReport>,
    pub(super) apis: Vec<ApiReport>,
    pub(super) descriptors: Vec<DescriptorReport>,
    pub(super) warnings: Vec<Finding>,
    pub(super) notes: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against: Option<Changes>,
}

#[derive(Serialize)]
pub(super) struct PolicyReport {
    pub(super) name: String,
    pub(super) explained: String,
    max_wait_ms: u64,
    when_store_fails: &'static str,
    local_share: String,
    edge_ms: u64,
    shadow: bool,
    pub(super) limits: Vec<LimitReport>,
}

#[derive(Serialize)]
pub(super) struct LimitReport {
    /// POLICY.LIMIT, as in `tollway limit set`.
    pub(super) address: String,
    name: String,
    pub(super) limit: String,
    pub(super) explained: String,
    unit: String,
    amount: u64,
    algorithm: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    next_reset: Option<String>,
}

#[derive(Serialize)]
pub(super) struct ApiReport {
    pub(super) name: String,
    pub(super) explained: String,
    #[serde(skip)]
    pub(super) base_url: String,
    profile: Option<String>,
    /// By the keys of a config.
    #[serde(flatten)]
    fields: serde_json::Map<String, serde_json::Value>,
}

/// A rule in `[[server.descriptors]]`.
#[derive(Serialize)]
pub(super) struct DescriptorReport {
    domain: String,
    keys: Vec<String>,
    #[serde(skip)]
    pub(super) rule: String,
    pub(super) explained: String,
}

impl CheckReport {
    pub(super) fn new(
        files: Vec<String>,
        config: &Config,
        rules: &[DescriptorRule],
        findings: Vec<Finding>,
        against: Option<Changes>,
        now: Timestamp,
    ) -> Self {
        let (warnings, notes) = findings.into_iter().partition(|finding| finding.level == Level::Warning);
        let mut files = files.into_iter();
        let file = files.next().unwrap_or_default();
        Self {
            file,
            includes: files.collect(),
            valid: true,
            store: config.store().map(ToString::to_string),
            store_explained: explain::store(config.store()),
            policies: config.policies().iter().map(|policy| PolicyReport::new(policy, now)).collect(),
            apis: config.apis().iter().map(|api| ApiReport::new(api)).collect(),
            descriptors: rules.iter().map(DescriptorReport::new).collect(),
            warnings,
            notes,
            against,
        }
    }
}

impl PolicyReport {
    fn new(policy: &Policy, now: Timestamp) -> Self {
        let limit = |limit| LimitReport::new(policy, limit, now);
        Self {
            name: policy.name().to_string(),
            explained: explain::policy(policy),
            max_wait_ms: millis(policy.max_wait()),
            local_share: policy.local_share().to_string(),
            when_store_fails: match policy.when_store_fails() {
                WhenStoreFails::Local => "local",
                WhenStoreFails::Open => "open",
                WhenStoreFails::Closed => "closed",
            },
            edge_ms: millis(policy.edge()),
            shadow: policy.shadow(),
            limits: policy.limits().iter().map(limit).collect(),
        }
    }
}

impl LimitReport {
    fn new(policy: &Policy, limit: &Limit, now: Timestamp) -> Self {
        let zone = limit.calendar().and_then(Calendar::zone).map(ToString::to_string);
        Self {
            address: format!("{}.{}", policy.name(), limit.name()),
            name: limit.name().to_string(),
            limit: limit.to_string(),
            explained: explain::limit(limit, now),
            unit: limit.unit().to_string(),
            amount: limit.amount(),
            algorithm: limit.algorithm_word(),
            burst: limit.burst(),
            zone,
            next_reset: explain::next_reset(limit, now).map(|at| at.to_string()),
        }
    }
}

impl ApiReport {
    fn new(api: &Api) -> Self {
        Self {
            name: api.name().to_string(),
            explained: explain::api(api),
            base_url: api.base_url().to_owned(),
            profile: api.profile_name().map(ToString::to_string),
            fields: crate::api::json(api),
        }
    }
}

impl DescriptorReport {
    fn new(rule: &DescriptorRule) -> Self {
        Self {
            domain: rule.domain.clone(),
            keys: rule.entries.iter().map(ToString::to_string).collect(),
            rule: rule.to_string(),
            explained: explain::target(rule),
        }
    }
}

fn millis(span: Span) -> u64 {
    span.as_micros().div_ceil(1_000)
}
