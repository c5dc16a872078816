//! `[store]`: the URL of the store.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use tollway_config::{SecretSource, Section, suggest};

use super::remote::RemoteUrl;
use super::store_kind::StoreKind;

/// The most accounts that `memory:?lines=N` accepts.
pub const MEMORY_LINES_MAX: usize = 1_000_000_000;

/// The key of `[store]`, and the parameter of a URL, that says what becomes of takes over several slots.
const ACROSS_SLOTS: &str = "across_slots";

/// Its values.
const WHEN_ACROSS_SLOTS: [(&str, &str); 2] = [("refuse", "refuse"), ("undo", "undo")];

/// The URL of a store.
///
/// ```
/// use tollway::StoreUrl;
///
/// assert_eq!("memory:".parse(), Ok(StoreUrl::Memory { lines: None }));
/// assert_eq!("memory:?lines=5000".parse(), Ok(StoreUrl::Memory { lines: Some(5_000) }));
/// assert_eq!("file:tollway.state".parse(), Ok(StoreUrl::File("tollway.state".into())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreUrl {
    /// `memory:`: in this process.
    Memory {
        /// The most accounts it holds, if the URL says so.
        lines: Option<usize>,
    },
    /// `file:PATH`: a file that the processes of one machine share. In a config file, a relative path is meant from the
    /// file's folder.
    File(PathBuf),
    /// `redis://...`, `rediss://...`, and with `+cluster` and `+sentinel`: Redis or Valkey, shared by every machine.
    Redis(RemoteUrl),
    /// `postgres://...`: shared by every machine.
    Postgres(RemoteUrl),
    /// `dynamodb://TABLE`: a table of AWS, shared by every machine.
    DynamoDb(RemoteUrl),
}

impl StoreUrl {
    /// The URL as it is written. It may hold a password; [`Display`](fmt::Display) does not show it.
    pub fn expose(&self) -> String {
        self.remote().map_or_else(|| self.to_string(), |url| url.expose().to_owned())
    }

    /// The complete URL, for connecting, with a password that is kept elsewhere. Reads it now.
    pub fn connection_url(&self) -> Result<String, String> {
        self.remote().map_or_else(|| Ok(self.to_string()), RemoteUrl::connection_url)
    }

    /// The same with a password that is kept elsewhere.
    fn with_password(self, source: SecretSource) -> Result<Self, String> {
        match self {
            Self::Redis(url) => url.with_password(source).map(Self::Redis),
            Self::Postgres(url) => url.with_password(source).map(Self::Postgres),
            Self::Memory { .. } | Self::File(_) | Self::DynamoDb(_) => {
                Err("only Redis and Postgres have a password: remove it".to_owned())
            }
        }
    }

    /// The same, doing this with takes whose accounts are in different slots of a Cluster.
    fn with_across_slots(self, value: &str) -> Result<Self, String> {
        match self {
            Self::Redis(url) => {
                let url = url.with_parameter(ACROSS_SLOTS, value);
                url.expose().parse::<Self>().map_err(|error| error.to_string())?;
                Ok(Self::Redis(url))
            }
            Self::Memory { .. } | Self::File(_) | Self::Postgres(_) | Self::DynamoDb(_) => {
                Err("only a Redis Cluster has slots: remove it".to_owned())
            }
        }
    }

    /// Whether it is a Redis Cluster that refuses takes whose accounts are in different slots.
    #[cfg(feature = "redis")]
    pub fn refuses_across_slots(&self) -> bool {
        self.redis().is_some_and(|address| address.refuses_across_slots())
    }

    /// There is none in this build.
    #[cfg(not(feature = "redis"))]
    pub fn refuses_across_slots(&self) -> bool {
        false
    }

    /// Whether it is a Redis Cluster that makes such takes part by part, and undoes them if one part denies.
    #[cfg(feature = "redis")]
    pub fn undoes_across_slots(&self) -> bool {
        self.redis().is_some_and(|address| address.undoes_across_slots())
    }

    /// There is none in this build.
    #[cfg(not(feature = "redis"))]
    pub fn undoes_across_slots(&self) -> bool {
        false
    }

    /// What the URL of a Redis says.
    #[cfg(feature = "redis")]
    fn redis(&self) -> Option<tollway_redis::Address> {
        match self {
            Self::Redis(url) => tollway_redis::Address::parse(url.expose()).ok(),
            _ => None,
        }
    }

    /// The paths in it, to let them start at the config's folder.
    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::File(path) => Some(path),
            Self::Redis(url) | Self::Postgres(url) => url.password_path_mut(),
            Self::Memory { .. } | Self::DynamoDb(_) => None,
        }
    }

    /// Its URL if it is across a network.
    fn remote(&self) -> Option<&RemoteUrl> {
        match self {
            Self::Redis(url) | Self::Postgres(url) | Self::DynamoDb(url) => Some(url),
            Self::Memory { .. } | Self::File(_) => None,
        }
    }

    /// The options of a DynamoDB URL.
    #[cfg(feature = "dynamodb")]
    pub fn dynamodb(&self) -> Option<tollway_dynamodb::DynamoOptions> {
        match self {
            Self::DynamoDb(url) => url.expose().parse().ok(),
            _ => None,
        }
    }
}

