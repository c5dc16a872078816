//! Whom a descriptor counts for. Whatever its values are, it has a subject: a call that fails is let through by proxies that
//! are set so, and values are often what clients have written.

use sha2::{Digest, Sha256};
use tollway::core::bounds::SUBJECT_BYTES_MAX;
use tollway_consumers::ConsumerId;

use super::message::Entry;
use crate::{SubjectPiece, SubjectTemplate};

/// Most subjects are an address or a name.
const SUBJECT_BYTES_USUAL: usize = 64;

/// The subject that a rule makes of a descriptor.
pub(super) fn of_template(template: &SubjectTemplate, entries: &[Entry]) -> String {
    subject(written(template, entries))
}

/// The consumer that a rule makes of a descriptor, or why it is none. A digest would be one, of a name that nobody has.
pub(super) fn consumer(template: &SubjectTemplate, entries: &[Entry]) -> Result<ConsumerId, String> {
    let text = String::from_utf8(written(template, entries));
    let text = text.map_err(|_| "the consumer's id is not text".to_owned())?;
    ConsumerId::new(&text).map_err(|error| error.to_string())
}

fn written(template: &SubjectTemplate, entries: &[Entry]) -> Vec<u8> {
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

/// The subject of a descriptor that no rule speaks of: all that it says.
pub(super) fn of_descriptor(domain: &[u8], entries: &[Entry]) -> String {
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

/// What ends a value is never in it. Where nothing is to be escaped, `%` means itself.
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

/// What cannot be a subject, because it is too long or not text, is known by its digest.
fn subject(text: Vec<u8>) -> String {
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
    use crate::DescriptorTarget;
    use tollway::core::Subject;

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

    /// T18: values that contain what parts them make no subject that others make.
    #[test]
    fn no_two_descriptors_make_the_same_subject() {
        let hostile: [&[u8]; 10] = [b"a", b"a@", b"@a", b"a@a", b"%40", b"a%40", b"%", b"\0", b"\xff", b""];
        let templates = [template("\"x\", \"y\"", "{x}@{y}"), SubjectTemplate::of_entries(["x", "y"])];
        for template in templates {
            let mut seen = std::collections::HashSet::new();
            for first in hostile {
                for second in hostile {
                    let subject = of_template(&template, &entries(&[first, second]));
                    assert!(seen.insert(subject.clone()), "{first:?} {second:?}: {subject}");
                }
            }
        }
    }

    #[test]
    fn plain_values_stay_as_they_are() {
        let one = template("\"x\"", "address:{x}");
        assert_eq!(of_template(&one, &entries(&[b"2001:db8::/64"])), "address:2001:db8::/64");
        assert_eq!(of_template(&one, &entries(&[b"100%"])), "address:100%");
        let all = SubjectTemplate::of_entries(["path", "user"]);
        assert_eq!(of_template(&all, &entries(&[b"/a|b", b"ann"])), "path=/a%7cb|user=ann");
        assert_eq!(of_descriptor(b"edge", &entries(&[b"v"])), "edge|k=v");
    }

    /// T19: what a client writes never makes a call fail.
    #[test]
    fn whatever_the_values_are_there_is_a_subject() {
        let long = vec![b'x'; 60_000];
        for value in [&b"\0"[..], b"\xff\xfe", &long] {
            for template in [template("\"x\"", "{x}"), SubjectTemplate::of_entries(["x"])] {
                let subject = of_template(&template, &entries(&[value]));
                assert!(Subject::new(&subject).is_ok());
                assert!(subject.starts_with("sha256:"), "{subject}");
            }
        }
    }
}
