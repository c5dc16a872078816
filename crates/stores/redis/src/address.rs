//! Where the store is, as a URL says it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tollway_core::{StoreError, StoreUrlParts, read_span};
use tollway_remote::DENIALS_MAX;

use crate::across_slots::WhenAcrossSlots;
use crate::error::wrong;
use crate::keys::Keys;

const PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

/// What a URL says about a store in Redis.
///
/// | URL | server |
/// |---|---|
/// | `redis://[USER:PASSWORD@]HOST[:PORT][/DB]` | one server; `rediss://` over TLS |
/// | `redis+cluster://HOST[:PORT],HOST...` | a Cluster; `rediss+cluster://` over TLS |
/// | `redis+sentinel://HOST[:PORT],HOST.../MASTER[/DB]` | the master that Sentinels name; `rediss+sentinel://` over TLS |
///
/// After a `?`: `prefix` of all keys, `deadline` within which a caller is answered, `denials`: how long a denial is
/// repeated from memory (at most and if not given `1s`; `0s`: never), and for TLS the files `ca`, `cert`, `key`.
/// On a Cluster `across_slots=undo` makes takes over several slots part by part, and returns the parts if one denies.
/// `layout=consumers` counts in the keys of a system already running, `SUBJECT_PER_MINUTE` and its sisters.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) kind: Kind,
    pub(crate) tls: bool,
    pub(crate) hosts: Vec<(String, u16)>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
    pub(crate) prefix: String,
    pub(crate) deadline: Duration,
    pub(crate) denials: Duration,
    pub(crate) layout: Layout,
    pub(crate) across_slots: WhenAcrossSlots,
    pub(crate) files: Files,
}

/// What kind of server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    One,
    Cluster,
    Sentinel { master: String },
}

/// Which keys hold what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Layout {
    /// An account with all its meters under one key.
    #[default]
    Lines,
    /// A count for each period under a key that others count in, too.
    Consumers,
}

/// Certificates, as paths of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl Address {
    /// Reads a URL. What is wrong is said without the password.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let parts =
            StoreUrlParts::read(url).ok_or_else(|| wrong("a store's URL begins with redis://".into()))?;
        let (tls, kind, path) = read_scheme(parts.scheme, parts.path)?;
        let (user, password) = read_user(&parts)?;
        let default_port = if matches!(kind, Kind::Sentinel { .. }) { SENTINEL_PORT } else { PORT };
        let mut address = Self {
            hosts: read_hosts(&parts, default_port, &kind)?,
            kind,
            tls,
            user,
            password,
            database: read_database(path)?,
            prefix: "tollway:".to_owned(),
            deadline: tollway_remote::Options::default().deadline,
            denials: DENIALS_MAX,
            layout: Layout::default(),
            across_slots: WhenAcrossSlots::default(),
            files: Files::default(),
        };
        if tls && cfg!(not(feature = "tls")) {
            return Err(wrong(
                "rediss:// needs a program built with TLS for Redis; build it with `--features redis-tls`"
                    .into(),
            ));
        }
        parts.parameters().try_for_each(|(name, value)| address.set(name, value))?;
        Ok(address)
    }

    /// Whether it refuses takes whose accounts are in different slots.
    pub fn refuses_across_slots(&self) -> bool {
        self.is_divided() && self.across_slots == WhenAcrossSlots::Refuse
    }

    /// Whether it makes takes whose accounts are in different slots part by part.
    pub fn undoes_across_slots(&self) -> bool {
        self.is_divided() && self.across_slots == WhenAcrossSlots::Undo
    }

    /// Whether accounts are in different slots.
    pub(crate) fn is_divided(&self) -> bool {
        self.kind == Kind::Cluster && !Keys::new(&self.prefix, 0).in_one_slot()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), StoreError> {
        let value = decoded(value)?;
        match name {
            "prefix" => self.prefix = value,
            "deadline" => self.deadline = read_span(&value).map_err(wrong)?.into(),
            "denials" => self.denials = read_denials(&value)?,
            "layout" => self.layout = read_layout(&value, &self.kind)?,
            "across_slots" => self.across_slots = read_across_slots(&value, &self.kind)?,
            "ca" if self.tls => self.files.ca = Some(value.into()),
            "cert" if self.tls => self.files.cert = Some(value.into()),
            "key" if self.tls => self.files.key = Some(value.into()),
            "ca" | "cert" | "key" => {
                return Err(wrong(format!("`{name}` needs a URL that begins with rediss")));
            }
            _ => {
                let known = "prefix, deadline, denials, layout, across_slots, ca, cert and key";
                return Err(wrong(format!("a store in Redis has no option {name:?}; there are {known}")));
            }
        }
        Ok(())
    }
}

