//! `[[server.descriptors]]`: rules that map Envoy's descriptors to policies and subjects.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use tollway::core::REQUESTS;
use tollway::{Name, Policy};
use tollway_config::{Section, Spanned, suggest, type_words};
use tollway_inbound::{ANONYMOUS_POLICY, CONSUMERS_POLICY};

use super::inbound::words;
use super::subject_template::SubjectTemplate;

/// The most entries of a rule: more than any proxy's configuration nests, and few enough to try every match.
pub const ENTRIES_PER_RULE_MAX: usize = 8;

const KEYS_EXAMPLE: &str = "[\"path=/login\", \"remote_address\"]";

/// A rule for descriptors of one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorRule {
    /// Their domain.
    pub domain: String,
    /// All their entries, in order.
    pub entries: Vec<EntryPattern>,
    /// What happens to them.
    pub target: DescriptorTarget,
}

/// One entry of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryPattern {
    /// Its key.
    pub key: String,
    /// What its value may be.
    pub value: ValuePattern,
}

/// What a value may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ValuePattern {
    /// Anything.
    Any,
    /// Exactly this.
    Exact(String),
    /// Any value with this prefix.
    Prefix(String),
}

/// What happens to a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptorTarget {
    /// It is a take under this policy.
    Policy {
        /// The policy's name.
        policy: String,
        /// The subject.
        subject: SubjectTemplate,
        /// The unit of hits, if not requests.
        unit: Option<String>,
    },
    /// It is never limited.
    Unlimited,
    /// It is always denied.
    Blocked,
}

impl fmt::Display for EntryPattern {
    /// As in `keys`: `KEY`, `KEY=VALUE` or `KEY=BEGINNING*`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            ValuePattern::Any => f.write_str(&self.key),
            ValuePattern::Exact(value) => write!(f, "{}={value}", self.key),
            ValuePattern::Prefix(beginning) => write!(f, "{}={beginning}*", self.key),
        }
    }
}

impl fmt::Display for DescriptorRule {
    /// `DOMAIN: KEY, KEY=VALUE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<String> = self.entries.iter().map(ToString::to_string).collect();
        write!(f, "{}: {}", self.domain, entries.join(", "))
    }
}

/// Reads all rules and reports their mistakes. `names` includes invalid policies. Both lists are sorted.
pub(super) fn read(
    section: &mut Section<'_>,
    names: &[&str],
    policies: &[Arc<Policy>],
) -> Vec<DescriptorRule> {
    let mut rules: Vec<DescriptorRule> = Vec::new();
    let mut known: HashSet<(String, Vec<EntryPattern>)> = HashSet::new();
    for value in section.list("descriptors", "[{ domain = \"edge\", ... }]").unwrap_or_default() {
        let Some(table) = value.get_ref().as_table() else {
            let message = format!("a descriptor rule must be a table, not {}", type_words(value.get_ref()));
            section.report().problem(
                value.span(),
                message,
                "write [[server.descriptors]] and its keys below",
            );
            continue;
        };
        let path = format!("{}.descriptors", section.path());
        let one = Section::new(section.report(), path, value.span(), table);
        let Some(rule) = read_rule(one, names, policies) else { continue };
        if !known.insert((rule.domain.clone(), rule.entries.clone())) {
            let message = format!("domain {:?} has two rules for the same `keys`", rule.domain);
            section.report().problem(value.span(), message, "keep one of them");
        }
        rules.push(rule);
    }
    rules
}

fn read_rule(mut section: Section<'_>, names: &[&str], policies: &[Arc<Policy>]) -> Option<DescriptorRule> {
    section.required("domain", "\"edge\"");
    let domain = section.string("domain", "edge").map(|domain| (*domain.get_ref()).to_owned());
    let entries = read_entries(&mut section);
    let target = read_target(&mut section, entries.as_deref().unwrap_or_default(), names, policies);
    section.finish();
    Some(DescriptorRule { domain: domain?, entries: entries?, target: target? })
}

fn read_entries(section: &mut Section<'_>) -> Option<Vec<EntryPattern>> {
    section.required("keys", KEYS_EXAMPLE);
    let words = words(section, "keys", KEYS_EXAMPLE)?;
    if words.is_empty() || words.len() > ENTRIES_PER_RULE_MAX {
        section.problem("keys", format!("`keys` must name 1 to {ENTRIES_PER_RULE_MAX} entries"), "");
        return None;
    }
    let read = |word: &Spanned<&str>| {
        let entry = read_entry(word.get_ref());
        if entry.is_none() {
            let message = format!("{:?} is not a descriptor entry", word.get_ref());
            section.report().problem(word.span(), message, "write KEY, KEY=VALUE, or KEY=BEGINNING*");
        }
        entry
    };
    // Collected first, so that one run reports all mistakes.
    let entries: Vec<Option<EntryPattern>> = words.iter().map(read).collect();
    entries.into_iter().collect()
}

fn read_entry(word: &str) -> Option<EntryPattern> {
    let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
    let fits = |sign: char| !sign.is_control() && !"|{}".contains(sign);
    let value = match value {
        None | Some("*") => ValuePattern::Any,
        Some("") => return None,
        Some(value) => match value.strip_suffix('*') {
            Some(beginning) => ValuePattern::Prefix(beginning.to_owned()),
            None => ValuePattern::Exact(value.to_owned()),
        },
    };
    (!key.is_empty() && key.chars().all(fits)).then(|| EntryPattern { key: key.to_owned(), value })
}

