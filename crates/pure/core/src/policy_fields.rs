//! A policy as it goes to another process: what a config file would say.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::{ClusterSlot, Lease, LocalShare, Name, Policy, PolicyError, Span, WhenStoreFails};

/// The fields of a policy. Its limits are texts, which read back as the same limits.
#[derive(Serialize, Deserialize)]
pub(crate) struct PolicyFields {
    name: Name,
    limits: Vec<String>,
    max_wait: Span,
    edge: Span,
    shadow: bool,
    forgets: bool,
    when_store_fails: WhenStoreFails,
    local_share: LocalShare,
    lease: Lease,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subjects_max: Option<NonZeroU64>,
    #[serde(default, skip_serializing_if = "is_default")]
    cluster_slot: ClusterSlot,
}

fn is_default(slot: &ClusterSlot) -> bool {
    *slot == ClusterSlot::default()
}

impl From<Policy> for PolicyFields {
    fn from(policy: Policy) -> Self {
        Self {
            name: policy.name().clone(),
            limits: policy.limits().iter().map(ToString::to_string).collect(),
            max_wait: policy.max_wait(),
            edge: policy.edge(),
            shadow: policy.shadow(),
            forgets: policy.forgets(),
            when_store_fails: policy.when_store_fails(),
            local_share: policy.local_share(),
            lease: policy.lease(),
            subjects_max: policy.subjects_max(),
            cluster_slot: policy.cluster_slot().clone(),
        }
    }
}

impl TryFrom<PolicyFields> for Policy {
    type Error = PolicyError;

    fn try_from(fields: PolicyFields) -> Result<Self, PolicyError> {
        let limits = fields.limits.iter().map(String::as_str);
        Ok(Self::new(fields.name.as_str(), limits)?
            .with_max_wait(fields.max_wait)?
            .with_edge(fields.edge)
            .with_shadow(fields.shadow)
            .with_forgetting(fields.forgets)
            .with_when_store_fails(fields.when_store_fails)
            .with_local_share(fields.local_share)
            .with_lease(fields.lease)
            .with_subjects_max(fields.subjects_max)
            .with_cluster_slot(fields.cluster_slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_reads_back_as_itself() {
        let limits = [
            "200 requests / minute",
            "rpd: 25 requests / day in America/Los_Angeles",
            "first: 1000 requests / hour from first call",
            "slide: 100 requests / minute sliding",
            "250k tokens / minute bucket burst 500k",
            "3 requests / second paced",
            "50 concurrent expires 5m",
        ];
        let policy = Policy::new("all", limits)
            .unwrap()
            .with_edge(Span::from_millis(250))
            .with_shadow(true)
            .with_subjects_max(NonZeroU64::new(500))
            .with_cluster_slot(ClusterSlot::SubjectPrefix('/'));
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
        assert!(serde_json::from_str::<Policy>(&text.replace("200 requests", "0 requests")).is_err());
    }
}
