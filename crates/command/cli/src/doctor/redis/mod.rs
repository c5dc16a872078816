//! Checks of Redis: keys without TTL or count, memory and eviction, persistence, policies without accounts.
//!
//! `servers` connects to the servers behind a URL and compares two URLs, `keys` finds counters without TTL or count, `listed`
//! reports them, `memory` reads INFO, `redis_cli` is the command in fixes.

mod keys;
mod listed;
mod memory;
mod redis_cli;
mod servers;

use std::collections::HashSet;

use tollway_consumers::ANONYMOUS_POLICY;
use tollway_server::DescriptorTarget;

use super::finding::{Finding, Findings, NAMED_MAX};
use crate::context::WholeConfig;
use keys::{Counters, Seen};
use redis_cli::RedisCli;
use servers::{Kind, Url};
pub(super) use servers::{is_at, same_store};

/// Checks every server behind the URL. A command that a server refuses yields no finding.
pub(super) async fn look_at(config: &WholeConfig, url: &str, findings: &mut Findings) {
    let Some(url) = Url::read(url) else { return };
    let mut seen = Seen::new(config, url.has_consumers_layout());
    let counters = Counters::of(&url.prefix);
    for mut server in servers::connect(&url).await {
        memory::look_at(config, &mut server, findings).await;
        for counters in &counters {
            let looked = seen.scan(&mut server, counters).await;
            seen.whole &= looked.is_ok();
        }
    }
    findings.findings.extend(seen.findings());
    if !seen.whole {
        findings.add(incomplete_scan(&seen, &first_cli(&url)));
    } else if !url.has_consumers_layout() {
        // Consumer keys do not contain a policy.
        findings.findings.extend(unused_policies(config, &seen.policies));
    }
}

/// A command that shows whether the store at a URL can be reached.
pub(super) fn ping(url: &str) -> Option<String> {
    let mut url = Url::read(url)?;
    if matches!(url.kind, Kind::Sentinel { .. }) {
        // Sentinels have one database and do not share the store's user.
        (url.database, url.user) = ("0".to_owned(), String::new());
    }
    let cli = first_cli(&url);
    Some(format!("{cli} PING{}", cli.hint()))
}

fn first_cli(url: &Url) -> RedisCli {
    RedisCli::at(url, url.hosts.first().map_or("", String::as_str))
}

fn incomplete_scan(seen: &Seen<'_>, cli: &RedisCli) -> Finding {
    Finding::note(
        "keys-not-all-seen",
        format!("only {} keys in Redis could be checked", seen.checked),
        "the others are unknown",
        format!(
            "allow the store's user SCAN, PTTL and GET; with more keys than that, check a part with `{cli} --scan`{}",
            cli.hint()
        ),
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
        format!("unused policies: {listed}{more}"),
        "the config does not refer to them and the store has no usage for them; callers may use another name or another \
         store",
        "compare the names with those that your programs use, or remove the policies",
    ))
}

fn named(config: &WholeConfig) -> HashSet<&str> {
    let apis = config.limits().apis().iter().flat_map(|api| api.policies()).map(|name| name.as_str());
    let server = config.server();
    let descriptors = server.into_iter().flat_map(|server| &server.descriptors);
    let descriptors = descriptors.filter_map(|rule| match &rule.target {
        DescriptorTarget::Policy { policy, .. } => Some(policy.as_str()),
        _ => None,
    });
    let headers = server.into_iter().flat_map(|server| server.policy_headers.keys()).map(String::as_str);
    apis.chain(descriptors).chain(headers).chain([ANONYMOUS_POLICY]).collect()
}
