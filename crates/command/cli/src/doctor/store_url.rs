//! Store URLs with and without credentials.

use std::path::{Path, PathBuf};

use tollway::StoreUrl;
use tollway::config::StoreKind;
use tollway::core::StoreUrlParts;

/// The full URL of the store, with password and options. Never printed.
pub(super) struct FullStoreUrl(Option<String>);

impl FullStoreUrl {
    pub(super) fn of(store: Option<&StoreUrl>) -> Self {
        // Without its password, a store is found unreachable, and the error says why.
        Self(store.map(|store| store.connection_url().unwrap_or_else(|_| store.expose())))
    }

    /// The URL, if it is for Redis.
    pub(super) fn redis(&self) -> Option<&str> {
        let kind = |url: &str| StoreKind::of_scheme(url.split(':').next()?);
        self.0.as_deref().filter(|url| kind(url).is_some_and(|kind| kind.technology == "REDIS"))
    }

    /// The URL without credentials: equal for all processes that share the store.
    pub(super) fn without_credentials(&self) -> Option<String> {
        self.0.as_deref().map(without_credentials)
    }

    /// Whether the store uses the consumers layout.
    pub(super) fn has_consumers_layout(&self) -> bool {
        let parts = self.redis().and_then(StoreUrlParts::read);
        parts.is_some_and(|parts| parts.parameters().any(|parameter| parameter == ("layout", "consumers")))
    }
}

/// A URL without its user and password.
pub(super) fn without_credentials(url: &str) -> String {
    let Some(parts) = StoreUrlParts::read(url) else { return url.to_owned() };
    let StoreUrlParts { scheme, place, query, .. } = parts;
    if query.is_empty() { format!("{scheme}://{place}") } else { format!("{scheme}://{place}?{query}") }
}

/// The canonical path, to compare two names of one file. The file itself need not exist.
pub(super) fn canonical(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let in_folder = || Some(whole.parent()?.canonicalize().ok()?.join(whole.file_name()?));
    whole.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| whole.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_removed_from_urls() {
        assert_eq!(
            without_credentials("redis://me:p@ss@h:1/0?layout=consumers"),
            "redis://h:1/0?layout=consumers"
        );
        assert_eq!(without_credentials("postgres://me:x@h/db"), "postgres://h/db");
        assert_eq!(without_credentials("redis://h?prefix=a@b"), "redis://h?prefix=a@b");
        assert_eq!(without_credentials("dynamodb://table"), "dynamodb://table");
        assert_eq!(
            without_credentials("dynamodb://key:se/cret@table?create=yes"),
            "dynamodb://table?create=yes"
        );
        assert_eq!(without_credentials("sqlite:records.db"), "sqlite:records.db");
    }

    #[test]
    fn layout_is_read_from_the_options() {
        let layout = |url: &str| FullStoreUrl(Some(url.to_owned())).has_consumers_layout();
        assert!(layout("redis://h?layout=consumers") && layout("redis://h/0?deadline=1s&layout=consumers"));
        assert!(!layout("redis://h") && !layout("redis://h?prefix=layout=consumers:"));
    }
}
