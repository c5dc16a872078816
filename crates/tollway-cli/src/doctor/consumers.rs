//! Whether consumers are limited at all, and whether requests show who calls.

use tollway_consumers::{CONSUMERS_POLICY, ConsumerId, ConsumersConfig, Who};
use tollway_server::DescriptorTarget;

use super::finding::{Finding, Findings};
use super::place::Written;
use crate::context::WholeConfig;

const WHY_OFF: &str = "no caller is limited or counted, however many records there are";

/// Looks at the master switch, and at how requests show their consumer.
pub(super) fn look_at(
    config: &WholeConfig,
    store: &Written,
    consumer: Option<&ConsumerId>,
    findings: &mut Findings,
) {
    match config.consumers() {
        None if consumer.is_some() || store.has_consumers_layout() => findings.add(Finding::problem(
            "consumers-missing",
            "the config has no section [consumers]",
            WHY_OFF,
            "add `[consumers]`, `enabled = true` and `header = \"x-consumer-id\"`; `tollway policy import obp` makes it of \
             the properties of OBP-API",
        )),
        None => {}
        Some(consumers) if !consumers.enabled => findings.add(Finding::problem(
            "consumers-off",
            "[consumers] says `enabled = false`",
            WHY_OFF,
            "set `enabled = true`; a running server follows within a second",
        )),
        Some(consumers) => look_at_callers(config, consumers, findings),
    }
}

fn look_at_callers(config: &WholeConfig, consumers: &ConsumersConfig, findings: &mut Findings) {
    if let Err(error) = Who::new(&consumers.who) {
        findings.add(Finding::problem(
            "tokens-unreadable",
            error.to_string(),
            "a server does not start with it, and one that runs keeps the tokens that it has read",
            "write a line `CONSUMER SHA-256` for each token: printf %s TOKEN | sha256sum",
        ));
    }
    let shown = consumers.who.header.is_some() || consumers.who.tokens.is_some();
    if !shown && !is_named_by_envoy(config) {
        findings.add(Finding::problem(
            "nobody-is-named",
            "[consumers] has neither `header` nor `tokens`, and no descriptor names the policy `consumers`",
            "no request can show its consumer: all are counted by address, as anonymous callers",
            "set `header = \"x-consumer-id\"` if what stands in front sets it, or `tokens = { file = \"consumer-tokens\" }`",
        ));
    }
}

fn is_named_by_envoy(config: &WholeConfig) -> bool {
    let mut rules = config.server().into_iter().flat_map(|server| &server.descriptors);
    rules.any(
        |rule| matches!(&rule.target, DescriptorTarget::Policy { policy, .. } if policy == CONSUMERS_POLICY),
    )
}
