//! `tollway policy try`: which rule and which limits a request of Envoy would meet.

use anstyle::Style;
use serde_json::{Value, json};
use tollway::{Config, Limit};
use tollway_server::{DescriptorRule, DescriptorTarget, find_descriptor_rule};

use super::explain;
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use crate::output::{BAD, FAINT, GOOD, STRONG};

/// Show which rule and limits a request of Envoy would meet
///
/// Matches a descriptor with the rules in [[server.descriptors]] as the server does. Takes nothing and opens no store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway policy try --domain edge --descriptor remote_address=203.0.113.7
  tollway policy try --domain edge --descriptor path=/login remote_address=203.0.113.7")]
pub(crate) struct Arguments {
    /// The domain that Envoy sends
    #[arg(long)]
    domain: String,
    /// The entries of one descriptor, in order; a value may be empty
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., required = true, value_parser = read_entry)]
    descriptor: Vec<(String, String)>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let config = WholeConfig::load(context.config_path()?)?;
    let rules = config.server().map_or(&[][..], |server| &server.descriptors);
    let Arguments { domain, descriptor } = arguments;
    let found = find_descriptor_rule(rules, domain, descriptor);
    let output = context.output();
    if output.is_json() {
        output.json(&answer(found, config.limits()))?;
        return Ok(Exit::DONE);
    }
    let Some((rule, subject)) = found else {
        no_rule(rules, domain, context)?;
        return Ok(Exit::DONE);
    };
    output.sentence("rule     ", STRONG, &rule.to_string())?;
    match &rule.target {
        DescriptorTarget::Unlimited => output.line(format_args!("{GOOD}never limited{GOOD:#}"))?,
        DescriptorTarget::Blocked => output.line(format_args!("{BAD}always denied{BAD:#}"))?,
        DescriptorTarget::Policy { policy, unit, .. } => {
            output.line(format_args!("policy   {policy}"))?;
            output.line(format_args!("subject  {}", subject.unwrap_or_default()))?;
            for limit in limits(policy, unit.as_deref(), config.limits()) {
                output.line(format_args!(
                    "limit    {STRONG}{limit}{STRONG:#}  {FAINT}{policy}.{}{FAINT:#}",
                    limit.name()
                ))?;
            }
            if config.limits().policy(policy).is_none() {
                output.line("limits   those of the consumer's record")?;
            }
        }
    }
    Ok(Exit::DONE)
}

/// The limits that count the rule's hits.
fn limits<'c>(policy: &str, unit: Option<&str>, config: &'c Config) -> Vec<&'c Limit> {
    let unit = unit.unwrap_or(tollway::core::REQUESTS);
    let limits = config.policy(policy).into_iter().flat_map(|policy| policy.limits());
    limits.filter(|limit| limit.unit().as_str() == unit).collect()
}

fn no_rule(rules: &[DescriptorRule], domain: &str, context: &Context) -> Result<(), Failure> {
    let output = context.output();
    let of_domain: Vec<&DescriptorRule> = rules.iter().filter(|rule| rule.domain == domain).collect();
    if of_domain.is_empty() {
        output.line(format_args!("{GOOD}not limited{GOOD:#}: no rule has the domain {domain:?}"))?;
    } else {
        output.line(format_args!(
            "{GOOD}not limited{GOOD:#}: no rule has these keys and values in this order"
        ))?;
    }
    let others = if of_domain.is_empty() { rules.iter().collect() } else { of_domain };
    for rule in others {
        output.sentence("  ", Style::new(), &rule.to_string())?;
        output.sentence("    ", FAINT, &explain::target(rule))?;
    }
    Ok(())
}

fn answer(found: Option<(&DescriptorRule, Option<String>)>, config: &Config) -> Value {
    let Some((rule, subject)) = found else { return json!({ "rule": null, "outcome": "unlimited" }) };
    let keys: Vec<String> = rule.entries.iter().map(ToString::to_string).collect();
    let rule_json = json!({ "domain": rule.domain, "keys": keys });
    match &rule.target {
        DescriptorTarget::Unlimited => json!({ "rule": rule_json, "outcome": "unlimited" }),
        DescriptorTarget::Blocked => json!({ "rule": rule_json, "outcome": "blocked" }),
        DescriptorTarget::Policy { policy, unit, .. } => {
            let limits = limits(policy, unit.as_deref(), config).into_iter();
            let limits: Vec<Value> = limits
                .map(|limit| json!({ "name": limit.name().as_str(), "limit": limit.to_string() }))
                .collect();
            json!({
                "rule": rule_json, "outcome": "counted", "policy": policy, "subject": subject,
                "unit": unit.as_deref().unwrap_or(tollway::core::REQUESTS), "limits": limits,
            })
        }
    }
}

fn read_entry(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not an entry; write it like remote_address=203.0.113.7")),
    }
}
