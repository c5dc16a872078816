//! Where a store is, as somebody wrote it: with its password and all that stands behind the `?`.
//!
//! What is read of a config never gives its password away, so it is read once more here.

use std::path::{Path, PathBuf};

use crate::context::Context;

/// The URL of the store as it was written, if there is one.
pub(super) struct Written(Option<String>);

impl Written {
    /// The one that the command line names, else the config's.
    pub(super) fn find(context: &Context, config: &Path) -> Self {
        match context.named_store() {
            Some(_) => Self(on_command_line(std::env::args())),
            None => Self::in_config(config),
        }
    }

    /// The one of a config that is known to be right.
    pub(super) fn in_config(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let config: toml::Table = toml::from_str(&text).unwrap_or_default();
        let url = config.get("store").and_then(|store| store.get("url")).and_then(|url| url.as_str());
        Self(url.map(str::to_owned))
    }

    /// If it is one of Redis.
    pub(super) fn redis(&self) -> Option<&str> {
        self.0.as_deref().filter(|url| url.starts_with("redis"))
    }

    /// Without who opens it: the same for all who share the store.
    pub(super) fn place(&self) -> Option<String> {
        self.0.as_deref().map(place)
    }

    /// Whether it counts in the keys of consumers.
    pub(super) fn has_consumers_layout(&self) -> bool {
        self.redis().is_some_and(|url| url.split(['?', '&']).any(|part| part == "layout=consumers"))
    }
}

/// A URL without its user and password.
pub(super) fn place(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, behind) = match rest.find(['/', '?']) {
        Some(end) => rest.split_at(end),
        None => (rest, ""),
    };
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{behind}")
}

/// A path by which two names of one file are the same. The file may not be there yet; its folder mostly is.
pub(super) fn real(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let in_folder = || Some(whole.parent()?.canonicalize().ok()?.join(whole.file_name()?));
    whole.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| whole.clone())
}

/// `--store URL` or `--store=URL`: the command line was understood, so it is one of them.
fn on_command_line(words: impl Iterator<Item = String>) -> Option<String> {
    let mut words = words.skip_while(|word| word != "--store" && !word.starts_with("--store="));
    let word = words.next()?;
    match word.strip_prefix("--store=") {
        Some(url) => Some(url.to_owned()),
        None => words.next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_it_in_two_ways() {
        let find = |words: &[&str]| on_command_line(words.iter().map(|word| (*word).to_owned()));
        assert_eq!(find(&["tollway", "--store", "redis://h", "doctor"]).as_deref(), Some("redis://h"));
        assert_eq!(find(&["tollway", "doctor", "--store=redis://h?a=b"]).as_deref(), Some("redis://h?a=b"));
        assert_eq!(find(&["tollway", "doctor"]), None);
    }

    #[test]
    fn who_opens_a_store_is_no_part_of_its_place() {
        assert_eq!(place("redis://me:p@ss@h:1/0?layout=consumers"), "redis://h:1/0?layout=consumers");
        assert_eq!(place("postgres://me:x@h/db"), "postgres://h/db");
        assert_eq!(place("redis://h?prefix=a@b"), "redis://h?prefix=a@b");
        assert_eq!(place("dynamodb://table"), "dynamodb://table");
    }

    #[test]
    fn the_layout_is_one_of_the_options() {
        let layout = |url: &str| Written(Some(url.to_owned())).has_consumers_layout();
        assert!(layout("redis://h?layout=consumers") && layout("redis://h/0?deadline=1s&layout=consumers"));
        assert!(!layout("redis://h") && !layout("redis://h?prefix=layout=consumers:"));
    }
}
