//! Which rule a descriptor falls under: that of its domain whose entries are its own, and of several the one that says more.
//!
//! Values decide from the first entry on: a rule for just this value, else one for its longest beginning, else one for any.

use std::collections::HashMap;

use super::message::Entry;
use crate::{DescriptorRule, DescriptorTarget, EntryPattern, ValuePattern};

/// The rules of every domain.
#[derive(Default)]
pub(crate) struct Descriptors(HashMap<Box<[u8]>, Node>);

/// What can follow the entries so far.
#[derive(Default)]
pub(super) struct Node {
    /// Of descriptors that end here.
    target: Option<DescriptorTarget>,
    keys: HashMap<Box<[u8]>, Values>,
}

#[derive(Default)]
struct Values {
    exact: HashMap<Box<[u8]>, Node>,
    /// The longest first.
    beginnings: Vec<(Box<[u8]>, Node)>,
    any: Option<Box<Node>>,
}

impl Descriptors {
    pub(crate) fn new(rules: &[DescriptorRule]) -> Self {
        let mut all = Self::default();
        for rule in rules {
            all.0.entry(rule.domain.as_bytes().into()).or_default().insert(&rule.entries, &rule.target);
        }
        all
    }

    /// The rules of a domain, if it has any.
    pub(super) fn domain(&self, name: &[u8]) -> Option<&Node> {
        self.0.get(name)
    }
}

impl Node {
    fn insert(&mut self, entries: &[EntryPattern], target: &DescriptorTarget) {
        match entries.split_first() {
            None => self.target = Some(target.clone()),
            Some((first, rest)) => {
                let values = self.keys.entry(first.key.as_bytes().into()).or_default();
                values.node(&first.value).insert(rest, target);
            }
        }
    }

    /// What a descriptor stands for. For each entry it tries the rule for just its value, every one for a beginning of it,
    /// and the one for any: no more ways than the config has rules.
    pub(super) fn find(&self, entries: &[Entry]) -> Option<&DescriptorTarget> {
        let Some((first, rest)) = entries.split_first() else { return self.target.as_ref() };
        let values = self.keys.get(&*first.key)?;
        values.that_match(&first.value).find_map(|node| node.find(rest))
    }
}

impl Values {
    fn node(&mut self, pattern: &ValuePattern) -> &mut Node {
        match pattern {
            ValuePattern::Any => self.any.get_or_insert_default(),
            ValuePattern::Exact(value) => self.exact.entry(value.as_bytes().into()).or_default(),
            ValuePattern::Prefix(text) => {
                let text = text.as_bytes();
                let known = self.beginnings.iter().position(|(known, _)| **known == *text);
                let place = known.unwrap_or_else(|| {
                    let place = self.beginnings.partition_point(|(known, _)| known.len() > text.len());
                    self.beginnings.insert(place, (text.into(), Node::default()));
                    place
                });
                &mut self.beginnings[place].1
            }
        }
    }

    fn that_match(&self, value: &[u8]) -> impl Iterator<Item = &Node> {
        let beginnings = self.beginnings.iter().filter(move |(beginning, _)| value.starts_with(beginning));
        self.exact.get(value).into_iter().chain(beginnings.map(|(_, node)| node)).chain(self.any.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigWithServer;

    fn descriptors(rules: &[&str]) -> Descriptors {
        let rule = |keys: &&str| {
            let name = keys.replace(|sign: char| !sign.is_alphanumeric(), "_");
            let keys: Vec<String> = keys.split(' ').map(|key| format!("{key:?}")).collect();
            let keys = keys.join(", ");
            format!(
                "[policies.p{name}]\nlimits = [\"1 / day\"]\n[[server.descriptors]]\ndomain = \"d\"\nkeys = [{keys}]\npolicy = \"p{name}\"\n"
            )
        };
        let text: String = rules.iter().map(rule).collect();
        Descriptors::new(&ConfigWithServer::parse(&text).unwrap().server().unwrap().descriptors)
    }

    fn found(descriptors: &Descriptors, entries: &str) -> Option<String> {
        let entry = |text: &str| {
            let (key, value) = text.split_once('=').unwrap();
            Entry { key: key.to_owned().into(), value: value.to_owned().into() }
        };
        let entries: Vec<Entry> = entries.split(' ').map(entry).collect();
        match descriptors.domain(b"d")?.find(&entries)? {
            DescriptorTarget::Policy { policy, .. } => Some(policy.clone()),
            _ => None,
        }
    }

    #[test]
    fn the_rule_that_says_more_counts() {
        let rules = ["a", "a=1", "a=1*", "a=12*", "a b", "a=1 b=2", "a=1 c"];
        let descriptors = descriptors(&rules);
        for (entries, policy) in [
            ("a=0", Some("pa")),
            ("a=1", Some("pa_1")),
            ("a=13", Some("pa_1_")),
            ("a=123", Some("pa_12_")),
            ("a=1 b=2", Some("pa_1_b_2")),
            ("a=1 b=3", Some("pa_b")),
            ("a=13 b=2", Some("pa_b")),
            ("a=1 c=0", Some("pa_1_c")),
            ("a=2 c=0", None),
            ("b=2", None),
            ("a=1 b=2 c=3", None),
            ("A=1", None),
        ] {
            assert_eq!(found(&descriptors, entries).as_deref(), policy, "{entries}");
        }
        assert!(descriptors.domain(b"D").is_none());
    }
}
