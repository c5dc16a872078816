//! Finds counters without TTL or without a count: which keys are counters, and a read-only search with SCAN.

use std::collections::HashSet;

use redis::{FromRedisValue, Pipeline, RedisResult, Value};
use tollway::core::KEY_VERSION;
use tollway::core::bounds::COUNT_MAX;

use super::listed::Listed;
use super::redis_cli::RedisCli;
use super::servers::Server;
use crate::context::WholeConfig;
use crate::doctor::finding::Finding;
use crate::shell::shell_word;

/// Suffixes of consumer keys.
const SUFFIXES: [&str; 6] =
    ["_PER_SECOND", "_PER_MINUTE", "_PER_HOUR", "_PER_DAY", "_PER_WEEK", "_PER_MONTH"];

/// COUNT of a SCAN: a few hundred microseconds of Redis's time.
const PAGE_KEYS: &str = "1000";

/// The most SCAN pages per pattern: about a million keys, some seconds.
const PAGES_MAX: usize = 1_000;

/// Deletes those of its keys that have no TTL, and says how many.
const DELETE_WITHOUT_TTL: &str = "local n = 0 for _, key in ipairs(ARGV) do \
     if redis.call(\"PTTL\", key) == -1 then n = n + redis.call(\"DEL\", key) end end return n";

/// Deletes those of its keys that hold no count, and says how many. The store's script reads a count the same way.
const DELETE_WITHOUT_COUNT: &str = "local n = 0 for _, key in ipairs(ARGV) do local v = redis.pcall(\"GET\", key) \
     local bad = v if type(v) == \"table\" then bad = v.err:find(\"WRONGTYPE\") \
     elseif v and #v < 17 and (v == \"0\" or v:find(\"^[1-9]%d*$\")) then bad = tonumber(v) > 9007199254740991 end \
     if bad then n = n + redis.call(\"DEL\", key) end end return n";

/// The result over all servers.
pub(super) struct Seen<'c> {
    config: &'c WholeConfig,
    /// Whether consumer keys are the store's own, and must hold counts.
    consumers_layout: bool,
    pub(super) checked: u64,
    /// Whether the scan was complete.
    pub(super) whole: bool,
    /// Policies of the config with a meter.
    pub(super) policies: HashSet<String>,
    without_ttl: Listed,
    without_count: Listed,
}

impl<'c> Seen<'c> {
    pub(super) fn new(config: &'c WholeConfig, consumers_layout: bool) -> Self {
        let (without_ttl, without_count) = <(Listed, Listed)>::default();
        let policies = HashSet::new();
        Self { config, consumers_layout, checked: 0, whole: true, policies, without_ttl, without_count }
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
        if self.consumers_layout && matches!(counters, Counters::Consumers { .. }) {
            for (key, answer) in keys.iter().zip(ask_each(server, "GET", &keys).await?) {
                if !is_count(answer)? {
                    self.without_count.add(key.clone(), &server.cli, counters);
                }
            }
        }
        for (key, answer) in keys.iter().zip(ask_each(server, "PTTL", &keys).await?) {
            self.checked = self.checked.saturating_add(1);
            if let Some(policy) =
                counters.policy(key).filter(|name| self.config.limits().policy(name).is_some())
            {
                self.policies.insert(policy.to_owned());
            }
            // -2 means that the key has expired meanwhile.
            if i64::from_redis_value(answer.extract_error()?)? == -1 {
                self.without_ttl.add(key.clone(), &server.cli, counters);
            }
        }
        Ok(())
    }

