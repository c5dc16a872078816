//! Where tokens and certificates are kept. The config never contains a secret.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tollway_config::Section;

/// Where a token is kept. The config does not contain it, because configs are copied and shown more often than a secret
/// should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// `env:NAME`: in this environment variable.
    Variable(String),
    /// `file:PATH`: in this file, which holds nothing else.
    File(PathBuf),
}

impl Token {
    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Variable(_) => None,
            Self::File(path) => Some(path),
        }
    }
}

impl FromStr for Token {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Self::Variable(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            // The message does not repeat the text, which may be the secret.
            _ => Err("this does not say where the token is; write env:NAME or file:PATH"),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// The files of a certificate, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The tokens for reading, for writing and for the Redis protocol, and the secret of permits.
pub(super) fn read_tokens(mut section: Section<'_>) -> [Option<Token>; 4] {
    let mut read = |key: &'static str| {
        let text = section.string(key, "env:TOLLWAY_TOKEN")?;
        let wrong = |message: &str| section.report().problem(text.span(), message, "");
        text.get_ref().parse().map_err(wrong).ok()
    };
    let tokens = ["read", "write", "resp", "permits"].map(&mut read);
    section.finish();
    tokens
}

pub(super) fn read_tls(mut section: Section<'_>) -> Option<TlsFiles> {
    let mut path = |key: &'static str, example: &'static str| {
        section.required(key, example)?;
        section.string(key, example).map(|path| PathBuf::from(*path.get_ref()))
    };
    let files = path("certificate", "\"server.pem\"").zip(path("key", "\"server.key\""));
    section.finish();
    files.map(|(certificate, key)| TlsFiles { certificate, key })
}
