//! Files of Envoy's rate limit service (envoyproxy/ratelimit): one domain each, in YAML.

mod config;
mod rules;

use serde::Deserialize;
use tollway_server::ConfigWithServer;

use crate::source::{ImportError, Imported, SourceFile};
use rules::Rules;

/// Makes one config of the files of several domains: policies, and the descriptors that lead to them.
pub fn import(files: &[SourceFile<'_>]) -> Result<Imported, ImportError> {
    let mut rules = Rules::default();
    for file in files {
        // In the words of the standard library, where it reads a file as text.
        let text =
            str::from_utf8(file.bounded()?).map_err(|_| file.wrong("stream did not contain valid UTF-8"))?;
        let domain: Domain = serde_saphyr::from_str(text).map_err(|error| file.wrong(error.to_string()))?;
        rules.add(&domain).map_err(|problem| file.wrong(problem))?;
    }
    let names: Vec<&str> = files.iter().map(|file| file.name).collect();
    let config = config::write(&rules, &names);
    ConfigWithServer::parse(&config)?;
    Ok(Imported { config, notes: rules.notes, hides_password: false })
}

/// One file: one domain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Domain {
    domain: String,
    #[serde(default)]
    descriptors: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    key: String,
    #[serde(default)]
    value: String,
    rate_limit: Option<RateLimit>,
    #[serde(default)]
    descriptors: Vec<Descriptor>,
    #[serde(default)]
    shadow_mode: bool,
    #[serde(default)]
    share_threshold: bool,
    #[serde(default)]
    quota_mode: bool,
    #[serde(default)]
    detailed_metric: bool,
    #[serde(default)]
    value_to_metric: bool,
    /// It has no counterpart, whatever it is.
    metadata: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RateLimit {
    #[serde(default)]
    unit: String,
    #[serde(default)]
    requests_per_unit: u32,
    #[serde(default)]
    unlimited: bool,
    #[serde(default)]
    name: String,
    #[serde(default)]
    replaces: Vec<Replaced>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replaced {
    name: String,
}
