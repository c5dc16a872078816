//! Vendors shipped with Tollway: `profiles.toml` has their limits and the pages these were taken from.

use std::path::Path;
use std::sync::LazyLock;

use tollway_config::{FromConfig, Section};

use super::{Api, read_all};

/// Parsed when the first api is read. A test parses it, so it is never empty.
static PROFILES: LazyLock<Vec<Api>> = LazyLock::new(|| {
    let profiles = tollway_config::parse::<Profiles>(TEXT);
    profiles.map(|profiles| profiles.0).unwrap_or_default()
});

const TEXT: &str = include_str!("profiles.toml");

struct Profiles(Vec<Api>);

impl FromConfig for Profiles {
    fn read(root: &mut Section<'_>) -> Self {
        let mut profiles = read_all(root);
        profiles.sort_by(|one, other| one.name().cmp(other.name()));
        Self(profiles)
    }

    fn in_folder(&mut self, _: &Path) {}
}

/// All profiles, sorted by name.
pub(super) fn all() -> &'static [Api] {
    &PROFILES
}

/// The profile of this name.
pub(super) fn find(name: &str) -> Option<&'static Api> {
    all().iter().find(|profile| profile.name().as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_profiles_is_right() {
        let profiles = tollway_config::parse::<Profiles>(TEXT).map_err(|error| error.to_string());
        let names: Vec<String> =
            profiles.unwrap().0.iter().map(|profile| profile.name().to_string()).collect();
        assert_eq!(
            names,
            [
                "adobe-pdf-services",
                "airtable",
                "anthropic",
                "fieldguide",
                "gemini",
                "github",
                "notion",
                "openai",
                "shopify",
                "slack",
                "stripe",
                "vanta"
            ]
        );
    }

    /// Every number has a page it was taken from; without a page there is no number, and calls start at 1 a second.
    #[test]
    fn documented_limits_name_their_page() {
        for profile in all() {
            let name = profile.name();
            assert!(profile.base_url().starts_with("https://"), "{name}");
            assert!(profile.dialect().is_some(), "{name}");
            assert!(profile.rate().is_some(), "{name}");
            let documented = profile.documented().unwrap_or_else(|| panic!("{name} has no text"));
            assert_eq!(profile.documented_at().is_none(), documented == "unknown", "{name}");
            if documented == "unknown" {
                let settings = profile.rate().and_then(|rate| rate.settings());
                assert_eq!(
                    settings.map(|settings| settings.initial().to_string()).as_deref(),
                    Some("1"),
                    "{name}"
                );
                assert_eq!(profile.limits(), [], "{name}");
            }
        }
    }
}
