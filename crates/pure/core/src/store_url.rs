//! The parts of a store's URL.
//!
//! The crate `url` does not fit: it has no lists of hosts, which Redis Cluster and Sentinel need, and it re-encodes.

/// The parts of `SCHEME://USER:PASSWORD@HOST:PORT,HOST.../PATH?NAME=VALUE&...`, not decoded. Only `SCHEME://` is required.
///
/// User and password end at the last `@` before the `?`: AWS secrets contain slashes, and a piece of a password must never
/// be shown as a host.
///
/// ```
/// use tollway_core::StoreUrlParts;
///
/// let parts = StoreUrlParts::read("redis+sentinel://me:secret@a,[::1]:7000/master/2?prefix=x:").unwrap();
/// assert_eq!((parts.scheme, parts.path), ("redis+sentinel", "master/2"));
/// assert_eq!(parts.user_and_password(), Some(("me", "secret")));
/// assert_eq!(parts.hosts().collect::<Vec<_>>(), [("a", None), ("::1", Some("7000"))]);
/// assert_eq!(parts.parameters().collect::<Vec<_>>(), [("prefix", "x:")]);
/// ```
// No `Debug`: it would show the password.
#[derive(Clone, Copy)]
pub struct StoreUrlParts<'u> {
    /// The scheme, before `://`.
    pub scheme: &'u str,
    /// User and password, before the `@`, if there is one. Secret.
    pub user_info: Option<&'u str>,
    /// Hosts and path: everything between the `@` and the `?`.
    pub place: &'u str,
    /// All hosts with their ports.
    pub authority: &'u str,
    /// The path, after the first slash behind the hosts.
    pub path: &'u str,
    /// The query, after the `?`. It may hold secrets, too.
    pub query: &'u str,
    /// Everything before the `?`.
    pub before_query: &'u str,
}

impl<'u> StoreUrlParts<'u> {
    /// Splits a URL; `None` if it has no `://`.
    pub fn read(url: &'u str) -> Option<Self> {
        let (before_query, query) = url.split_once('?').unwrap_or((url, ""));
        let (scheme, rest) = before_query.split_once("://")?;
        let (user_info, place) = match rest.rsplit_once('@') {
            Some((user_info, place)) => (Some(user_info), place),
            None => (None, rest),
        };
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        Some(Self { scheme, user_info, place, authority, path, query, before_query })
    }

    /// User and password. Without a colon the password is empty.
    pub fn user_and_password(&self) -> Option<(&'u str, &'u str)> {
        self.user_info.map(|info| info.split_once(':').unwrap_or((info, "")))
    }

    /// Each host with its port, if given. IPv6 addresses come without brackets.
    pub fn hosts(&self) -> impl Iterator<Item = (&'u str, Option<&'u str>)> + use<'u> {
        self.authority.split(',').map(host_and_port)
    }

    /// The names and values of the query, in order.
    pub fn parameters(&self) -> impl Iterator<Item = (&'u str, &'u str)> + use<'u> {
        let parameters = self.query.split('&').filter(|parameter| !parameter.is_empty());
        parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
    }
}

/// `HOST`, `HOST:PORT`, `[::1]:PORT`.
fn host_and_port(text: &str) -> (&str, Option<&str>) {
    match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_ends_at_the_last_at_sign_before_the_query() {
        for (url, user, authority, path, query) in [
            ("redis://h", None, "h", "", ""),
            ("redis://:p@ss@h:1/0?x=a@b/c?d", Some(":p@ss"), "h:1", "0", "x=a@b/c?d"),
            ("dynamodb://key:se/+cret@table?create=yes", Some("key:se/+cret"), "table", "", "create=yes"),
            ("postgres://me:pa/ss@h/db", Some("me:pa/ss"), "h", "db", ""),
            ("redis://h?prefix=a@b", None, "h", "", "prefix=a@b"),
            ("redis://", None, "", "", ""),
        ] {
            let parts = StoreUrlParts::read(url).unwrap();
            assert_eq!(
                (parts.user_info, parts.authority, parts.path, parts.query),
                (user, authority, path, query),
                "{url}"
            );
        }
        assert!(StoreUrlParts::read("memory:").is_none());
        assert!(StoreUrlParts::read("file:a?b://c").is_none(), "the query has no scheme");
    }

    #[test]
    fn hosts_and_ports_are_split() {
        let hosts = |authority| StoreUrlParts::read(authority).unwrap().hosts().collect::<Vec<_>>();
        assert_eq!(
            hosts("r://a,b:7001,[::1]:7002,[::2]"),
            [("a", None), ("b", Some("7001")), ("::1", Some("7002")), ("::2", None)]
        );
        assert_eq!(hosts("r://:80"), [("", Some("80"))]);
    }

    #[test]
    fn parameters_may_lack_a_value() {
        let parts = StoreUrlParts::read("r://h?a=1&&b&c==").unwrap();
        assert_eq!(parts.parameters().collect::<Vec<_>>(), [("a", "1"), ("b", ""), ("c", "=")]);
    }
}
