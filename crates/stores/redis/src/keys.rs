//! Keys in Redis: different for every (policy, subject). What a policy's slot says decides which lie in one slot of a Cluster.
//!
//! | slot of the policy | key of the account |
//! |---|---|
//! | none | `tollway:1:{s:team-a}:adobe`: prefix, version, the subject as hash tag, the policy |
//! | `subject-prefix:/` | `tollway:1:{s:acme}/acme%2Fann:adobe`: the prefix as hash tag, the subject, the policy |
//! | `checkout` | `tollway:1:{n:checkout}/team-a:adobe`: the name as hash tag, the subject, the policy |
//!
//! Bytes of a subject other than letters, digits, `-`, `_` and `.` are written as `%XX`, so no subject can end its tag or look
//! like another. A name has no colon, so nothing after it can be taken for one.
//!
//! A prefix that has a hash tag of its own, as in `{shared}:`, puts every account into one slot, and with it all load on one
//! node.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tollway_core::{AccountKey, Charge, ClusterSlot, KEY_VERSION, Name, SlotTag, Subject};

/// What is escaped in a hash tag. Keys that are stored depend on it: it must stay as it is.
const IN_TAGS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Makes keys under one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
    writer: u128,
}

impl Keys {
    pub(crate) fn new(prefix: &str, writer: u128) -> Self {
        Self { prefix: prefix.to_owned(), writer }
    }

    /// The key of a charge's account.
    pub(crate) fn account(&self, charge: &Charge) -> String {
        let mut key = format!("{}{KEY_VERSION}:{{{}}}", self.prefix, Self::tag(charge));
        if *charge.policy.cluster_slot() != ClusterSlot::Subject {
            key.push('/');
            key.extend(utf8_percent_encode(charge.subject.as_str(), IN_TAGS));
        }
        key.push(':');
        key.push_str(charge.policy.name().as_str());
        key
    }

    /// The key of the answers that this writer has not read, on a server that has all accounts.
    pub(crate) fn answers(&self) -> String {
        format!("{}{KEY_VERSION}:answers:{:032x}", self.prefix, self.writer)
    }

    /// The key of this writer's last call on that account, in the same slot.
    pub(crate) fn writer(&self, charge: &Charge) -> String {
        format!("{}:{:032x}", self.account(charge), self.writer)
    }

    /// The key of a shared account of a policy: `tollway:1:{o:NUMBER}:POLICY`.
    pub(crate) fn shared_account(&self, number: u32, policy: &Name) -> String {
        format!("{}:{policy}", self.shared_subject(number))
    }

    /// What the subjects that share an account are called together, in the layout `consumers`.
    pub(crate) fn shared_subject(&self, number: u32) -> String {
        format!("{}{KEY_VERSION}:{{o:{number}}}", self.prefix)
    }

    /// The key that says until when subjects may share accounts: `tollway:1:{o}`.
    pub(crate) fn shared_notice(&self) -> String {
        format!("{}{KEY_VERSION}:{{o}}", self.prefix)
    }

    /// Whether all keys lie in one slot of a Cluster, because the prefix has a hash tag of its own.
    pub(crate) fn in_one_slot(&self) -> bool {
        let tag = self.prefix.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        tag.is_some_and(|(tag, _)| !tag.is_empty())
    }

    /// The hash tag of a charge's account.
    pub(crate) fn tag(charge: &Charge) -> String {
        let (mut tag, text) = match charge.slot_tag() {
            SlotTag::Subject(text) => (String::from("s:"), text),
            SlotTag::Named(text) => (String::from("n:"), text),
        };
        tag.extend(utf8_percent_encode(&text, IN_TAGS));
        tag
    }

    /// A pattern of `SCAN` for the accounts of one policy or of all. It also finds the keys of writers.
    pub(crate) fn pattern(&self, policy: Option<&Name>) -> String {
        let mut pattern = String::new();
        for sign in self.prefix.chars() {
            if matches!(sign, '*' | '?' | '[' | ']' | '\\') {
                pattern.push('\\');
            }
            pattern.push(sign);
        }
        let policy = policy.map_or("*", |policy| policy.as_str());
        format!("{pattern}{KEY_VERSION}:{{[sn]:*}}*:{policy}")
    }

    /// The account of a key; nothing if the key is another one, such as that of a writer.
    pub(crate) fn account_of(&self, key: &str) -> Option<AccountKey> {
        let rest = key.strip_prefix(&self.prefix)?.strip_prefix(&format!("{KEY_VERSION}:{{"))?;
        let (tag, rest) = rest.split_once('}')?;
        let (subject, policy) = match rest.strip_prefix('/') {
            Some(rest) if tag.starts_with("s:") || tag.starts_with("n:") => rest.split_once(':')?,
            Some(_) => return None,
            None => (tag.strip_prefix("s:")?, rest.strip_prefix(':')?),
        };
        let subject = percent_decode_str(subject).decode_utf8().ok()?;
        Some(AccountKey { policy: Name::new(policy).ok()?, subject: Subject::new(&subject).ok()? })
    }

    /// The key of the limits set at run time.
    pub(crate) fn settings(&self) -> String {
        format!("{}{KEY_VERSION}:settings", self.prefix)
    }