fn read_scheme<'a>(scheme: &str, path: &'a str) -> Result<(bool, Kind, &'a str), StoreError> {
    let (transport, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
    let tls = match transport {
        "redis" => false,
        "rediss" => true,
        _ => return Err(wrong(format!("{scheme:?} is no scheme of a store in Redis; try redis or rediss"))),
    };
    match kind {
        "" => Ok((tls, Kind::One, path)),
        "cluster" => Ok((tls, Kind::Cluster, path)),
        "sentinel" => {
            let (master, path) = path.split_once('/').unwrap_or((path, ""));
            if master.is_empty() {
                return Err(wrong(
                    "redis+sentinel:// names its master after the hosts, as in /mymaster".into(),
                ));
            }
            Ok((tls, Kind::Sentinel { master: decoded(master)? }, path))
        }
        _ => Err(wrong(format!(
            "{scheme:?} is no scheme of a store in Redis; try {transport}+cluster or {transport}+sentinel"
        ))),
    }
}

fn read_user(parts: &StoreUrlParts<'_>) -> Result<(Option<String>, Option<String>), StoreError> {
    let Some((user, password)) = parts.user_and_password() else { return Ok((None, None)) };
    let given = |text: &str| if text.is_empty() { Ok(None) } else { decoded(text).map(Some) };
    Ok((given(user)?, given(password)?))
}

fn read_hosts(
    parts: &StoreUrlParts<'_>,
    default_port: u16,
    kind: &Kind,
) -> Result<Vec<(String, u16)>, StoreError> {
    let read = |(host, port)| read_host(host, port, default_port);
    let hosts = parts.hosts().map(read).collect::<Result<Vec<_>, _>>()?;
    if hosts.len() > 1 && *kind == Kind::One {
        return Err(wrong("several hosts need redis+cluster:// or redis+sentinel://".into()));
    }
    Ok(hosts)
}

fn read_host(host: &str, port: Option<&str>, default_port: u16) -> Result<(String, u16), StoreError> {
    if host.is_empty() {
        return Err(wrong("a store's URL names a host".into()));
    }
    let not_one = |port: &str| wrong(format!("{port:?} is not a port"));
    let port = port.map_or(Ok(default_port), |port| port.parse().map_err(|_| not_one(port)))?;
    Ok((host.to_owned(), port))
}

/// The keys of one consumer lie in different slots of a Cluster, so it cannot count them in one step.
fn read_layout(text: &str, kind: &Kind) -> Result<Layout, StoreError> {
    match text {
        "lines" => Ok(Layout::Lines),
        "consumers" if *kind == Kind::Cluster => {
            Err(wrong("the layout consumers does not work on a Cluster, which keeps its keys apart".into()))
        }
        "consumers" => Ok(Layout::Consumers),
        _ => Err(wrong(format!("{text:?} is no layout; there are lines and consumers"))),
    }
}

/// One server has no slots, and what would have no effect is probably a mistake.
fn read_across_slots(text: &str, kind: &Kind) -> Result<WhenAcrossSlots, StoreError> {
    match text {
        "undo" | "refuse" if *kind != Kind::Cluster => Err(wrong(
            "only a Cluster has slots: leave `across_slots` out, or begin the URL with redis+cluster://"
                .into(),
        )),
        "undo" => Ok(WhenAcrossSlots::Undo),
        "refuse" => Ok(WhenAcrossSlots::Refuse),
        _ => Err(wrong(format!("across_slots is undo or refuse, not {text:?}"))),
    }
}

fn read_denials(text: &str) -> Result<Duration, StoreError> {
    let denials = Duration::from(read_span(text).map_err(wrong)?);
    if denials > DENIALS_MAX {
        return Err(wrong(format!("denials is at most {}s", DENIALS_MAX.as_secs())));
    }
    Ok(denials)
}

fn read_database(path: &str) -> Result<i64, StoreError> {
    if path.is_empty() {
        return Ok(0);
    }
    path.parse::<u16>().map(i64::from).map_err(|_| wrong(format!("{path:?} is not the number of a database")))
}

fn decoded(text: &str) -> Result<String, StoreError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| wrong("a part of the store's URL is not UTF-8".into()))
}