impl Default for StoreUrl {
    fn default() -> Self {
        Self::Memory { lines: None }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { lines: None } => f.write_str("memory:"),
            Self::Memory { lines: Some(lines) } => write!(f, "memory:?lines={lines}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Redis(url) | Self::Postgres(url) | Self::DynamoDb(url) => write!(f, "{url}"),
        }
    }
}

/// A text that is not a store of this version, and the part where it goes wrong.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreUrlError {
    message: String,
    part: Range<usize>,
}

tollway_core::debug_as_display!(StoreUrlError);

impl StoreUrlError {
    /// The byte range of the wrong part.
    pub fn range(&self) -> Range<usize> {
        self.part.clone()
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(url: &str) -> Result<Self, StoreUrlError> {
        // Never the whole URL in a message: behind the scheme it may hold a password.
        let Some((scheme, rest)) = url.split_once(':') else {
            let message = format!("a store is a URL: {}", StoreKind::examples());
            return Err(StoreUrlError { message, part: 0..url.len() });
        };
        let Some(kind) = StoreKind::of_scheme(scheme) else {
            let message = format!("{scheme:?} is not a store; {}", StoreKind::advice(scheme));
            return Err(StoreUrlError { message, part: 0..scheme.len() });
        };
        let part = scheme.len().saturating_add(1)..url.len();
        kind.read(url, rest).map_err(|message| StoreUrlError { message, part })
    }
}

/// Reads the part after `file:`.
pub(super) fn read_file(path: &str) -> Result<StoreUrl, String> {
    match path {
        "" => Err("the path is missing; write it like file:tollway.state".to_owned()),
        path => Ok(StoreUrl::File(path.into())),
    }
}

/// Reads the part after `memory:`.
pub(super) fn read_memory(rest: &str) -> Result<StoreUrl, String> {
    if rest.is_empty() {
        return Ok(StoreUrl::default());
    }
    let Some((key, value)) = rest.strip_prefix('?').and_then(|query| query.split_once('=')) else {
        return Err(format!("{rest:?} has no meaning here; write memory: or memory:?lines=1000000"));
    };
    if key != "lines" {
        return Err(format!("{key:?} is not a setting of memory:; {}", suggest::advice(key, &["lines"])));
    }
    match value.replace('_', "").parse() {
        Ok(lines @ 1..=MEMORY_LINES_MAX) => Ok(StoreUrl::Memory { lines: Some(lines) }),
        _ => Err(format!("{value:?} is not a number of lines; write one from 1 to {MEMORY_LINES_MAX}")),
    }
}

/// The store, unless something is wrong with it; that is in the report then.
pub(super) fn read(mut section: Section<'_>) -> Option<StoreUrl> {
    let password = SecretSource::of_key(&mut section, "password", "env:REDIS_PASSWORD");
    let across_slots = section.choice(ACROSS_SLOTS, &WHEN_ACROSS_SLOTS);
    if section.has("password") || section.has(ACROSS_SLOTS) {
        section.required("url", "\"redis://USER@HOST\"");
    }
    let url = section.string("url", "memory:");
    let report = section.report();
    let wrong = |error: StoreUrlError| {
        url.iter().for_each(|url| report.problem_in(url, error.range(), error.to_string(), ""));
    };
    let store = url.as_ref().and_then(|url| url.get_ref().parse().map_err(wrong).ok());
    let store = match (store, password) {
        (Some(store), Some(password)) => {
            let with_password = StoreUrl::with_password(store, password);
            with_password.map_err(|message| section.problem("password", message, "")).ok()
        }
        (store, _) => store,
    };
    let store = match (store, across_slots) {
        (Some(store), Some(value)) => {
            let with_value = StoreUrl::with_across_slots(store, value);
            with_value.map_err(|message| section.problem(ACROSS_SLOTS, message, "")).ok()
        }
        (store, _) => store,
    };
    section.finish();
    store
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_reads_back_as_itself() {
        for url in ["memory:", "memory:?lines=1000000", "file:state/tollway", "file:/var/lib/tollway"] {
            assert_eq!(url.parse::<StoreUrl>().unwrap().to_string(), url);
        }
    }

    #[test]
    fn errors_name_the_wrong_part() {
        for (url, part) in [
            ("rediz://me:secret@host", "rediz"),
            ("memory", "memory"),
            ("", ""),
            ("memory:5", "5"),
            ("memory:?line=5", "?line=5"),
            ("memory:?lines=0", "?lines=0"),
            ("memory:?lines=99999999999", "?lines=99999999999"),
            ("file:", ""),
        ] {
            let error = url.parse::<StoreUrl>().unwrap_err();
            assert_eq!(&url[error.range()], part, "{error}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
