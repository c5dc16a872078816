//! The URL of a store across a network.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tollway_config::SecretSource;
use tollway_core::StoreUrlParts;

/// The longest password, in bytes: tokens of clouds, which are used as passwords, have a few thousand.
const PASSWORD_BYTES_MAX: usize = 16_384;

/// The URL of a store across a network, known to be right. It may hold a password, which is never shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RemoteUrl {
    written: String,
    /// Where the password is, if not in the URL.
    password: Option<SecretSource>,
}

impl RemoteUrl {
    /// A URL that was found right by the kind of store that it names.
    pub(super) fn checked(url: &str) -> Self {
        Self { written: url.to_owned(), password: None }
    }

    /// The same with a password that is kept elsewhere.
    pub fn with_password(self, source: SecretSource) -> Result<Self, String> {
        let written = StoreUrlParts::read(&self.written).and_then(|parts| parts.user_and_password());
        match written {
            Some((_, password)) if !password.is_empty() => {
                Err("the URL has a password already: remove it there".to_owned())
            }
            _ => Ok(Self { password: Some(source), ..self }),
        }
    }

    /// The same with one more parameter, which the caller checks.
    pub(super) fn with_parameter(mut self, name: &str, value: &str) -> Self {
        let before = if self.written.contains('?') { '&' } else { '?' };
        self.written.push_str(&format!("{before}{name}={value}"));
        self
    }

    /// The path of the password's file, to let it start at the config's folder.
    pub fn password_path_mut(&mut self) -> Option<&mut PathBuf> {
        self.password.as_mut().and_then(SecretSource::path_mut)
    }

    /// The complete URL, for connecting, with the password that is kept elsewhere.
    pub fn connection_url(&self) -> Result<String, String> {
        let Some(source) = &self.password else { return Ok(self.written.clone()) };
        let wrong = |why: &str| format!("the password {source} cannot be used: {why}");
        let password = source.read(PASSWORD_BYTES_MAX).map_err(|why| wrong(&why))?;
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            return Err(wrong(&format!("it has {} bytes, not 1 to {PASSWORD_BYTES_MAX}", password.len())));
        }
        let password = utf8_percent_encode(&password, NON_ALPHANUMERIC);
        let parts = StoreUrlParts::read(&self.written).ok_or_else(|| wrong("the URL has no host"))?;
        let StoreUrlParts { scheme, place, query, .. } = parts;
        let user = parts.user_and_password().map_or("", |(user, _)| user);
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        Ok(format!("{scheme}://{user}:{password}@{place}{query}"))
    }

    /// The URL as it is written, with its password. One that is kept elsewhere is only in [`connection_url`](Self::connection_url).
    pub fn expose(&self) -> &str {
        &self.written
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parts) = StoreUrlParts::read(&self.written) else { return f.write_str("...") };
        // Parameters may hold secrets too, so they are left out.
        let StoreUrlParts { scheme, place, .. } = parts;
        match parts.user_and_password() {
            None => write!(f, "{scheme}://{place}"),
            Some((user, _)) => {
                let hidden = if user.is_empty() { "..." } else { user };
                write!(f, "{scheme}://{hidden}:...@{place}")
            }
        }
    }
}

impl fmt::Debug for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://:se@cret@host/0?x=secret", "redis://...:...@host/0"),
            ("postgres://me:secret@host/db", "postgres://me:...@host/db"),
        ] {
            let url = RemoteUrl::checked(url);
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("cret"));
        }
    }

    /// A password in a file is whatever its server says, also characters that a URL would need encoded.
    #[test]
    fn a_password_that_is_kept_elsewhere_is_in_the_connection_url_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "s:e@c/r?et \n").unwrap();
        let source = SecretSource::File(path.clone());
        for (url, connects) in [
            ("redis://host/0?x=a@b", "redis://:s%3Ae%40c%2Fr%3Fet%20@host/0?x=a@b"),
            ("postgres://me@a,b/db", "postgres://me:s%3Ae%40c%2Fr%3Fet%20@a,b/db"),
            ("redis://me:@host", "redis://me:s%3Ae%40c%2Fr%3Fet%20@host"),
        ] {
            let url = RemoteUrl::checked(url).with_password(source.clone()).unwrap();
            assert_eq!(url.connection_url().unwrap(), connects);
            assert!(!format!("{url} {url:?} {}", url.expose()).contains("e@c"));
        }
        let error = RemoteUrl::checked("redis://me:old@host").with_password(source.clone()).unwrap_err();
        assert_eq!(error, "the URL has a password already: remove it there");
        std::fs::write(&path, "\n").unwrap();
        let empty = RemoteUrl::checked("redis://host").with_password(source).unwrap();
        assert!(empty.connection_url().unwrap_err().ends_with("has 0 bytes, not 1 to 16384"));
    }
}