    /// The key of the limiters that read them; in the same slot of a Cluster, because one script names both.
    pub(crate) fn limiters(&self) -> String {
        let settings = self.settings();
        let tag = settings.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        match tag {
            Some((tag, _)) if !tag.is_empty() => format!("{}{KEY_VERSION}:limiters", self.prefix),
            _ => format!("{}{KEY_VERSION}:limiters:{{{settings}}}", self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use proptest::prelude::*;
    use tollway_core::Policy;

    fn charge(slot: &str, policy: &str, subject: &str) -> Charge {
        let policy = Policy::new(policy, ["1 / day"]).unwrap();
        let slot = if slot.is_empty() { ClusterSlot::Subject } else { slot.parse().unwrap() };
        Charge::new(Arc::new(policy.with_cluster_slot(slot)), Subject::new(subject).unwrap())
    }

    fn key(slot: &str, policy: &str, subject: &str) -> String {
        Keys::new("tollway:", 7).account(&charge(slot, policy, subject))
    }

    /// What Redis hashes: what is between the first brace and the next closing one.
    fn tag(key: &str) -> &str {
        key.split_once('{').unwrap().1.split_once('}').unwrap().0
    }

    #[test]
    fn keys_look_like_this() {
        assert_eq!(key("", "adobe", "team-a"), "tollway:1:{s:team-a}:adobe");
        assert_eq!(key("", "adobe", ""), "tollway:1:{s:}:adobe");
        assert_eq!(key("", "adobe", "a}:{b%"), "tollway:1:{s:a%7D%3A%7Bb%25}:adobe");
        assert_eq!(key("checkout", "adobe", "team-a"), "tollway:1:{n:checkout}/team-a:adobe");
        assert_eq!(key("checkout", "adobe", ""), "tollway:1:{n:checkout}/:adobe");
        assert_eq!(key("subject-prefix:/", "adobe", "acme/ann"), "tollway:1:{s:acme}/acme%2Fann:adobe");
        assert_eq!(
            key("subject-prefix:/", "adobe", "{a}/{b}"),
            "tollway:1:{s:%7Ba%7D}/%7Ba%7D%2F%7Bb%7D:adobe"
        );
    }

    /// What a caller names cannot be the tag that a config names.
    #[test]
    fn no_subject_reaches_the_slot_of_a_name() {
        for subject in ["checkout", "n:checkout", "}{n:checkout", "{n:checkout}", "n:checkout}/"] {
            for slot in ["", "subject-prefix:/", "subject-prefix:}", "subject-prefix::"] {
                assert_ne!(tag(&key(slot, "adobe", subject)), "n:checkout", "{slot} {subject}");
            }
        }
    }

    #[test]
    fn pattern_escapes_the_prefix() {
        let keys = Keys::new("a*[b]?:", 7);
        assert_eq!(keys.pattern(None), "a\\*\\[b\\]\\?:1:{[sn]:*}*:*");
        assert_eq!(keys.pattern(Some(&Name::new("adobe").unwrap())), "a\\*\\[b\\]\\?:1:{[sn]:*}*:adobe");
    }

    const SLOTS: [&str; 4] = ["", "one", "subject-prefix:/", "subject-prefix:a"];

    proptest! {
        /// The account of a key is the one it was made of; a writer's key is no account's.
        #[test]
        fn keys_read_back(slot in 0..4usize, subject in "[{}%:/a\\PC]{0,6}", policy in "[a-b.]{1,3}") {
            let charge = charge(SLOTS[slot], &policy, &subject);
            let keys = Keys::new("tollway:", 7);
            prop_assert_eq!(keys.account_of(&keys.writer(&charge)), None);
            prop_assert_eq!(keys.account_of(&keys.account(&charge)), Some(charge.key()));
        }

        /// M4: no two accounts share a key, and a subject's accounts share their tag, for any subject.
        #[test]
        fn keys_are_injective(one in "[{}%:a\\PC]{0,6}", other in "[{}%:a\\PC]{0,6}", policy in "[a-b.]{1,3}", second in "[a-b.]{1,3}") {
            let same = one == other && policy == second;
            for slot in SLOTS {
                prop_assert_eq!(key(slot, &policy, &one) == key(slot, &second, &other), same);
            }
            let (first, again) = (key("", &policy, &one), key("", &second, &one));
            prop_assert_eq!(tag(&first), tag(&again));
            prop_assert_eq!(tag(&first) == tag(&key("", &policy, &other)), one == other);
        }

        /// Under a name all subjects share their tag; under a prefix, those with the same one.
        #[test]
        fn config_chooses_what_shares_a_tag(one in "[{}%/a]{0,6}", other in "[{}%/a]{0,6}") {
            let (first, second) = (key("one", "a", &one), key("one", "b", &other));
            prop_assert_eq!(tag(&first), tag(&second));
            let prefix = |subject: &str| subject.split('/').next().unwrap().to_owned();
            let (first, second) = (key("subject-prefix:/", "a", &one), key("subject-prefix:/", "b", &other));
            prop_assert_eq!(tag(&first) == tag(&second), prefix(&one) == prefix(&other));
        }
    }
}
