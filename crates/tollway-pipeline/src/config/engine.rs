//! Where a pipeline keeps its jobs, as a URL.

use std::fmt;
use std::path::{Path, PathBuf};

use tollway::StoreUrl;
use tollway::config::RemoteUrl;
use tollway_config::Section;

/// The error for an unknown URL. It does not repeat the URL, which may hold a password.
const KINDS: &str = "jobs are kept in sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE";

/// Where a pipeline keeps its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineUrl {
    /// `sqlite:PATH`: a file of one machine. A relative path in a config file starts at the file's folder.
    Sqlite(PathBuf),
    /// `postgres://...`: for many machines.
    Postgres(RemoteUrl),
}

impl EngineUrl {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", path))
                if !path.is_empty() && !path.starts_with("//") && !path.starts_with(':') =>
            {
                Ok(Self::Sqlite(path.into()))
            }
            Some(("postgres" | "postgresql", _)) => match text.parse() {
                Ok(StoreUrl::Postgres(url)) => Ok(Self::Postgres(url)),
                Ok(_) => Err(KINDS.to_owned()),
                Err(error) => Err(error.to_string()),
            },
            Some(("sqs", _)) => {
                Err("this version has no engine for SQS; jobs are kept in sqlite:PATH".to_owned())
            }
            _ => Err(KINDS.to_owned()),
        }
    }

    pub(super) fn in_folder(&mut self, folder: &Path) {
        if let Self::Sqlite(path) = self {
            *path = folder.join(&*path);
        }
    }
}

impl fmt::Display for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => write!(f, "{url}"),
        }
    }
}

pub(super) fn read(section: &mut Section<'_>) -> Option<EngineUrl> {
    let text = section.string("engine", "sqlite:jobs.db")?;
    let wrong = |message: String| section.report().problem(text.span(), message, "");
    EngineUrl::parse(text.get_ref()).map_err(wrong).ok()
}
