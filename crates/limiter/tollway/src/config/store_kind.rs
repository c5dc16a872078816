//! The table of store kinds: names, URL schemes, and how each is read and opened.

use tollway_config::suggest;

use super::remote::RemoteUrl;
use super::store::{self, StoreUrl};
use crate::BuildError;
use crate::open::{self, OpenedStore};

/// One kind of store.
#[derive(Debug)]
pub struct StoreKind {
    /// Its name in messages.
    pub name: &'static str,
    /// What the server's administration calls it.
    pub technology: &'static str,
    /// What the server's log calls it, as in `Redis issue: ...`.
    pub log_name: &'static str,
    /// The schemes of its URLs that are suggested where one is misspelt.
    pub schemes: &'static [&'static str],
    /// Schemes that are understood as well.
    pub other_schemes: &'static [&'static str],
    /// Its URL as messages write it.
    pub example: &'static str,
    /// The feature of this crate that it is built with; none: it is always there.
    pub feature: Option<&'static str>,
    /// Which processes share its counts.
    pub shared_by: SharedBy,
    /// Whose time windows begin and end by.
    pub clock: StoreClock,
    url: UrlReader,
    open: Open,
}

/// Which processes share the counts of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedBy {
    /// The takes of one process. The store ends with it.
    Process,
    /// The processes of one machine.
    Machine,
    /// All machines that reach it.
    Network,
}

/// Whose time a store goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreClock {
    /// That of the process which takes.
    Process,
    /// That of the server which keeps the store.
    Server,
}

/// Reports what is wrong with a URL.
type Check = fn(&str) -> Result<(), String>;

/// Opens the store at a URL of its kind.
type Open = fn(&StoreUrl) -> Result<OpenedStore, BuildError>;

/// How a URL is read.
#[derive(Debug)]
enum UrlReader {
    /// A local store, read from the part after the scheme.
    Local(fn(&str) -> Result<StoreUrl, String>),
    /// A store across a network, out of the whole URL; without a check, this build has none.
    Remote(fn(RemoteUrl) -> StoreUrl, Option<Check>),
}

static MEMORY: StoreKind = StoreKind {
    name: "memory",
    technology: "MEMORY",
    log_name: "store",
    schemes: &["memory"],
    other_schemes: &[],
    example: "memory:",
    feature: None,
    shared_by: SharedBy::Process,
    clock: StoreClock::Process,
    url: UrlReader::Local(store::read_memory),
    open: open::memory,
};

static FILE: StoreKind = StoreKind {
    name: "file",
    technology: "FILE",
    log_name: "store",
    schemes: &["file"],
    other_schemes: &[],
    example: "file:PATH",
    feature: None,
    shared_by: SharedBy::Machine,
    clock: StoreClock::Process,
    url: UrlReader::Local(store::read_file),
    open: open::file,
};

static REDIS: StoreKind = StoreKind {
    name: "Redis",
    technology: "REDIS",
    log_name: "Redis",
    schemes: &["redis", "rediss", "redis+cluster", "redis+sentinel"],
    other_schemes: &["rediss+cluster", "rediss+sentinel"],
    example: "redis://HOST",
    feature: Some("redis"),
    shared_by: SharedBy::Network,
    clock: StoreClock::Server,
    url: UrlReader::Remote(StoreUrl::Redis, CHECK_REDIS),
    open: open::redis,
};

static POSTGRES: StoreKind = StoreKind {
    name: "Postgres",
    technology: "POSTGRES",
    log_name: "store",
    schemes: &["postgres"],
    other_schemes: &["postgresql"],
    example: "postgres://HOST/DATABASE",
    feature: Some("postgres"),
    shared_by: SharedBy::Network,
    clock: StoreClock::Server,
    url: UrlReader::Remote(StoreUrl::Postgres, CHECK_POSTGRES),
    open: open::postgres,
};

