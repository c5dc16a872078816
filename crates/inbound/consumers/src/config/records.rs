//! Where the records of consumers are stored, as a URL.

use std::fmt;
use std::path::PathBuf;

use tollway::StoreUrl;
use tollway::config::RemoteUrl;
use tollway_config::{SecretSource, Section};
use tollway_core::Retry;

use crate::records::{RecordsError, RecordsFault};

/// The default file of records.
const FILE_DEFAULT: &str = "tollway.db";

/// The error for an unknown URL. It does not repeat the URL, which may hold a password.
const KINDS: &str = "records are kept in sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE";

/// Where the records of consumers are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordsUrl {
    /// `sqlite:PATH`: a file that the processes of one machine share. A relative path in a config file starts at the file's
    /// folder.
    Sqlite(PathBuf),
    /// `sqlite::memory:`: in this process only, lost when it exits.
    Memory,
    /// `postgres://...`: shared by every machine.
    Postgres(RemoteUrl),
}

impl Default for RecordsUrl {
    fn default() -> Self {
        Self::Sqlite(FILE_DEFAULT.into())
    }
}

impl RecordsUrl {
    /// The URL as it is written. It may hold a password; [`Display`](fmt::Display) does not show it.
    pub fn expose(&self) -> String {
        match self {
            Self::Postgres(url) => url.expose().to_owned(),
            Self::Sqlite(_) | Self::Memory => self.to_string(),
        }
    }

    /// What to connect with: the URL, with a password that is kept elsewhere. Reads it now, and fails if it cannot be read.
    pub fn connection_url(&self) -> Result<String, RecordsError> {
        match self {
            Self::Postgres(url) => url.connection_url().map_err(unreadable),
            Self::Sqlite(_) | Self::Memory => Ok(self.to_string()),
        }
    }

    fn with_password(self, source: SecretSource) -> Result<Self, String> {
        match self {
            Self::Postgres(url) => url.with_password(source).map(Self::Postgres),
            Self::Sqlite(_) | Self::Memory => {
                Err("only records in Postgres have a password: remove it".to_owned())
            }
        }
    }

    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Postgres(url) => url.password_path_mut(),
            Self::Memory => None,
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", ":memory:")) => Ok(Self::Memory),
            Some(("sqlite", path)) if !path.is_empty() && !path.starts_with("//") => {
                Ok(Self::Sqlite(path.into()))
            }
            Some(("postgres" | "postgresql", _)) => match text.parse() {
                Ok(StoreUrl::Postgres(url)) => Ok(Self::Postgres(url)),
                Ok(_) => Err(KINDS.to_owned()),
                Err(error) => Err(error.to_string()),
            },
            _ => Err(KINDS.to_owned()),
        }
    }
}

impl fmt::Display for RecordsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Memory => f.write_str("sqlite::memory:"),
            Self::Postgres(url) => write!(f, "{url}"),
        }
    }
}

fn unreadable(message: String) -> RecordsError {
    RecordsError { fault: RecordsFault::Storage, retry: Retry::Useless, message }
}

pub(super) fn read(section: &mut Section<'_>) -> Option<RecordsUrl> {
    let password = SecretSource::of_key(section, "records_password", "env:POSTGRES_PASSWORD");
    let text = section.string("records", "sqlite:tollway.db")?;
    let wrong = |message: String| section.report().problem(text.span(), message, "");
    let records = RecordsUrl::parse(text.get_ref()).map_err(wrong).ok()?;
    let Some(password) = password else { return Some(records) };
    records.with_password(password).map_err(|message| section.problem("records_password", message, "")).ok()
}
