//! Policies that nobody uses.

use std::collections::HashSet;

use tollway_consumers::ANONYMOUS_POLICY;
use tollway_server::DescriptorTarget;

use super::finding::{Finding, NAMED_MAX};
use crate::context::WholeConfig;

/// Those that nothing in the config names and that have no meter in the store.
pub(super) fn unused(config: &WholeConfig, with_meters: &HashSet<String>) -> Option<Finding> {
    let named = named(config);
    let policies = config.limits().policies().iter().map(|policy| policy.name().as_str());
    let unused: Vec<&str> =
        policies.filter(|name| !named.contains(name) && !with_meters.contains(*name)).collect();
    if unused.is_empty() {
        return None;
    }
    let listed = unused.iter().copied().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    let more = if unused.len() > NAMED_MAX { ", ..." } else { "" };
    Some(Finding::note(
        "unused-policy",
        format!("nobody uses these policies now: {listed}{more}"),
        "nothing in the config names them and the store has no meter of theirs; whoever should take under them may use \
         another name, or another store",
        "compare the names with those in the programs and commands that take, or remove the policies",
    ))
}

fn named(config: &WholeConfig) -> HashSet<&str> {
    let apis = config.limits().apis().iter().filter_map(|api| api.policy()).map(|name| name.as_str());
    let server = config.server();
    let descriptors = server.into_iter().flat_map(|server| &server.descriptors);
    let descriptors = descriptors.filter_map(|rule| match &rule.target {
        DescriptorTarget::Policy { policy, .. } => Some(policy.as_str()),
        _ => None,
    });
    let headers = server.into_iter().flat_map(|server| server.policy_headers.keys()).map(String::as_str);
    apis.chain(descriptors).chain(headers).chain([ANONYMOUS_POLICY]).collect()
}
