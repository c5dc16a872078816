//! Finds the rule and the subject of a descriptor.
//!
//! The most specific rule wins, entry by entry: one for the exact value, else one for its longest prefix, else one for any.
//! Every descriptor has a subject, whatever its values: clients choose them, and a proxy that fails open lets a failed call
//! through.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use tollway::core::bounds::SUBJECT_BYTES_MAX;

use super::message::Entry;
use crate::{DescriptorRule, DescriptorTarget, EntryPattern, SubjectPiece, SubjectTemplate, ValuePattern};

/// The rules of every domain.
#[derive(Default)]
pub(crate) struct Descriptors(HashMap<Box<[u8]>, RuleNode>);

/// A node of the rule tree: what can follow the entries so far.
#[derive(Default)]
pub(super) struct RuleNode {
    /// The target of descriptors that end here, and the position of its rule in the config.
    target: Option<(usize, DescriptorTarget)>,
    keys: HashMap<Box<[u8]>, Values>,
}

#[derive(Default)]
struct Values {
    exact: HashMap<Box<[u8]>, RuleNode>,
    /// The longest first.
    prefixes: Vec<(Box<[u8]>, RuleNode)>,
    any: Option<Box<RuleNode>>,
}

impl Descriptors {
    pub(crate) fn new(rules: &[DescriptorRule]) -> Self {
        let mut all = Self::default();
        for (position, rule) in rules.iter().enumerate() {
            let domain = all.0.entry(rule.domain.as_bytes().into()).or_default();
            domain.insert(&rule.entries, (position, &rule.target));
        }
        all
    }

    /// The rules of a domain, if it has any.
    pub(super) fn domain(&self, name: &[u8]) -> Option<&RuleNode> {
        self.0.get(name)
    }
}

impl RuleNode {
    fn insert(&mut self, entries: &[EntryPattern], target: (usize, &DescriptorTarget)) {
        match entries.split_first() {
            None => self.target = Some((target.0, target.1.clone())),
            Some((first, rest)) => {
                let values = self.keys.entry(first.key.as_bytes().into()).or_default();
                values.node(&first.value).insert(rest, target);
            }
        }
    }

    /// The target of a descriptor. Each entry tries the exact value, every prefix of it, then any value: no more paths than
    /// the config has rules.
    pub(super) fn find(&self, entries: &[Entry]) -> Option<&DescriptorTarget> {
        self.find_rule(entries).map(|(_, target)| target)
    }

    fn find_rule(&self, entries: &[Entry]) -> Option<&(usize, DescriptorTarget)> {
        let Some((first, rest)) = entries.split_first() else { return self.target.as_ref() };
        let values = self.keys.get(&*first.key)?;
        values.matching(&first.value).find_map(|node| node.find_rule(rest))
    }
}

impl Values {
    fn node(&mut self, pattern: &ValuePattern) -> &mut RuleNode {
        match pattern {
            ValuePattern::Any => self.any.get_or_insert_default(),
            ValuePattern::Exact(value) => self.exact.entry(value.as_bytes().into()).or_default(),
            ValuePattern::Prefix(text) => {
                let text = text.as_bytes();
                let known = self.prefixes.iter().position(|(known, _)| **known == *text);
                let place = known.unwrap_or_else(|| {
                    let place = self.prefixes.partition_point(|(known, _)| known.len() > text.len());
                    self.prefixes.insert(place, (text.into(), RuleNode::default()));
                    place
                });
                &mut self.prefixes[place].1
            }
        }
    }

    fn matching(&self, value: &[u8]) -> impl Iterator<Item = &RuleNode> {
        let prefixes = self.prefixes.iter().filter(move |(prefix, _)| value.starts_with(prefix));
        self.exact.get(value).into_iter().chain(prefixes.map(|(_, node)| node)).chain(self.any.as_deref())
    }
}

/// The rule that a descriptor of these entries meets, and its subject if the rule names a policy. Both are those of a
/// request to the server; nothing is taken.
pub fn find_descriptor_rule<'r>(
    rules: &'r [DescriptorRule],
    domain: &str,
    entries: &[(String, String)],
) -> Option<(&'r DescriptorRule, Option<String>)> {
    let entry =
        |(key, value): &(String, String)| Entry { key: key.clone().into(), value: value.clone().into() };
    let entries: Vec<Entry> = entries.iter().map(entry).collect();
    let (position, target) = Descriptors::new(rules).domain(domain.as_bytes())?.find_rule(&entries)?.clone();
    let subject = match target {
        DescriptorTarget::Policy { subject, .. } => Some(subject_of_template(&subject, &entries)),
        DescriptorTarget::Unlimited | DescriptorTarget::Blocked => None,
    };
    Some((rules.get(position)?, subject))
}

/// Most subjects are an address or a name.
const SUBJECT_BYTES_USUAL: usize = 64;

/// The subject that a rule makes of a descriptor.
pub(super) fn subject_of_template(template: &SubjectTemplate, entries: &[Entry]) -> String {
    subject(written(template, entries))
}

