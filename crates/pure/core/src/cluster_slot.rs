//! Which accounts a store that is divided into slots keeps together: a Redis Cluster decides a take in one atomic step only if
//! all of its accounts are in one slot.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Charge, Name, Subject};

/// What the config writes before the separator of [`ClusterSlot::SubjectPrefix`].
const SUBJECT_PREFIX: &str = "subject-prefix";

/// What chooses the slot of an account. The config says it, never a caller: a caller's text is at most a value that the
/// config's rule looks at.
///
/// ```
/// use tollway_core::{ClusterSlot, SlotTag, Subject};
///
/// let subject = Subject::new("acme/ann")?;
/// let tag = |slot: &str| slot.parse::<ClusterSlot>().map(|slot| slot.tag(&subject).into_owned());
/// assert_eq!(tag("checkout").unwrap(), SlotTag::Named("checkout".into()));
/// assert_eq!(tag("subject-prefix:/").unwrap(), SlotTag::Subject("acme".into()));
/// assert!(tag("{acme}").is_err());
/// # Ok::<(), tollway_core::NameError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ClusterSlot {
    /// The subject: all accounts of one subject are together.
    #[default]
    Subject,
    /// The name: all accounts of the policy are together, and with those of other policies that give the same name.
    Named(Name),
    /// The part of the subject before this character, or all of it if it has none.
    SubjectPrefix(char),
}

/// What decides the slot of one account: equal tags are in one slot. Subjects and names never have equal tags.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SlotTag<'a> {
    /// The subject, or its part before a separator.
    Subject(std::borrow::Cow<'a, str>),
    /// The name that policies give.
    Named(std::borrow::Cow<'a, str>),
}

/// A text that names no slot.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterSlotError {
    /// Neither a name nor a prefix of the subject.
    #[error(
        "{0:?} is not a slot; write a name of letters, digits, `_`, `-` and `.`, or \"subject-prefix:/\" with \
         your separator in place of `/`"
    )]
    NotOne(String),
    /// A separator that is not one character.
    #[error(
        "the separator of a subject's prefix is one visible character, as in \"subject-prefix:/\", not {0:?}"
    )]
    Separator(String),
}

crate::debug_as_display!(ClusterSlotError);

impl ClusterSlot {
    /// What decides the slot of this subject's account.
    pub fn tag<'a>(&'a self, subject: &'a Subject) -> SlotTag<'a> {
        let subject = subject.as_str();
        match self {
            Self::Subject => SlotTag::Subject(subject.into()),
            Self::Named(name) => SlotTag::Named(name.as_str().into()),
            Self::SubjectPrefix(separator) => {
                let prefix = subject.split_once(*separator).map_or(subject, |(prefix, _)| prefix);
                SlotTag::Subject(prefix.into())
            }
        }
    }
}

impl SlotTag<'_> {
    /// The same, independent of what it was read from.
    pub fn into_owned(self) -> SlotTag<'static> {
        match self {
            Self::Subject(text) => SlotTag::Subject(text.into_owned().into()),
            Self::Named(text) => SlotTag::Named(text.into_owned().into()),
        }
    }
}

impl Charge {
    /// What decides the slot of its account.
    pub fn slot_tag(&self) -> SlotTag<'_> {
        self.policy.cluster_slot().tag(&self.subject)
    }
}

/// Two charges whose accounts are in different slots, so that they cannot be taken in one step. Its text says what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotConflict {
    policies: [Name; 2],
    /// The name that one of them gives its slot already.
    named: Option<Name>,
}

impl SlotConflict {
    /// The first two of the charges that are in different slots.
    pub fn among(charges: &[Charge]) -> Option<Self> {
        let first = charges.first()?;
        let other = charges.iter().find(|charge| charge.slot_tag() != first.slot_tag())?;
        let name = |charge: &Charge| match charge.policy.cluster_slot() {
            ClusterSlot::Named(name) => Some(name.clone()),
            ClusterSlot::Subject | ClusterSlot::SubjectPrefix(_) => None,
        };
        let policies = [first, other].map(|charge| charge.policy.name().clone());
        Some(Self { policies, named: name(first).or_else(|| name(other)) })
    }

    /// What the config must say.
    pub fn advice(&self) -> String {
        let [one, other] = &self.policies;
        let slot = self.named.as_ref().unwrap_or(one);
        let places = if one == other {
            format!("[policies.{one}]")
        } else {
            format!("both [policies.{one}] and [policies.{other}]")
        };
        format!("write `slot = \"{slot}\"` under {places}, or `across_slots = \"undo\"` under [store]")
    }
}