/// Never with the password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, tls, hosts, user, database, prefix, deadline, .. } = self;
        write!(
            f,
            "{kind:?} {hosts:?} database {database} prefix {prefix:?} deadline {deadline:?} tls {tls}"
        )?;
        user.as_ref().map_or(Ok(()), |user| write!(f, " user {user:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_with_everything() {
        let url = "redis://ann:p%40ss%3Aword@db.example:7000/3?prefix=%7Bone%7D:&deadline=250ms&denials=0s";
        let address = Address::parse(url).unwrap();
        assert_eq!(address.hosts, [("db.example".to_owned(), 7000)]);
        assert_eq!(address.password.as_deref(), Some("p@ss:word"));
        assert_eq!((address.user.as_deref(), address.database, &*address.prefix), (Some("ann"), 3, "{one}:"));
        assert_eq!((address.deadline, address.denials), (Duration::from_millis(250), Duration::ZERO));
        assert_eq!(Address::parse("redis://h").unwrap().denials, DENIALS_MAX);
        let shown = format!("{address:?}");
        assert!(!shown.contains("p@ss") && !shown.contains("p%40ss"), "{shown}");
    }

    #[test]
    fn clusters_and_sentinels_have_several_hosts() {
        let cluster = Address::parse("redis+cluster://a,b:7001,[::1]:7002").unwrap();
        let host = |host: &str, port| (host.to_owned(), port);
        assert_eq!(cluster.hosts, [host("a", 6379), host("b", 7001), host("::1", 7002)]);
        let sentinel = Address::parse("redis+sentinel://a,b/mymaster/2").unwrap();
        assert_eq!(sentinel.kind, Kind::Sentinel { master: "mymaster".into() });
        assert_eq!((sentinel.database, sentinel.hosts[1].1), (2, 26_379));
    }

    #[test]
    fn only_a_cluster_without_a_tag_refuses_takes_across_slots() {
        let refuses = |url: &str| Address::parse(url).unwrap().refuses_across_slots();
        assert!(refuses("redis+cluster://h") && refuses("redis+cluster://h?across_slots=refuse"));
        let undone = Address::parse("redis+cluster://h?across_slots=undo").unwrap();
        assert!(undone.undoes_across_slots() && !undone.refuses_across_slots());
        for url in ["redis://h", "redis+sentinel://h/m", "redis+cluster://h?prefix=%7Bone%7D:"] {
            assert!(!refuses(url), "{url}");
        }
    }

    #[test]
    fn errors_do_not_show_the_password() {
        for url in [
            "redis:/h",
            "http://ann:secret@h",
            "redis+ring://ann:secret@h",
            "redis://ann:secret@h:port",
            "redis://ann:secret@",
            "redis://ann:secret@h,i",
            "redis://ann:secret@h/one",
            "redis://ann:secret@h?deadlin=1s",
            "redis://ann:secret@h?deadline=soon",
            "redis://ann:secret@h?denials=2s",
            "redis://ann:secret@h?ca=file",
            "redis+sentinel://ann:secret@h",
            "redis://ann:secret@h?layout=colonnes",
            "redis+cluster://ann:secret@h?layout=consumers",
            "redis+cluster://ann:secret@h?across_slots=maybe",
            "redis://ann:secret@h?across_slots=undo",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(!error.message.contains("secret"), "{error}");
        }
    }
}