/// The text of a rule's template, with the values of a descriptor.
pub(super) fn written(template: &SubjectTemplate, entries: &[Entry]) -> Vec<u8> {
    let mut text = Vec::with_capacity(SUBJECT_BYTES_USUAL);
    for piece in template.pieces() {
        match piece {
            SubjectPiece::Text(piece) => text.extend_from_slice(piece.as_bytes()),
            SubjectPiece::Value(place) => {
                let value = entries.get(*place).map(|entry| &*entry.value).unwrap_or_default();
                push_escaped(&mut text, value, template.escaped().as_bytes());
            }
        }
    }
    text
}

/// The subject of a descriptor without a rule: its domain and all its entries.
pub(super) fn subject_of_descriptor(domain: &[u8], entries: &[Entry]) -> String {
    let mut text = Vec::with_capacity(SUBJECT_BYTES_USUAL);
    push_escaped(&mut text, domain, b"|=");
    for entry in entries {
        text.push(b'|');
        push_escaped(&mut text, &entry.key, b"|=");
        text.push(b'=');
        push_escaped(&mut text, &entry.value, b"|=");
    }
    subject(text)
}

/// Escapes the template's separators, so that no value contains one. If there are none, `%` stays as it is.
///
/// Not `percent-encoding`: it writes `%7C` where stored subjects have `%7c`, and its sets are fixed at compile time.
fn push_escaped(text: &mut Vec<u8>, value: &[u8], escaped: &[u8]) {
    if escaped.is_empty() {
        return text.extend_from_slice(value);
    }
    for byte in value {
        if *byte == b'%' || escaped.contains(byte) {
            let digit = |part: u8| char::from_digit(part.into(), 16).map_or(b'0', |digit| digit as u8);
            text.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
        } else {
            text.push(*byte);
        }
    }
}

/// Text that is too long or not UTF-8 is replaced by its digest.
pub(crate) fn subject(text: Vec<u8>) -> String {
    let fits = text.len() <= SUBJECT_BYTES_MAX && !text.contains(&0);
    match String::from_utf8(text) {
        Ok(text) if fits => text,
        Ok(text) => digest(text.as_bytes()),
        Err(error) => digest(error.as_bytes()),
    }
}

#[cold]
fn digest(text: &[u8]) -> String {
    use std::fmt::Write;
    let mut subject = String::from("sha256:");
    for byte in Sha256::digest(text) {
        let _ = write!(subject, "{byte:02x}");
    }
    subject
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigWithServer;
    use tollway::core::Subject;

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
    fn the_most_specific_rule_wins() {
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

    fn entries(values: &[&[u8]]) -> Vec<Entry> {
        values.iter().map(|value| Entry { key: "k".into(), value: value.to_vec().into() }).collect()
    }

    fn template(keys: &str, subject: &str) -> SubjectTemplate {
        let rule = format!("domain = \"d\"\nkeys = [{keys}]\npolicy = \"p\"\nsubject = {subject:?}");
        let text = format!("[policies.p]\nlimits = [\"1 / day\"]\n[[server.descriptors]]\n{rule}");
        let rules = ConfigWithServer::parse(&text).unwrap().server().unwrap().descriptors.clone();
        match &rules[0].target {
            DescriptorTarget::Policy { subject, .. } => subject.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// T18: values that contain separators make no subject that other values make.
    #[test]
    fn different_descriptors_have_different_subjects() {
        let hostile: [&[u8]; 10] = [b"a", b"a@", b"@a", b"a@a", b"%40", b"a%40", b"%", b"\0", b"\xff", b""];
        let templates = [template("\"x\", \"y\"", "{x}@{y}"), SubjectTemplate::of_entries(["x", "y"])];
        for template in templates {
            let mut seen = std::collections::HashSet::new();
            for first in hostile {
                for second in hostile {
                    let subject = subject_of_template(&template, &entries(&[first, second]));
                    assert!(seen.insert(subject.clone()), "{first:?} {second:?}: {subject}");
                }
            }
        }
    }

    #[test]
    fn values_without_separators_are_not_escaped() {
        let one = template("\"x\"", "address:{x}");
        assert_eq!(subject_of_template(&one, &entries(&[b"2001:db8::/64"])), "address:2001:db8::/64");
        assert_eq!(subject_of_template(&one, &entries(&[b"100%"])), "address:100%");
        let all = SubjectTemplate::of_entries(["path", "user"]);
        assert_eq!(subject_of_template(&all, &entries(&[b"/a|b", b"ann"])), "path=/a%7cb|user=ann");
        assert_eq!(subject_of_descriptor(b"edge", &entries(&[b"v"])), "edge|k=v");
    }

    /// T19: a client's values never make a call fail.
    #[test]
    fn every_descriptor_has_a_valid_subject() {
        let long = vec![b'x'; 60_000];
        for value in [&b"\0"[..], b"\xff\xfe", &long] {
            for template in [template("\"x\"", "{x}"), SubjectTemplate::of_entries(["x"])] {
                let subject = subject_of_template(&template, &entries(&[value]));
                assert!(Subject::new(&subject).is_ok());
                assert!(subject.starts_with("sha256:"), "{subject}");
            }
        }
    }
}
