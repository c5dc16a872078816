//! Finds counters without TTL: which keys are counters, and a read-only search with SCAN.

use std::collections::HashSet;

use redis::{Pipeline, RedisResult};
use tollway::core::KEY_VERSION;

use super::servers::Server;
use crate::context::WholeConfig;
use crate::doctor::finding::{Finding, NAMED_MAX};
use crate::humanize;

/// Suffixes of consumer keys.
const SUFFIXES: [&str; 6] =
    ["_PER_SECOND", "_PER_MINUTE", "_PER_HOUR", "_PER_DAY", "_PER_WEEK", "_PER_MONTH"];

/// COUNT of a SCAN: a few hundred microseconds of Redis's time.
const PAGE_KEYS: &str = "1000";

/// The most SCAN pages per pattern: about a million keys, some seconds.
const PAGES_MAX: usize = 1_000;

/// The result over all servers.
pub(super) struct Seen<'c> {
    config: &'c WholeConfig,
    pub(super) checked: u64,
    /// Whether the scan was complete.
    pub(super) whole: bool,
    /// Policies of the config with a meter.
    pub(super) policies: HashSet<String>,
    without_ttl: u64,
    /// The first keys without TTL.
    named: Vec<String>,
}

impl<'c> Seen<'c> {
    pub(super) fn new(config: &'c WholeConfig) -> Self {
        let (policies, named) = (HashSet::new(), Vec::new());
        Self { config, checked: 0, whole: true, policies, without_ttl: 0, named }
    }

    /// Scans the counters of one server.
    pub(super) async fn scan(&mut self, server: &mut Server, counters: &Counters) -> RedisResult<()> {
        let pattern = counters.pattern();
        let mut cursor = "0".to_owned();
        for _ in 0..PAGES_MAX {
            let page = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", PAGE_KEYS];
            let (next, keys): (String, Vec<Vec<u8>>) = server.ask(&page).await?;
            // The key of a counter is always UTF-8.
            let keys = keys.into_iter().filter_map(|key| String::from_utf8(key).ok());
            self.add(server, counters, keys.filter(|key| counters.has(key)).collect()).await?;
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
        self.whole = false;
        Ok(())
    }

    async fn add(&mut self, server: &mut Server, counters: &Counters, keys: Vec<String>) -> RedisResult<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut question = Pipeline::with_capacity(keys.len());
        for key in &keys {
            question.cmd("PTTL").arg(key);
        }
        let ends: Vec<i64> = question.query_async(server.connection()).await?;
        for (key, end) in keys.into_iter().zip(ends) {
            self.checked = self.checked.saturating_add(1);
            if let Some(policy) =
                counters.policy(&key).filter(|name| self.config.limits().policy(name).is_some())
            {
                self.policies.insert(policy.to_owned());
            }
            // SCAN may return a key twice; -2 means the key has expired meanwhile.
            if end == -1 && !self.named.contains(&key) {
                self.without_ttl = self.without_ttl.saturating_add(1);
                if self.named.len() < NAMED_MAX {
                    self.named.push(key);
                }
            }
        }
        Ok(())
    }

    /// The finding, if there are counters without TTL.
    pub(super) fn without_ttl(&self) -> Option<Finding> {
        let number = match self.without_ttl {
            0 => return None,
            1 => "1 counter in Redis has no TTL".to_owned(),
            many => format!("{} in Redis have no TTL", humanize::counted(many, "counters")),
        };
        let named: Vec<String> = self.named.iter().map(|key| key.escape_debug().to_string()).collect();
        let all_named = u64::try_from(named.len()).is_ok_and(|named| named == self.without_ttl);
        let more = if all_named { "" } else { ", ..." };
        Some(Finding::problem(
            "keys-without-ttl",
            format!("{number}: {}{more}", named.join(", ")),
            "a counter without TTL never resets: its caller stays denied once it is full, and Redis memory grows; another \
             program wrote them without TTL (SET instead of SETEX), or incremented them just as they expired",
            self.deletion(),
        ))
    }

