//! Counters that never expire: which keys are counters, and a search with SCAN, a page at a time, that only reads.

use std::collections::HashSet;

use redis::{Pipeline, RedisResult};
use tollway::core::KEY_VERSION;

use super::servers::Server;
use crate::context::WholeConfig;
use crate::doctor::finding::{Finding, NAMED_MAX};
use crate::words;

/// How the keys of consumers end.
const ENDS: [&str; 6] = ["_PER_SECOND", "_PER_MINUTE", "_PER_HOUR", "_PER_DAY", "_PER_WEEK", "_PER_MONTH"];

/// How many keys Redis is to go through for one page: a few hundred microseconds of its time.
const PAGE_KEYS: &str = "1000";

/// The most pages of each pattern: about a million keys, some seconds.
const PAGES_MAX: usize = 1_000;

/// What was seen of all servers.
pub(super) struct Seen<'c> {
    config: &'c WholeConfig,
    pub(super) looked_at: u64,
    /// Whether that is all there are.
    pub(super) whole: bool,
    /// Those of the config that have a meter.
    pub(super) policies: HashSet<String>,
    endless: u64,
    /// The first of them.
    named: Vec<String>,
}

impl<'c> Seen<'c> {
    pub(super) fn new(config: &'c WholeConfig) -> Self {
        let (policies, named) = (HashSet::new(), Vec::new());
        Self { config, looked_at: 0, whole: true, policies, endless: 0, named }
    }

    /// Goes through the counters of one server.
    pub(super) async fn look_through(&mut self, server: &mut Server, counters: &Counters) -> RedisResult<()> {
        let pattern = counters.pattern();
        let mut cursor = "0".to_owned();
        for _ in 0..PAGES_MAX {
            let page = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", PAGE_KEYS];
            let (next, keys): (String, Vec<Vec<u8>>) = server.ask(&page).await?;
            // A counter's key is always text.
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
            self.looked_at = self.looked_at.saturating_add(1);
            if let Some(policy) =
                counters.policy(&key).filter(|name| self.config.limits().policy(name).is_some())
            {
                self.policies.insert(policy.to_owned());
            }
            // A page may tell of a key twice, and -2 is one that has ended meanwhile.
            if end == -1 && !self.named.contains(&key) {
                self.endless = self.endless.saturating_add(1);
                if self.named.len() < NAMED_MAX {
                    self.named.push(key);
                }
            }
        }
        Ok(())
    }

    /// The finding, if there are any that never end.
    pub(super) fn endless(&self) -> Option<Finding> {
        let number = match self.endless {
            0 => return None,
            1 => "1 counter in Redis never ends".to_owned(),
            many => format!("{} in Redis never end", words::counted(many, "counters")),
        };
        let named: Vec<String> = self.named.iter().map(|key| key.escape_debug().to_string()).collect();
        let all_named = u64::try_from(named.len()).is_ok_and(|named| named == self.endless);
        let more = if all_named { "" } else { ", ..." };
        Some(Finding::problem(
            "keys-without-ttl",
            format!("{number} (TTL -1): {}{more}", named.join(", ")),
            "a counter that does not end is never reset, so that its caller stays denied once it is full, and the memory of \
             Redis grows; another program has set them without an end (SET instead of SETEX), or made them with INCR in \
             the moment in which they ended",
            self.deletion(),
        ))
    }

    /// A command that deletes those that are named. Names that cannot be seen are not repeated: they are anybody's.
    fn deletion(&self) -> String {
        let words: Vec<String> = self.named.iter().filter_map(|key| shell_word(key)).collect();
        match words.is_empty() {
            true => {
                "delete them, which begins a new window, with a program that can write their names".to_owned()
            }
            false => format!("delete them, which begins a new window: redis-cli DEL {}", words.join(" ")),
        }
    }
}

/// A key as one word of a command, if all of it can be seen.
fn shell_word(key: &str) -> Option<String> {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "_-.:".contains(sign);
    let visible = |sign: char| sign.escape_debug().len() == 1 || "'\"\\".contains(sign);
    if !key.chars().all(visible) {
        return None;
    }
    Some(if key.chars().all(plain) { key.to_owned() } else { format!("'{}'", key.replace('\'', "'\\''")) })
}

/// Counters of one kind, told by their keys.
pub(super) enum Counters {
    /// Those of a store under its prefix: how they begin.
    Lines { beginning: String },
    /// Those of consumers, also of other systems. Keys under the prefix are not among them.
    Consumers { except: String },
}

impl Counters {
    /// All that a store with this prefix may meet.
    pub(super) fn of(prefix: &str) -> [Self; 2] {
        let beginning = format!("{prefix}{KEY_VERSION}:");
        [Self::Lines { beginning: beginning.clone() }, Self::Consumers { except: beginning }]
    }

    /// What SCAN is asked for.
    pub(super) fn pattern(&self) -> String {
        match self {
            Self::Lines { beginning } => format!("{}*", escaped(beginning)),
            Self::Consumers { .. } => "*_PER_*".to_owned(),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        match self {
            // Limits that are data are the one key that has no end.
            Self::Lines { beginning } => key.strip_prefix(beginning).is_some_and(|rest| rest != "settings"),
            Self::Consumers { except } => {
                ENDS.iter().any(|end| key.ends_with(end)) && !key.starts_with(except)
            }
        }
    }

    /// The policy in a key, where it has one: `tollway:1:{s:SUBJECT}:POLICY`.
    pub(super) fn policy<'k>(&self, key: &'k str) -> Option<&'k str> {
        let Self::Lines { beginning } = self else { return None };
        let (_, behind) = key.strip_prefix(beginning)?.split_once("}:")?;
        behind.split(':').next()
    }
}

/// With what means more than itself in a pattern taken for itself.
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
    fn a_key_is_one_word_of_the_fix_or_left_out() {
        assert_eq!(shell_word("a_PER_DAY").as_deref(), Some("a_PER_DAY"));
        assert_eq!(shell_word("a'b \"c\\_PER_DAY").as_deref(), Some("'a'\\''b \"c\\_PER_DAY'"));
        for hostile in ["\u{1b}[2J_PER_DAY", "a\nrm -rf /_PER_DAY", "\u{202e}a_PER_DAY"] {
            assert_eq!(shell_word(hostile), None);
        }
    }

    #[test]
    fn counters_are_told_by_their_keys() {
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
