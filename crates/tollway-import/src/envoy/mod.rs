//! A file of Envoy's rate limit service, as it is written.

use serde::Deserialize;

/// One domain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Domain {
    pub(super) domain: String,
    #[serde(default)]
    pub(super) descriptors: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Descriptor {
    pub(super) key: String,
    #[serde(default)]
    pub(super) value: String,
    pub(super) rate_limit: Option<RateLimit>,
    #[serde(default)]
    pub(super) descriptors: Vec<Descriptor>,
    #[serde(default)]
    pub(super) shadow_mode: bool,
    #[serde(default)]
    pub(super) share_threshold: bool,
    #[serde(default)]
    pub(super) quota_mode: bool,
    #[serde(default)]
    pub(super) detailed_metric: bool,
    #[serde(default)]
    pub(super) value_to_metric: bool,
    /// Whatever it is: it has no counterpart.
    pub(super) metadata: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateLimit {
    #[serde(default)]
    pub(super) unit: String,
    #[serde(default)]
    pub(super) requests_per_unit: u32,
    #[serde(default)]
    pub(super) unlimited: bool,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) replaces: Vec<Replaced>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replaced {
    pub(super) name: String,
}

/// Reads it; what is wrong is told with its line.
pub(super) fn read(text: &str) -> Result<Domain, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}
