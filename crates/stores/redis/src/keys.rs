//! Keys in Redis: different for every (policy, subject), and of one subject all in one slot of a Cluster.
//!
//! `tollway:1:{s:team-a}:adobe`: prefix, version, the subject as hash tag, the policy. Bytes of a subject other than
//! letters, digits, `-`, `_` and `.` are written as `%XX`, so no subject can end its tag or look like another. A name has
//! no colon, so nothing after it can be taken for one.
//!
//! A prefix that has a hash tag of its own, as in `{shared}:`, puts every account into one slot: then takes over several
//! subjects work on a Cluster, too.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tollway_core::{AccountKey, KEY_VERSION, Name, Subject};

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

    /// The key of an account.
    pub(crate) fn account(&self, account: &AccountKey) -> String {
        let mut key = format!("{}{KEY_VERSION}:{{s:", self.prefix);
        key.extend(utf8_percent_encode(account.subject.as_str(), IN_TAGS));
        key.push_str("}:");
        key.push_str(account.policy.as_str());
        key
    }

    /// The key of the answers that this writer has not read, on a server that has all accounts.
    pub(crate) fn answers(&self) -> String {
        format!("{}{KEY_VERSION}:answers:{:032x}", self.prefix, self.writer)
    }

    /// The key of this writer's last call on that account, in the same slot.
    pub(crate) fn writer(&self, account: &AccountKey) -> String {
        format!("{}:{:032x}", self.account(account), self.writer)
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

    /// The hash tag of a subject.
    pub(crate) fn tag(subject: &Subject) -> String {
        let mut tag = String::from("s:");
        tag.extend(utf8_percent_encode(subject.as_str(), IN_TAGS));
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
        format!("{pattern}{KEY_VERSION}:{{s:*}}:{policy}")
    }

    /// The account of a key; nothing if the key is another one, such as that of a writer.
    pub(crate) fn account_of(&self, key: &str) -> Option<AccountKey> {
        let rest = key.strip_prefix(&self.prefix)?.strip_prefix(&format!("{KEY_VERSION}:{{s:"))?;
        let (subject, policy) = rest.split_once("}:")?;
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
    use super::*;
    use proptest::prelude::*;

    fn key(policy: &str, subject: &str) -> String {
        let account =
            AccountKey { policy: Name::new(policy).unwrap(), subject: Subject::new(subject).unwrap() };
        Keys::new("tollway:", 7).account(&account)
    }

    /// What Redis hashes: what is between the first brace and the next closing one.
    fn tag(key: &str) -> &str {
        key.split_once('{').unwrap().1.split_once('}').unwrap().0
    }

    #[test]
    fn keys_look_like_this() {
        assert_eq!(key("adobe", "team-a"), "tollway:1:{s:team-a}:adobe");
        assert_eq!(key("adobe", ""), "tollway:1:{s:}:adobe");
        assert_eq!(key("adobe", "a}:{b%"), "tollway:1:{s:a%7D%3A%7Bb%25}:adobe");
    }

    #[test]
    fn pattern_escapes_the_prefix() {
        let keys = Keys::new("a*[b]?:", 7);
        assert_eq!(keys.pattern(None), "a\\*\\[b\\]\\?:1:{s:*}:*");
        assert_eq!(keys.pattern(Some(&Name::new("adobe").unwrap())), "a\\*\\[b\\]\\?:1:{s:*}:adobe");
    }

    proptest! {
        /// The account of a key is the one it was made of; a writer's key is no account's.
        #[test]
        fn keys_read_back(subject in "[{}%:a\\PC]{0,6}", policy in "[a-b.]{1,3}") {
            let account =
                AccountKey { policy: Name::new(&policy).unwrap(), subject: Subject::new(&subject).unwrap() };
            let keys = Keys::new("tollway:", 7);
            prop_assert_eq!(keys.account_of(&keys.writer(&account)), None);
            prop_assert_eq!(keys.account_of(&keys.account(&account)), Some(account));
        }

        /// M4: no two accounts share a key, and a subject's accounts share their tag, for any subject.
        #[test]
        fn keys_are_injective(one in "[{}%:a\\PC]{0,6}", other in "[{}%:a\\PC]{0,6}", policy in "[a-b.]{1,3}", second in "[a-b.]{1,3}") {
            let same = one == other && policy == second;
            prop_assert_eq!(key(&policy, &one) == key(&second, &other), same);
            let (first, again) = (key(&policy, &one), key(&second, &one));
            prop_assert_eq!(tag(&first), tag(&again));
            prop_assert_eq!(tag(&first) == tag(&key(&policy, &other)), one == other);
        }
    }
}