static DYNAMODB: StoreKind = StoreKind {
    name: "DynamoDB",
    technology: "DYNAMODB",
    log_name: "store",
    schemes: &["dynamodb"],
    other_schemes: &[],
    example: "dynamodb://TABLE",
    feature: Some("dynamodb"),
    shared_by: SharedBy::Network,
    // Each process refuses to go on if its clock is far from the service's.
    clock: StoreClock::Process,
    url: UrlReader::Remote(StoreUrl::DynamoDb, CHECK_DYNAMODB),
    open: open::dynamodb,
};

/// Every kind of store, in the order in which messages name them.
pub static STORE_KINDS: [&StoreKind; 5] = [&MEMORY, &FILE, &REDIS, &POSTGRES, &DYNAMODB];

#[cfg(feature = "redis")]
const CHECK_REDIS: Option<Check> =
    Some(|url| tollway_redis::Address::parse(url).map(drop).map_err(|error| error.message));
#[cfg(not(feature = "redis"))]
const CHECK_REDIS: Option<Check> = None;

#[cfg(feature = "postgres")]
const CHECK_POSTGRES: Option<Check> =
    Some(|url| url.parse::<tollway_postgres::PostgresOptions>().map(drop).map_err(|error| error.to_string()));
#[cfg(not(feature = "postgres"))]
const CHECK_POSTGRES: Option<Check> = None;

#[cfg(feature = "dynamodb")]
const CHECK_DYNAMODB: Option<Check> =
    Some(|url| url.parse::<tollway_dynamodb::DynamoOptions>().map(drop).map_err(|error| error.to_string()));
#[cfg(not(feature = "dynamodb"))]
const CHECK_DYNAMODB: Option<Check> = None;

impl StoreKind {
    /// The kind of store that URLs with this scheme name.
    pub fn of_scheme(scheme: &str) -> Option<&'static Self> {
        let has = |kind: &&&Self| kind.schemes.iter().chain(kind.other_schemes).any(|known| *known == scheme);
        STORE_KINDS.iter().find(has).copied()
    }

    /// What to do about a scheme that is none of them.
    pub(super) fn advice(scheme: &str) -> String {
        let known: Vec<&str> = STORE_KINDS.iter().flat_map(|kind| kind.schemes).copied().collect();
        suggest::advice(scheme, &known)
    }

    /// An example of each kind, as in `memory:, file:PATH or redis://HOST`.
    pub(super) fn examples() -> String {
        let examples = STORE_KINDS.map(|kind| kind.example);
        match examples.split_last() {
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// Reads a URL of this kind; `rest` is the part after its scheme.
    pub(super) fn read(&self, url: &str, rest: &str) -> Result<StoreUrl, String> {
        match self.url {
            UrlReader::Local(read) => read(rest),
            UrlReader::Remote(make, Some(check)) => check(url).map(|()| make(RemoteUrl::checked(url))),
            UrlReader::Remote(_, None) => {
                let feature = self.feature.unwrap_or_default();
                Err(format!("this build has no {} store; build it with `--features {feature}`", self.name))
            }
        }
    }
}

impl StoreUrl {
    /// Opens the store. A store across a network connects when it is first used.
    pub(crate) fn open(&self) -> Result<OpenedStore, BuildError> {
        (self.kind().open)(self)
    }
}

impl PartialEq for StoreKind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl StoreUrl {
    /// Which kind of store it is.
    pub fn kind(&self) -> &'static StoreKind {
        match self {
            Self::Memory { .. } => &MEMORY,
            Self::File(_) => &FILE,
            Self::Redis(_) => &REDIS,
            Self::Postgres(_) => &POSTGRES,
            Self::DynamoDb(_) => &DYNAMODB,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_belongs_to_one_kind() {
        for kind in STORE_KINDS {
            for scheme in kind.schemes.iter().chain(kind.other_schemes) {
                let found = STORE_KINDS.iter().filter(|kind| kind.schemes.contains(scheme)).count();
                assert!(found <= 1, "{scheme}");
                assert_eq!(StoreKind::of_scheme(scheme), Some(kind));
            }
            if let Ok(url) = kind.example.parse::<StoreUrl>() {
                assert_eq!(url.kind(), kind);
            }
        }
        assert_eq!(StoreKind::of_scheme("rediz"), None);
    }
}
