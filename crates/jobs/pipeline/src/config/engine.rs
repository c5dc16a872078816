//! Where a pipeline keeps its jobs, as a URL.

use std::fmt;
use std::path::{Path, PathBuf};

use tollway::StoreUrl;
use tollway::config::RemoteUrl;
use tollway_config::{SecretSource, Section};

use super::sqs_url::SqsUrl;
use super::stage::StageConfig;
use crate::source::Source;

/// The error for an unknown URL. It does not repeat the URL, which may hold a password.
const KINDS: &str =
    "jobs are kept in sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE or sqs:?ledger=TABLE";

/// Where a pipeline keeps its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineUrl {
    /// `sqlite:PATH`: a file of one machine. A relative path in a config file starts at the file's folder.
    Sqlite(PathBuf),
    /// `postgres://...`: for many machines.
    Postgres(RemoteUrl),
    /// `sqs:?ledger=TABLE`: queues of Amazon SQS, for many machines.
    Sqs(Box<SqsUrl>),
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
            Some(("sqs", rest)) => SqsUrl::parse(rest).map(|url| Self::Sqs(Box::new(url))),
            _ => Err(KINDS.to_owned()),
        }
    }

    /// The same for a pipeline: its stages name their queues, and its source reads messages of other programs.
    #[must_use]
    pub fn for_pipeline(self, stages: &[StageConfig], source: &Source) -> Self {
        match self {
            Self::Sqs(url) => Self::Sqs(Box::new(url.for_pipeline(stages, source))),
            other => other,
        }
    }

    /// What to connect with: the URL, with a password that is kept elsewhere. Reads it now, and fails if it cannot be read.
    pub fn connection_url(&self) -> Result<String, String> {
        match self {
            Self::Postgres(url) => url.connection_url(),
            Self::Sqlite(_) | Self::Sqs(_) => Ok(self.to_string()),
        }
    }

    fn with_password(self, source: SecretSource) -> Result<Self, String> {
        match self {
            Self::Postgres(url) => url.with_password(source).map(Self::Postgres),
            Self::Sqlite(_) | Self::Sqs(_) => {
                Err("only an engine on Postgres has a password: remove it".to_owned())
            }
        }
    }

    pub(super) fn in_folder(&mut self, folder: &Path) {
        let path = match self {
            Self::Sqlite(path) => Some(path),
            Self::Postgres(url) => url.password_path_mut(),
            Self::Sqs(_) => None,
        };
        if let Some(path) = path {
            *path = folder.join(&*path);
        }
    }
}

impl fmt::Display for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => write!(f, "{url}"),
            Self::Sqs(url) => write!(f, "{url}"),
        }
    }
}

pub(super) fn read(section: &mut Section<'_>) -> Option<EngineUrl> {
    let password = SecretSource::of_key(section, "engine_password", "env:POSTGRES_PASSWORD");
    let text = section.string("engine", "sqlite:jobs.db")?;
    let wrong = |message: String| section.report().problem(text.span(), message, "");
    let engine = EngineUrl::parse(text.get_ref()).map_err(wrong).ok()?;
    let Some(password) = password else { return Some(engine) };
    engine.with_password(password).map_err(|message| section.problem("engine_password", message, "")).ok()
}