    /// The findings: counters that hold no count, and counters without TTL.
    pub(super) fn findings(&self) -> impl Iterator<Item = Finding> {
        let without_count = self.without_count.what("holds no count", "hold no count").map(|what| {
            let why = "another program wrote them; the next take of a consumer replaces its counter by a new one, so a \
                       program that keeps writing them keeps resetting its window";
            let fix = self.without_count.deletion(DELETE_WITHOUT_COUNT);
            Finding::problem("keys-without-count", what, why, fix)
        });
        let without_ttl = self.without_ttl.what("has no TTL", "have no TTL").map(|what| {
            let why = "a counter without TTL never resets: its caller stays denied once it is full, and Redis memory \
                       grows; another program wrote them without TTL (SET instead of SETEX), or incremented them just as \
                       they expired";
            Finding::problem("keys-without-ttl", what, why, self.without_ttl.deletion(DELETE_WITHOUT_TTL))
        });
        [without_count, without_ttl].into_iter().flatten()
    }
}

/// Sends one command for each key, in one round trip. An answer may be an error of its key.
async fn ask_each(server: &mut Server, command: &str, keys: &[String]) -> RedisResult<Vec<Value>> {
    let mut question = Pipeline::with_capacity(keys.len());
    for key in keys {
        question.cmd(command).arg(key);
    }
    server.connection().send_packed_commands(&question, 0, keys.len()).await
}

/// Whether a counter holds a count, as the store's script reads it. A key that has expired meanwhile is fine.
fn is_count(answer: Value) -> RedisResult<bool> {
    let value = match answer {
        Value::ServerError(error) if error.code() == "WRONGTYPE" => return Ok(false),
        answer => Option::<Vec<u8>>::from_redis_value(answer.extract_error()?)?,
    };
    let Some(value) = value else { return Ok(true) };
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let shortest = value.len() == 1 || value.first() != Some(&b'0');
    let count = str::from_utf8(&value).ok().and_then(|value| value.parse::<u64>().ok());
    Ok(digits && shortest && count.is_some_and(|count| count <= COUNT_MAX))
}

/// A kind of counter, recognised by its keys.
#[derive(Clone, PartialEq, Eq)]
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

    /// A pipeline of shell commands that runs a script on all keys of this kind on a server.
    pub(super) fn pipeline(&self, server: &RedisCli, script: &str) -> Option<String> {
        let filter = match self {
            Self::Accounts { beginning } => {
                format!("grep -avxF {}", shell_word(&format!("{beginning}settings"))?)
            }
            Self::Consumers { .. } => "grep -aE '_PER_(SECOND|MINUTE|HOUR|DAY|WEEK|MONTH)$'".to_owned(),
        };
        Some(server.on_all(&shell_word(&self.pattern())?, &filter, script))
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

    /// The policy in a key, if it has one: `tollway:1:{s:SUBJECT}:POLICY`, or with a slot `tollway:1:{n:SLOT}/SUBJECT:POLICY`.
    pub(super) fn policy<'k>(&self, key: &'k str) -> Option<&'k str> {
        let Self::Accounts { beginning } = self else { return None };
        let (_, behind) = key.strip_prefix(beginning)?.split_once('}')?;
        // A subject in a key has no colon.
        let behind = match behind.strip_prefix('/') {
            Some(behind) => behind.split_once(':')?.1,
            None => behind.strip_prefix(':')?,
        };
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
    fn counters_are_recognised_by_their_keys() {
        let [lines, consumers] = Counters::of("tollway:");
        for (key, is_line, is_consumers, policy) in [
            ("abc_PER_MINUTE", false, true, None),
            ("abc_PER_FORTNIGHT", false, false, None),
            ("PER_MINUTE_abc", false, false, None),
            ("tollway:1:{s:team-a}:adobe", true, false, Some("adobe")),
            ("tollway:1:{s:team-a}:adobe:0123", true, false, Some("adobe")),
            ("tollway:1:{s:team-a}:x_PER_DAY", true, false, Some("x_PER_DAY")),
            ("tollway:1:{n:shop}/team-a:adobe", true, false, Some("adobe")),
            ("tollway:1:{s:acme}/acme%2Fann:adobe:0123", true, false, Some("adobe")),
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
