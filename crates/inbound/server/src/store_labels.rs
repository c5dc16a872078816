//! How the log and the administration name the store.

use tollway::StoreUrl;
use tollway::core::StoreUrlParts;

/// The default port of Redis.
const REDIS_PORT: u16 = 6_379;
/// The default port of its Sentinels.
const SENTINEL_PORT: u16 = 26_379;

/// The names of the store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoreLabels {
    /// In the log, as in `Redis issue: ...`.
    pub(crate) in_log: &'static str,
    /// In the administration.
    pub(crate) technology: &'static str,
    /// The address of Redis, if it is the store.
    pub(crate) redis: Option<RedisPlace>,
}

/// The address of Redis: the first server that the URL names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RedisPlace {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl StoreLabels {
    pub(crate) fn of(store: &StoreUrl) -> Self {
        let redis = matches!(store, StoreUrl::Redis(_)).then(|| RedisPlace::in_url(&store.to_string()));
        let kind = store.kind();
        Self { in_log: kind.log_name, technology: kind.technology, redis }
    }
}

impl RedisPlace {
    /// Reads the displayed form of a URL, which has no password.
    fn in_url(url: &str) -> Self {
        let parts = StoreUrlParts::read(url);
        let default = match parts {
            Some(parts) if parts.scheme.ends_with("+sentinel") => SENTINEL_PORT,
            _ => REDIS_PORT,
        };
        let (host, port) = parts.and_then(|parts| parts.hosts().next()).unwrap_or_default();
        Self { host: host.to_owned(), port: port.and_then(|port| port.parse().ok()).unwrap_or(default) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C8: the address of Redis, and never its password.
    #[test]
    fn redis_address_is_read_from_the_url() {
        for (url, host, port) in [
            ("redis://127.0.0.1:6380/0?layout=consumers", "127.0.0.1", 6_380),
            ("redis://me:secret@cache.internal", "cache.internal", 6_379),
            ("redis://:se%2Fcret@cache:7/3", "cache", 7),
            ("redis://[::1]:6380", "::1", 6_380),
            ("redis://[::1]/0", "::1", 6_379),
            ("redis+cluster://a:7000,b:7001", "a", 7_000),
            ("redis+sentinel://a,b:26380/master/0", "a", 26_379),
        ] {
            let kind = StoreLabels::of(&url.parse().unwrap());
            assert_eq!(kind.redis, Some(RedisPlace { host: host.to_owned(), port }), "{url}");
            assert_eq!((kind.in_log, kind.technology), ("Redis", "REDIS"));
        }
        assert_eq!(StoreLabels::of(&StoreUrl::default()).redis, None);
    }
}