fn read_target(
    section: &mut Section<'_>,
    entries: &[EntryPattern],
    names: &[&str],
    policies: &[Arc<Policy>],
) -> Option<DescriptorTarget> {
    let policy = section.string("policy", "per_ip");
    let unlimited = section.bool("unlimited").unwrap_or_default();
    let blocked = section.bool("blocked").unwrap_or_default();
    let consumers = names.binary_search(&CONSUMERS_POLICY).is_ok();
    let of_caller = |name: &str| name == CONSUMERS_POLICY || (name == ANONYMOUS_POLICY && consumers);
    let of_caller = policy.as_ref().is_some_and(|policy| of_caller(policy.get_ref()));
    let subject = read_subject(section, entries, of_caller);
    let unit = section.string("unit", "tokens");
    match (policy, unlimited, blocked) {
        (Some(policy), false, false) => {
            check_policy(section, &policy, unit.as_ref(), names, policies);
            let (policy, unit) = (*policy.get_ref(), unit.map(|unit| (*unit.get_ref()).to_owned()));
            Some(DescriptorTarget::Policy { policy: policy.to_owned(), subject: subject?, unit })
        }
        (None, true, false) => Some(DescriptorTarget::Unlimited),
        (None, false, true) => Some(DescriptorTarget::Blocked),
        _ => {
            let message =
                "a descriptor rule needs exactly one of `policy`, `unlimited = true` and `blocked = true`";
            section.problem("", message, "name a policy");
            None
        }
    }
}

/// The subject: `subject` if set, else all entries. For a consumer (`of_caller`) the default is the last entry, its id; next
/// to consumers also for an anonymous caller, whose last entry is its address.
fn read_subject(
    section: &mut Section<'_>,
    entries: &[EntryPattern],
    of_caller: bool,
) -> Option<SubjectTemplate> {
    let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    match section.string("subject", "{remote_address}") {
        None if section.has("subject") => None,
        None if of_caller => SubjectTemplate::read(&format!("{{{}}}", keys.last()?), &keys).ok(),
        None => Some(SubjectTemplate::of_entries(keys)),
        // The keys are reported already; the subject cannot be checked without them.
        Some(_) if keys.is_empty() => None,
        Some(text) => {
            let wrong = |(message, advice): (String, String)| section.problem("subject", message, &advice);
            SubjectTemplate::read(text.get_ref(), &keys).map_err(wrong).ok()
        }
    }
}

fn check_policy(
    section: &Section<'_>,
    policy: &Spanned<&str>,
    unit: Option<&Spanned<&str>>,
    names: &[&str],
    policies: &[Arc<Policy>],
) {
    let name = *policy.get_ref();
    if names.binary_search(&name).is_err() {
        section.problem("policy", format!("there is no policy {name:?}"), &suggest::advice(name, names));
    }
    let Ok(found) = policies.binary_search_by(|policy| policy.name().as_str().cmp(name)) else { return };
    let Some(policy) = policies.get(found) else { return };
    if policy.holds_slots() {
        let message =
            format!("policy {name:?} has a concurrency limit, and Envoy never reports the end of a call");
        return section.problem("policy", message, "name a policy without one");
    }
    let units: Vec<&str> = policy.units().iter().map(Name::as_str).collect();
    let (place, unit) = unit.map_or(("policy", REQUESTS), |unit| ("unit", *unit.get_ref()));
    if !units.contains(&unit) {
        let message = format!("policy {name:?} has no limit that counts {unit}");
        let advice = format!("set the unit of hits, as in `unit = {:?}`", units.first().unwrap_or(&unit));
        section.problem(place, message, &advice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigWithServer;

    fn rules(text: &str) -> Vec<DescriptorRule> {
        let text = format!("[policies.p]\nlimits = [\"1 / day\", \"9 tokens / day\"]\n{text}");
        let config = ConfigWithServer::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        config.server().unwrap().descriptors.clone()
    }

    #[test]
    fn descriptor_rules_are_parsed_completely() {
        let rules = rules(
            r#"
            [[server.descriptors]]
            domain = "edge"
            keys = ["path=/api/*", "user=a=b", "tenant", "region=*"]
            policy = "p"
            subject = "{tenant}"
            unit = "tokens"
            [[server.descriptors]]
            domain = "edge"
            keys = ["user"]
            unlimited = true
            [[server.descriptors]]
            domain = "other"
            keys = ["user"]
            blocked = true
            "#,
        );
        let entry = |key: &str, value| EntryPattern { key: key.to_owned(), value };
        let entries = [
            entry("path", ValuePattern::Prefix("/api/".to_owned())),
            entry("user", ValuePattern::Exact("a=b".to_owned())),
            entry("tenant", ValuePattern::Any),
            entry("region", ValuePattern::Any),
        ];
        assert_eq!(rules[0].entries, entries);
        let subject = SubjectTemplate::read("{tenant}", &["path", "user", "tenant", "region"]).unwrap();
        let (policy, unit) = ("p".to_owned(), Some("tokens".to_owned()));
        assert_eq!(rules[0].target, DescriptorTarget::Policy { policy, subject, unit });
        let targets: Vec<_> = rules[1..].iter().map(|rule| (rule.domain.as_str(), &rule.target)).collect();
        assert_eq!(targets, [("edge", &DescriptorTarget::Unlimited), ("other", &DescriptorTarget::Blocked)]);
    }
}
