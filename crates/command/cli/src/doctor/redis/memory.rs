//! Checks memory and persistence of a server.

use tollway::Limit;
use tollway::core::Span;

use super::redis_cli::RedisCli;
use super::servers::Server;
use crate::context::WholeConfig;
use crate::doctor::finding::{Finding, Findings};
use crate::humanize;

/// From this memory usage on, in percent, a server counts as full.
const FULL_PERCENT: u64 = 95;

/// From this memory usage on it fills, and the store raises an alarm.
const FILLING_PERCENT: u64 = 80;

/// The first major version whose scripts may run while it is full.
const DECIDES_WHEN_FULL: u64 = 7;

/// The output of `INFO`.
struct Info(String);

impl Info {
    async fn ask(server: &mut Server) -> Option<Self> {
        let mut text: String = server.ask(&["INFO", "memory"]).await.ok()?;
        text += &server.ask::<String>(&["INFO", "persistence"]).await.ok()?;
        text += &server.ask::<String>(&["INFO", "server"]).await.unwrap_or_default();
        Some(Self(text))
    }

    fn text(&self, name: &str) -> Option<&str> {
        let named = |line: &'_ str| line.split_once(':').filter(|(known, _)| *known == name).is_some();
        let line = self.0.lines().find(|line| named(line))?;
        line.split_once(':').map(|(_, value)| value.trim())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The version, if it is too old to decide while it is full.
    fn old_version(&self) -> Option<&str> {
        let version = self.text("redis_version")?;
        let major: u64 = version.split('.').next()?.parse().ok()?;
        (major < DECIDES_WHEN_FULL).then_some(version)
    }
}

pub(super) async fn look_at(config: &WholeConfig, server: &mut Server, findings: &mut Findings) {
    let Some(info) = Info::ask(server).await else { return };
    findings.findings.extend(eviction(&info, &server.cli));
    findings.findings.extend(full(&info, &server.cli));
    findings.findings.extend(refuses_when_full(&info));
    if has_long_limits(config) && info.text("aof_enabled") == Some("0") {
        let saves: Result<Vec<String>, _> = server.ask(&["CONFIG", "GET", "save"]).await;
        // A server that refuses CONFIG GET may still save.
        if saves.is_ok_and(|saves| saves.get(1).is_some_and(String::is_empty)) {
            findings.add(not_on_disk(&server.cli));
        }
    }
}

/// An evicted key resets its meter.
fn eviction(info: &Info, cli: &RedisCli) -> Option<Finding> {
    let policy = info.text("maxmemory_policy").filter(|policy| *policy != "noeviction")?;
    let what = format!("Redis may evict counters: its maxmemory-policy is {policy}");
    let hint = cli.hint();
    let fix = format!(
        "{cli} CONFIG SET maxmemory-policy noeviction{hint}, and the same in redis.conf; use another Redis for caches"
    );
    Some(match info.number("maxmemory") {
        Some(0) => {
            let why = "maxmemory is not set, so nothing is evicted yet; with it, usage would be lost";
            Finding::note("evicts", what, why, fix)
        }
        _ => {
            let why = "an evicted counter restarts at zero, so its caller can use the limit twice";
            Finding::problem("evicts", what, why, fix)
        }
    })
}

fn full(info: &Info, cli: &RedisCli) -> Option<Finding> {
    let most = info.number("maxmemory").filter(|most| *most > 0)?;
    let used = info.number("used_memory")?;
    let share = used.saturating_mul(100).checked_div(most)?;
    if share < FILLING_PERCENT {
        return None;
    }
    let what = format!("it uses {} of {} bytes", humanize::count(used), humanize::count(most));
    let fix = format!(
        "raise maxmemory ({cli} CONFIG SET maxmemory BYTES, and redis.conf); find what grows: {cli} --bigkeys{}, and \
         keys without TTL",
        cli.hint()
    );
    let then = if info.old_version().is_some() {
        "it refuses every grant, and each policy follows its `when_store_fails`"
    } else {
        "subjects that are new to it share 1,024 accounts of their policy, and may be denied because of others"
    };
    Some(if share >= FULL_PERCENT {
        Finding::problem("memory-full", format!("Redis is full: {what}"), then, fix)
    } else {
        Finding::note(
            "memory-filling",
            format!("Redis fills up: {what}"),
            format!("once it is full, {then}"),
            fix,
        )
    })
}

/// A server that is old decides nothing while it is full.
fn refuses_when_full(info: &Info) -> Option<Finding> {
    info.number("maxmemory").filter(|most| *most > 0)?;
    let version = info.old_version()?;
    Some(Finding::note(
        "refuses-when-full",
        format!("this Redis is {version}, and has a maxmemory"),
        "once it is full it refuses every grant, and each policy follows its `when_store_fails`; from 7.0 on, accounts are \
         still counted",
        "use Redis 7.0 or newer, or Valkey",
    ))
}

fn has_long_limits(config: &WholeConfig) -> bool {
    let policies = config.limits().policies().iter().flat_map(|policy| policy.limits());
    config.consumers().is_some_and(|consumers| consumers.enabled) || policies.into_iter().any(is_long)
}

/// Whether a limit's period is a day or longer.
fn is_long(limit: &Limit) -> bool {
    limit.period().is_some_and(|period| period >= Span::from_days(1))
}

fn not_on_disk(cli: &RedisCli) -> Finding {
    Finding::note(
        "not-on-disk",
        "Redis has no persistence, and some limits last a day or longer",
        "after a restart, usage of the day, week or month is lost and callers can use the limit again",
        format!("{cli} CONFIG SET appendonly yes{}, and the same in redis.conf", cli.hint()),
    )
}

#[cfg(test)]
mod tests {
    use super::super::servers::Url;
    use super::*;

    fn info(text: &str) -> Info {
        Info(text.replace('\n', "\r\n"))
    }

    #[test]
    fn eviction_is_a_problem_only_with_maxmemory() {
        let cli = RedisCli::at(&Url::read("redis://h").unwrap(), "h:6379");
        let level = |text: &str| eviction(&info(text), &cli).map(|finding| finding.level);
        let full = |text: &str| full(&info(text), &cli);
        use crate::doctor::finding::Level::{Note, Problem};
        assert_eq!(level("maxmemory:0\nmaxmemory_policy:noeviction\n"), None);
        assert_eq!(level("maxmemory:0\nmaxmemory_policy:allkeys-lru\n"), Some(Note));
        assert_eq!(level("maxmemory:9\nmaxmemory_policy:volatile-ttl\n"), Some(Problem));
        assert!(full("used_memory:95\nmaxmemory:100\n").is_some());
        let code = |text: &str| full(text).map(|finding| finding.code);
        assert_eq!(code("used_memory:94\nmaxmemory:100\n"), Some("memory-filling"));
        assert_eq!(code("used_memory:79\nmaxmemory:100\n"), None);
        let old = "used_memory:1\nmaxmemory:100\nredis_version:6.2.14\n";
        assert!(refuses_when_full(&info(old)).is_some());
        assert!(refuses_when_full(&info(&old.replace("6.2.14", "7.0.15"))).is_none());
        assert!(refuses_when_full(&info(&old.replace("maxmemory:100", "maxmemory:0"))).is_none());
        assert!(full("used_memory:94\nmaxmemory:0\n").is_none());
    }
}
