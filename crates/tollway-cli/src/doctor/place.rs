//! Where a store is, without its user and password.

use std::path::{Path, PathBuf};

use tollway::StoreUrl;
use tollway::config::StoreKind;
use tollway::core::StoreUrlParts;

/// The whole URL of the store, if there is one: with its password and all that stands behind the `?`. Never shown.
pub(super) struct Written(Option<String>);

impl Written {
    pub(super) fn of(store: Option<&StoreUrl>) -> Self {
        Self(store.map(StoreUrl::expose))
    }

    /// If it is one of Redis.
    pub(super) fn redis(&self) -> Option<&str> {
        let kind = |url: &str| StoreKind::of_scheme(url.split(':').next()?);
        self.0.as_deref().filter(|url| kind(url).is_some_and(|kind| kind.technology == "REDIS"))
    }

    /// Without who opens it: the same for all who share the store.
    pub(super) fn place(&self) -> Option<String> {
        self.0.as_deref().map(place)
    }

    /// Whether it counts in the keys of consumers.
    pub(super) fn has_consumers_layout(&self) -> bool {
        let parts = self.redis().and_then(StoreUrlParts::read);
        parts.is_some_and(|parts| parts.parameters().any(|parameter| parameter == ("layout", "consumers")))
    }
}

/// A URL without its user and password.
pub(super) fn place(url: &str) -> String {
    let Some(parts) = StoreUrlParts::read(url) else { return url.to_owned() };
    let StoreUrlParts { scheme, place, query, .. } = parts;
    if query.is_empty() { format!("{scheme}://{place}") } else { format!("{scheme}://{place}?{query}") }
}

/// A path by which two names of one file are the same. The file may not be there yet; its folder mostly is.
pub(super) fn real(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let in_folder = || Some(whole.parent()?.canonicalize().ok()?.join(whole.file_name()?));
    whole.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| whole.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_opens_a_store_is_no_part_of_its_place() {
        assert_eq!(place("redis://me:p@ss@h:1/0?layout=consumers"), "redis://h:1/0?layout=consumers");
        assert_eq!(place("postgres://me:x@h/db"), "postgres://h/db");
        assert_eq!(place("redis://h?prefix=a@b"), "redis://h?prefix=a@b");
        assert_eq!(place("dynamodb://table"), "dynamodb://table");
        assert_eq!(place("dynamodb://key:se/cret@table?create=yes"), "dynamodb://table?create=yes");
        assert_eq!(place("sqlite:records.db"), "sqlite:records.db");
    }

    #[test]
    fn the_layout_is_one_of_the_options() {
        let layout = |url: &str| Written(Some(url.to_owned())).has_consumers_layout();
        assert!(layout("redis://h?layout=consumers") && layout("redis://h/0?deadline=1s&layout=consumers"));
        assert!(!layout("redis://h") && !layout("redis://h?prefix=layout=consumers:"));
    }
}
