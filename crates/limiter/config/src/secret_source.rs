//! Where a secret is kept. The config does not contain it, because configs are copied and shown more often than a secret
//! should be.

use std::env::VarError;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;

use crate::section::Section;

/// Where a token or a password is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SecretSource {
    /// `env:NAME`: in this environment variable.
    Variable(String),
    /// `file:PATH`: in this file, which holds nothing else. A relative path in a config file starts at the file's folder.
    File(PathBuf),
}

impl SecretSource {
    /// Reads the value of a key, such as `password`.
    pub fn of_key(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<Self> {
        let text = section.string(key, example)?;
        let wrong = |message: &str| section.report().problem(text.span(), message, "");
        text.get_ref().parse().map_err(wrong).ok()
    }

    /// The secret, without the line end of its file; an error does not name the source. One byte more than the bound is
    /// read of a longer file, so that the caller can tell.
    pub fn read(&self, bytes_max: usize) -> Result<String, String> {
        let mut secret = String::new();
        match self {
            Self::Variable(name) => {
                secret = std::env::var(name).map_err(unreadable)?;
            }
            Self::File(path) => {
                // The line end may be two bytes.
                let bound = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(3);
                let read = |file: File| file.take(bound).read_to_string(&mut secret);
                File::open(path).and_then(read).map_err(|error| error.to_string())?;
            }
        }
        let line = secret.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        Ok(line.unwrap_or(&secret).to_owned())
    }

    /// The path of its file, to let it start at the config's folder.
    pub fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Variable(_) => None,
            Self::File(path) => Some(path),
        }
    }
}

/// The message of the standard library shows a value that is not UTF-8.
fn unreadable(error: VarError) -> String {
    match error {
        VarError::NotPresent => error.to_string(),
        VarError::NotUnicode(_) => "environment variable is not UTF-8".to_owned(),
    }
}

impl FromStr for SecretSource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Self::Variable(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            // The message does not repeat the text, which may be the secret.
            _ => Err("this does not say where the secret is; write env:NAME or file:PATH"),
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_without_its_line_end_and_within_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let read = |content: &str| {
            std::fs::write(&path, content).unwrap();
            SecretSource::File(path.clone()).read(8)
        };
        assert_eq!(read(" a b \r\n"), Ok(" a b ".to_owned()));
        assert_eq!(read("12345678\n"), Ok("12345678".to_owned()));
        assert!(8 < read(&"x".repeat(1_000)).unwrap().len());
        std::fs::remove_file(&path).unwrap();
        assert!(SecretSource::File(path).read(8).is_err());
        assert!("env:TOLLWAY_NO_SUCH".parse::<SecretSource>().unwrap().read(8).is_err());
    }

    #[test]
    fn an_error_does_not_repeat_what_may_be_the_secret() {
        assert!(!unreadable(VarError::NotUnicode("hunter2".into())).contains("hunter2"));
        for text in ["hunter2", "env:", "file:", "pass:hunter2"] {
            assert!(!text.parse::<SecretSource>().unwrap_err().contains("hunter2"));
        }
    }
}
