//! Translates the files: a rule for every descriptor that has a limit or is exempt from one.

use std::collections::HashSet;

use tollway_core::Name;
use tollway_core::bounds::NAME_BYTES_MAX;

use super::{Descriptor, Domain, RateLimit};

/// Room for a number after a name that is already used.
const NUMBER_BYTES: usize = 8;

/// The rules of all files.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    /// What has no counterpart, and how it was translated.
    pub(super) notes: Vec<String>,
    names: PolicyNames,
}

/// A rule for descriptors of one form.
pub(super) struct Rule {
    pub(super) domain: String,
    /// As written in `keys`.
    pub(super) keys: Vec<String>,
    pub(super) target: Target,
}

pub(super) enum Target {
    Policy {
        name: String,
        limit: String,
        shadow: bool,
        /// Set if it is not the whole descriptor.
        subject: Option<String>,
    },
    Unlimited,
    Blocked,
}

impl Rules {
    /// Adds a file.
    pub(super) fn add(&mut self, file: &Domain) -> Result<(), String> {
        if file.domain.is_empty() {
            return Err("the domain is empty".to_owned());
        }
        if self.rules.iter().any(|rule| rule.domain == file.domain) {
            return Err(format!("domain {:?} is in two files; merge them", file.domain));
        }
        self.walk(&file.domain, &mut Vec::new(), &file.descriptors)
    }

    fn walk<'f>(
        &mut self,
        domain: &str,
        above: &mut Vec<&'f Descriptor>,
        descriptors: &'f [Descriptor],
    ) -> Result<(), String> {
        for descriptor in descriptors {
            above.push(descriptor);
            let place = place(domain, above);
            match keys(above) {
                Err(why) => self.notes.push(format!("{place}: skipped, with everything below it: {why}")),
                Ok(keys) => {
                    self.note_losses(&place, descriptor, descriptors);
                    if let Some(target) = self.target(&place, above, descriptors)? {
                        self.rules.push(Rule { domain: domain.to_owned(), keys, target });
                    }
                    self.walk(domain, above, &descriptor.descriptors)?;
                }
            }
            above.pop();
        }
        Ok(())
    }

    /// The target of descriptors of this form; `None` if no rule is needed, because they have no limit without one either.
    fn target(
        &mut self,
        place: &str,
        path: &[&Descriptor],
        siblings: &[Descriptor],
    ) -> Result<Option<Target>, String> {
        let Some(descriptor) = path.last() else { return Ok(None) };
        let Some(limit) = &descriptor.rate_limit else {
            // A less specific descriptor has a limit that Envoy's service does not apply to this value.
            let freed = siblings.iter().any(|other| hides(descriptor, other) && other.rate_limit.is_some());
            return Ok(freed.then_some(Target::Unlimited));
        };
        if limit.unlimited {
            return Ok(Some(Target::Unlimited));
        }
        let per = self.period(place, limit)?;
        if limit.requests_per_unit == 0 {
            if descriptor.shadow_mode {
                self.notes
                    .push(format!("{place}: skipped: a limit of 0 in shadow mode would only report denials"));
                return Ok(Some(Target::Unlimited));
            }
            return Ok(Some(Target::Blocked));
        }
        let name = if limit.name.is_empty() { place } else { &limit.name };
        Ok(Some(Target::Policy {
            name: self.names.give(name),
            limit: format!(
                "{} {} / {per}",
                limit.requests_per_unit,
                if limit.requests_per_unit == 1 { "request" } else { "requests" }
            ),
            shadow: descriptor.shadow_mode,
            subject: self.shared_subject(place, path),
        }))
    }

    /// The period with the same windows: those of Envoy's service begin at whole multiples since 1970.
    fn period(&mut self, place: &str, limit: &RateLimit) -> Result<&'static str, String> {
        let (period, calendar) = match limit.unit.to_ascii_lowercase().as_str() {
            "second" => ("second", None),
            "minute" => ("minute", None),
            "hour" => ("hour", None),
            "day" => ("day", None),
            "week" => ("168 hours", Some("a week there begins on Thursday; for Mondays write `/ week`")),
            "month" => {
                ("720 hours", Some("a month there has 30 days; for those of the calendar write `/ month`"))
            }
            "year" => ("8760 hours", None),
            unit => return Err(format!("{place}: {unit:?} is not a unit of a limit")),
        };
        self.notes.extend(calendar.map(|note| format!("{place}: {note}")));
        Ok(period)
    }

    /// With `share_threshold`, all matching values share a meter: the value is not part of the subject.
    fn shared_subject(&mut self, place: &str, path: &[&Descriptor]) -> Option<String> {
        let shares = |descriptor: &Descriptor| descriptor.share_threshold && descriptor.value.ends_with('*');
        if !path.iter().any(|descriptor| shares(descriptor)) {
            return None;
        }
        let twice = |key: &str| path.iter().filter(|other| other.key == key).count() > 1;
        let unclear = |one: &&&Descriptor| twice(&one.key) || shares(one) && one.value.contains(['{', '}']);
        if path.iter().any(|descriptor| unclear(&descriptor)) {
            self.notes.push(format!("{place}: share_threshold: each value has a meter of its own here"));
            return None;
        }
        let part = |descriptor: &&Descriptor| match shares(descriptor) {
            true => format!("{}={}", descriptor.key, descriptor.value),
            false => format!("{0}={{{0}}}", descriptor.key),
        };
        Some(path.iter().map(part).collect::<Vec<_>>().join("|"))
    }

    fn note_losses(&mut self, place: &str, descriptor: &Descriptor, siblings: &[Descriptor]) {
        let mut note = |what: &str| self.notes.push(format!("{place}: {what}"));
        if descriptor.detailed_metric || descriptor.value_to_metric {
            note("detailed_metric is left out: no value stands in a metric here");
        }
        if descriptor.quota_mode {
            note("quota_mode is left out: a limit that is over denies, whatever the others are");
        }
        if descriptor.metadata.is_some() {
            note("metadata is left out");
        }
        for replaced in descriptor.rate_limit.iter().flat_map(|limit| &limit.replaces) {
            note(&format!(
                "it does not replace {:?} here: a request that has both is counted by both",
                replaced.name
            ));
        }
        for other in siblings.iter().filter(|other| hides(descriptor, other)) {
            let has = |wanted: &Descriptor| {
                descriptor.descriptors.iter().any(|own| own.key == wanted.key && own.value == wanted.value)
            };
            if !other.descriptors.iter().all(has) {
                let other = place_of(other);
                note(&format!("it does not hide what stands below {other}: that counts for this value, too"));
            }
        }
    }
}

