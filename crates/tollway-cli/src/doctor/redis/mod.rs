//! What only Redis shows: keys that never expire, memory that runs out or evicts, persistence, policies without accounts.
//!
//! `servers` connects to the servers behind a URL and compares two URLs, `keys` looks for counters without an expiry,
//! `memory` reads what servers report of themselves.

mod keys;
mod memory;
mod servers;

use std::collections::HashSet;

use tollway_consumers::ANONYMOUS_POLICY;
use tollway_server::DescriptorTarget;

use super::finding::{Finding, Findings, NAMED_MAX};
use crate::context::WholeConfig;
use keys::{Counters, Seen};
use servers::Url;
pub(super) use servers::{is_at, same_store};

/// Looks at every server behind the URL. A command that a server refuses yields no finding.
pub(super) async fn look_at(config: &WholeConfig, url: &str, findings: &mut Findings) {
    let Some(url) = Url::read(url) else { return };
    let mut seen = Seen::new(config);
    let counters = Counters::of(&url.prefix);
    for mut server in servers::connect(&url).await {
        memory::look_at(config, &mut server, findings).await;
        for counters in &counters {
            let looked = seen.look_through(&mut server, counters).await;
            seen.whole &= looked.is_ok();
        }
    }
    findings.findings.extend(seen.endless());
    if !seen.whole {
        findings.add(cut_off(&seen));
    } else if !url.has_consumers_layout() {
        // The keys of consumers have no policy in them.
        findings.findings.extend(unused_policies(config, &seen.policies));
    }
}

fn cut_off(seen: &Seen<'_>) -> Finding {
    Finding::note(
        "keys-not-all-seen",
        format!("only {} keys of Redis could be looked at", seen.looked_at),
        "what the others are is not known",
        "let the user of the store's URL use SCAN and PTTL; of more keys than that, look at a part with `redis-cli --scan`",
    )
}

/// Policies that nothing in the config names and that have no account in the store.
fn unused_policies(config: &WholeConfig, with_meters: &HashSet<String>) -> Option<Finding> {
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
