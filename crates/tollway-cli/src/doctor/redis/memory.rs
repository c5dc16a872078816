//! What a server says of its memory and its disk.

use tollway::Limit;
use tollway::core::{Algorithm, Calendar, Span};

use super::servers::Server;
use crate::context::WholeConfig;
use crate::doctor::finding::{Finding, Findings};
use crate::words;

/// From this share of its memory on, in percent, a server is as good as full: it may be within the hour.
const FULL_PERCENT: u64 = 95;

/// What `INFO` says.
struct Info(String);

impl Info {
    async fn ask(server: &mut Server) -> Option<Self> {
        let mut text: String = server.ask(&["INFO", "memory"]).await.ok()?;
        text += &server.ask::<String>(&["INFO", "persistence"]).await.ok()?;
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
}

pub(super) async fn look_at(config: &WholeConfig, server: &mut Server, findings: &mut Findings) {
    let Some(info) = Info::ask(server).await else { return };
    findings.findings.extend(eviction(&info));
    findings.findings.extend(full(&info));
    if counts_for_days(config) && info.text("aof_enabled") == Some("0") {
        let saves: Result<Vec<String>, _> = server.ask(&["CONFIG", "GET", "save"]).await;
        // A server that does not tell may save.
        if saves.is_ok_and(|saves| saves.get(1).is_some_and(String::is_empty)) {
            findings.add(not_on_disk());
        }
    }
}

/// A key that is evicted is a meter that begins anew.
fn eviction(info: &Info) -> Option<Finding> {
    let policy = info.text("maxmemory_policy").filter(|policy| *policy != "noeviction")?;
    let what = format!("Redis may evict counters: its maxmemory-policy is {policy}");
    let fix = "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; caches belong into another Redis";
    Some(match info.number("maxmemory") {
        Some(0) => {
            let why = "there is no maxmemory yet, so that it does not; with one, limits would be forgotten";
            Finding::note("evicts", what, why, fix)
        }
        _ => {
            let why =
                "a counter that is evicted to make room begins anew, and its caller may use the limit twice";
            Finding::problem("evicts", what, why, fix)
        }
    })
}

fn full(info: &Info) -> Option<Finding> {
    let most = info.number("maxmemory").filter(|most| *most > 0)?;
    let used = info.number("used_memory")?;
    let share = used.saturating_mul(100).checked_div(most)?;
    (share >= FULL_PERCENT).then(|| {
        let (used, most) = (words::count(used), words::count(most));
        Finding::problem(
            "memory-full",
            format!("Redis is full: it uses {used} of {most} bytes"),
            "it refuses to count what is new, or evicts what it has counted",
            "redis-cli CONFIG SET maxmemory with more, and the same in redis.conf; look for what grows: redis-cli --bigkeys, \
             and keys without TTL",
        )
    })
}

fn counts_for_days(config: &WholeConfig) -> bool {
    let policies = config.limits().policies().iter().flat_map(|policy| policy.limits());
    config.consumers().is_some_and(|consumers| consumers.enabled) || policies.into_iter().any(is_long)
}

/// Whether a limit counts for a day or longer.
fn is_long(limit: &Limit) -> bool {
    match limit.algorithm() {
        Algorithm::Window(Calendar::Every(period))
        | Algorithm::FromFirstCall(period)
        | Algorithm::Sliding(period)
        | Algorithm::Bucket { period, .. }
        | Algorithm::Paced(period) => *period >= Span::from_days(1),
        Algorithm::Window(Calendar::Day(_) | Calendar::Week(_) | Calendar::Month(_)) => true,
        Algorithm::Concurrency { .. } => false,
    }
}

fn not_on_disk() -> Finding {
    Finding::note(
        "not-on-disk",
        "Redis keeps nothing on disk, and there are limits of days",
        "when it restarts, all that was used of a day, a week or a month is forgotten and can be used again",
        "redis-cli CONFIG SET appendonly yes, and the same in redis.conf",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(text: &str) -> Info {
        Info(text.replace('\n', "\r\n"))
    }

    #[test]
    fn only_a_server_with_a_bound_evicts_or_is_full() {
        let level = |text: &str| eviction(&info(text)).map(|finding| finding.level);
        use crate::doctor::finding::Level::{Note, Problem};
        assert_eq!(level("maxmemory:0\nmaxmemory_policy:noeviction\n"), None);
        assert_eq!(level("maxmemory:0\nmaxmemory_policy:allkeys-lru\n"), Some(Note));
        assert_eq!(level("maxmemory:9\nmaxmemory_policy:volatile-ttl\n"), Some(Problem));
        assert!(full(&info("used_memory:95\nmaxmemory:100\n")).is_some());
        assert!(full(&info("used_memory:94\nmaxmemory:100\n")).is_none());
        assert!(full(&info("used_memory:94\nmaxmemory:0\n")).is_none());
    }
}