/// Whether Envoy's service applies this descriptor instead of a less specific one.
fn hides(descriptor: &Descriptor, other: &Descriptor) -> bool {
    let fits = match other.value.strip_suffix('*') {
        Some(beginning) => descriptor.value.starts_with(beginning),
        None => other.value.is_empty(),
    };
    descriptor.key == other.key && descriptor.value != other.value && !descriptor.value.is_empty() && fits
}

/// A descriptor's entries in Tollway's notation, or why they have none.
fn keys(path: &[&Descriptor]) -> Result<Vec<String>, String> {
    if path.len() > tollway_server::ENTRIES_PER_RULE_MAX {
        return Err(format!("more than {} entries", tollway_server::ENTRIES_PER_RULE_MAX));
    }
    path.iter().map(|descriptor| key(descriptor)).collect()
}

fn key(Descriptor { key, value, .. }: &Descriptor) -> Result<String, String> {
    if key.is_empty() {
        return Err("a key is empty".to_owned());
    }
    if key.contains(['=', '|', '{', '}'])
        || key.contains(char::is_control)
        || value.contains(char::is_control)
    {
        return Err(format!(
            "the entry {} has a character that a rule cannot contain",
            place_of_entry(key, value)
        ));
    }
    if value.strip_suffix('*').unwrap_or(value).contains('*') {
        return Err(format!("the value {value:?} has a `*` that is not at its end"));
    }
    Ok(if value.is_empty() { key.clone() } else { format!("{key}={value}") })
}

/// The path of a descriptor, used in notes and names: `domain.key_value.key`.
fn place(domain: &str, path: &[&Descriptor]) -> String {
    let parts = path.iter().map(|descriptor| place_of(descriptor));
    std::iter::once(domain.to_owned()).chain(parts).collect::<Vec<_>>().join(".")
}

fn place_of(descriptor: &Descriptor) -> String {
    place_of_entry(&descriptor.key, &descriptor.value)
}

fn place_of_entry(key: &str, value: &str) -> String {
    let text = if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") };
    text.escape_debug().to_string()
}

/// The policy names in use.
#[derive(Default)]
struct PolicyNames(HashSet<String>);

impl PolicyNames {
    /// An unused name, as close to this text as names allow.
    fn give(&mut self, text: &str) -> String {
        let allowed = |sign: char| sign.is_alphanumeric() || "_-.".contains(sign);
        let mut name: String = text.chars().map(|sign| if allowed(sign) { sign } else { '_' }).collect();
        while name.len() > NAME_BYTES_MAX - NUMBER_BYTES {
            name.pop();
        }
        if Name::new(&name).is_err() {
            "limit".clone_into(&mut name);
        }
        let numbered = (2u64..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !self.0.contains(name));
        let free = free.unwrap_or(name);
        self.0.insert(free.clone());
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_gets_a_unique_name() {
        let mut names = PolicyNames::default();
        let long = "x".repeat(500);
        let given = ["a.b_c", "a/b c", "a/b c", "", "", &long, &long].map(|text| names.give(text));
        let long = "x".repeat(120);
        assert_eq!(given[..5], ["a.b_c", "a_b_c", "a_b_c_2", "limit", "limit_2"]);
        assert_eq!(given[5..], [long.clone(), format!("{long}_2")]);
        assert!(given.iter().all(|name| Name::new(name).is_ok()));
    }
}