impl fmt::Display for SlotConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = &self.policies;
        let what = if one == other {
            format!("policy {one} for two subjects")
        } else {
            format!("policies {one} and {other}")
        };
        write!(f, "{what} cannot be taken together: a Redis Cluster keeps their accounts in different slots")
    }
}

impl FromStr for ClusterSlot {
    type Err = ClusterSlotError;

    fn from_str(text: &str) -> Result<Self, ClusterSlotError> {
        if let Some(separator) = text.strip_prefix(SUBJECT_PREFIX)
            && (separator.is_empty() || separator.starts_with(':'))
        {
            let separator = separator.strip_prefix(':').unwrap_or_default();
            let mut characters = separator.chars();
            return match (characters.next(), characters.next()) {
                (Some(character), None) if !character.is_control() && !character.is_whitespace() => {
                    Ok(Self::SubjectPrefix(character))
                }
                _ => Err(ClusterSlotError::Separator(separator.to_owned())),
            };
        }
        Name::new(text)
            .map(Self::Named)
            .map_err(|_| ClusterSlotError::NotOne(text.chars().take(80).collect()))
    }
}

/// As the config writes it; empty where the config leaves it out.
impl fmt::Display for ClusterSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subject => Ok(()),
            Self::Named(name) => f.write_str(name.as_str()),
            Self::SubjectPrefix(separator) => write!(f, "{SUBJECT_PREFIX}:{separator}"),
        }
    }
}

impl From<ClusterSlot> for String {
    fn from(slot: ClusterSlot) -> Self {
        slot.to_string()
    }
}

impl TryFrom<String> for ClusterSlot {
    type Error = ClusterSlotError;

    fn try_from(text: String) -> Result<Self, ClusterSlotError> {
        if text.is_empty() { Ok(Self::Subject) } else { text.parse() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(text: &str) -> Subject {
        Subject::new(text).unwrap()
    }

    #[test]
    fn slots_read_back_as_themselves() {
        for text in ["checkout", "eu-1.a_b", "subject-prefix:/", "subject-prefix::", "subject-prefix:{"] {
            let slot: ClusterSlot = text.parse().unwrap();
            assert_eq!(slot.to_string(), text);
            let json = serde_json::to_string(&slot).unwrap();
            assert_eq!(serde_json::from_str::<ClusterSlot>(&json).unwrap(), slot);
        }
        for text in ["", "{a}", "a b", "a:b", "subject-prefix", "subject-prefix:", "subject-prefix:--"] {
            assert!(text.parse::<ClusterSlot>().is_err(), "{text}");
        }
    }

    #[test]
    fn prefix_ends_at_the_first_separator() {
        let slot = ClusterSlot::SubjectPrefix('/');
        for (text, prefix) in [("acme/ann/1", "acme"), ("acme", "acme"), ("/ann", ""), ("", "")] {
            assert_eq!(slot.tag(&subject(text)), SlotTag::Subject(prefix.into()));
        }
    }

    #[test]
    fn conflict_names_both_policies_and_the_line_to_write() {
        let charge = |policy: &str, slot: &str, text: &str| {
            let policy = crate::Policy::new(policy, ["1 / day"]).unwrap();
            let slot = ClusterSlot::try_from(slot.to_owned()).unwrap();
            Charge::new(std::sync::Arc::new(policy.with_cluster_slot(slot)), subject(text))
        };
        let conflict = |one, other| SlotConflict::among(&[one, other]).unwrap();
        let found = conflict(charge("user", "", "ann"), charge("total", "", ""));
        assert_eq!(
            format!("{found}; {}", found.advice()),
            "policies user and total cannot be taken together: a Redis Cluster keeps their accounts in different slots; \
             write `slot = \"user\"` under both [policies.user] and [policies.total], or `across_slots = \"undo\"` \
             under [store]"
        );
        let found = conflict(charge("user", "", "ann"), charge("total", "checkout", ""));
        assert!(found.advice().starts_with("write `slot = \"checkout\"` under both"), "{}", found.advice());
        let found = conflict(charge("user", "", "ann"), charge("user", "", "bob"));
        assert!(found.to_string().starts_with("policy user for two subjects"), "{found}");
        for shared in ["one", "subject-prefix:/"] {
            let charges = [charge("user", shared, "acme/ann"), charge("total", shared, "acme")];
            assert_eq!(SlotConflict::among(&charges), None);
        }
    }

    /// A caller that is called like a name is not in the slot of that name.
    #[test]
    fn no_subject_has_the_tag_of_a_name() {
        let named = ClusterSlot::Named(Name::new("checkout").unwrap());
        assert_ne!(ClusterSlot::Subject.tag(&subject("checkout")), named.tag(&subject("checkout")));
        assert_eq!(named.tag(&subject("ann")), named.tag(&subject("bob")));
    }
}
