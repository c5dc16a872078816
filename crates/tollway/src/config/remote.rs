//! The URL of a store across a network.

use std::fmt;

use tollway_core::StoreUrlParts;

/// The URL of a store across a network, known to be right. It may hold a password, which is never shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RemoteUrl(String);

impl RemoteUrl {
    /// A URL that was found right by the kind of store that it names.
    pub(super) fn checked(url: &str) -> Self {
        Self(url.to_owned())
    }

    /// The complete URL with its password, for connecting.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parts) = StoreUrlParts::read(&self.0) else { return f.write_str("...") };
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
            let url = RemoteUrl(url.to_owned());
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("cret"));
        }
    }
}