    /// A command that deletes the listed keys. Keys with control characters are left out.
    fn deletion(&self) -> String {
        let words: Vec<String> = self.named.iter().filter_map(|key| shell_word(key)).collect();
        match words.is_empty() {
            true => {
                "delete them, which starts a new window; their names need a program, not a shell".to_owned()
            }
            false => format!("delete them, which starts a new window: redis-cli DEL {}", words.join(" ")),
        }
    }
}

/// A key quoted for a shell, unless it has invisible characters.
fn shell_word(key: &str) -> Option<String> {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "_-.:".contains(sign);
    let visible = |sign: char| sign.escape_debug().len() == 1 || "'\"\\".contains(sign);
    if !key.chars().all(visible) {
        return None;
    }
    Some(if key.chars().all(plain) { key.to_owned() } else { format!("'{}'", key.replace('\'', "'\\''")) })
}

/// A kind of counter, recognised by its keys.
pub(super) enum Counters {
    /// Accounts of a store, by the prefix of their keys.
    Accounts { beginning: String },
    /// Counters of consumers, also from other systems; excludes keys with the store's prefix.
    Consumers { except: String },
}

impl Counters {
    /// All kinds for a store with this prefix.
    pub(super) fn of(prefix: &str) -> [Self; 2] {
        let beginning = format!("{prefix}{KEY_VERSION}:");
        [Self::Accounts { beginning: beginning.clone() }, Self::Consumers { except: beginning }]
    }

    /// The pattern for SCAN.
    pub(super) fn pattern(&self) -> String {
        match self {
            Self::Accounts { beginning } => format!("{}*", escaped(beginning)),
            Self::Consumers { .. } => "*_PER_*".to_owned(),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        match self {
            // The key of limits set in the store rightly has no TTL.
            Self::Accounts { beginning } => {
                key.strip_prefix(beginning).is_some_and(|rest| rest != "settings")
            }
            Self::Consumers { except } => {
                SUFFIXES.iter().any(|end| key.ends_with(end)) && !key.starts_with(except)
            }
        }
    }

    /// The policy in a key, if it has one: `tollway:1:{s:SUBJECT}:POLICY`.
    pub(super) fn policy<'k>(&self, key: &'k str) -> Option<&'k str> {
        let Self::Accounts { beginning } = self else { return None };
        let (_, behind) = key.strip_prefix(beginning)?.split_once("}:")?;
        behind.split(':').next()
    }
}

/// Escapes special characters of a SCAN pattern.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        if matches!(sign, '*' | '?' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(sign);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_quoted_or_left_out() {
        assert_eq!(shell_word("a_PER_DAY").as_deref(), Some("a_PER_DAY"));
        assert_eq!(shell_word("a'b \"c\\_PER_DAY").as_deref(), Some("'a'\\''b \"c\\_PER_DAY'"));
        for hostile in ["\u{1b}[2J_PER_DAY", "a\nrm -rf /_PER_DAY", "\u{202e}a_PER_DAY"] {
            assert_eq!(shell_word(hostile), None);
        }
    }

    #[test]
    fn counters_are_recognised_by_their_keys() {
        let [lines, consumers] = Counters::of("tollway:");
        for (key, is_line, is_consumers, policy) in [
            ("abc_PER_MINUTE", false, true, None),
            ("abc_PER_FORTNIGHT", false, false, None),
            ("PER_MINUTE_abc", false, false, None),
            ("tollway:1:{s:team-a}:adobe", true, false, Some("adobe")),
            ("tollway:1:{s:team-a}:adobe:0123", true, false, Some("adobe")),
            ("tollway:1:{s:team-a}:x_PER_DAY", true, false, Some("x_PER_DAY")),
            ("tollway:1:settings", false, false, None),
            ("other:1:{s:team-a}:adobe", false, false, None),
        ] {
            assert_eq!((lines.has(key), consumers.has(key)), (is_line, is_consumers), "{key}");
            assert_eq!((lines.policy(key), consumers.policy(key)), (policy, None), "{key}");
        }
        let [tagged, _] = Counters::of("{a}*:");
        assert_eq!(tagged.pattern(), "{a}\\*:1:*");
        assert_eq!(tagged.policy("{a}*:1:{s:x}:api"), Some("api"));
    }
}
