//! Where the records of consumers are stored, as a URL.

use std::fmt;
use std::path::PathBuf;

use tollway::StoreUrl;
use tollway::config::RemoteUrl;
use tollway_config::Section;

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
    /// The whole URL, to connect with. It may hold a password; [`Display`](fmt::Display) does not show it.
    pub fn expose(&self) -> String {
        match self {
            Self::Postgres(url) => url.expose().to_owned(),
            Self::Sqlite(_) | Self::Memory => self.to_string(),
        }
    }

    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Memory | Self::Postgres(_) => None,
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

pub(super) fn read(section: &mut Section<'_>) -> Option<RecordsUrl> {
    let text = section.string("records", "sqlite:tollway.db")?;
    let wrong = |message: String| section.report().problem(text.span(), message, "");
    RecordsUrl::parse(text.get_ref()).map_err(wrong).ok()
}
