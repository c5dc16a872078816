//! `[consumers]`: callers of an API with six limits each, from records stored outside the config.
//!
//! `records` parses where they are stored, `who` how a request identifies its consumer.

mod records;
mod who;

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use tollway::Config;
use tollway_config::{ConfigError, ConfigFile, DeValue, FromConfig, Section, type_words};
use tollway_core::bounds::AMOUNT_MAX;
use tollway_core::{Period, Policy, WhenStoreFails};
use tollway_inbound::{ANONYMOUS_POLICY, CONSUMERS_POLICY, check_anonymous_policy};

pub use records::RecordsUrl;
pub use who::{ConsumerTokens, WhoCalls};

/// The default hourly limit of callers without credentials, per address.
pub const ANONYMOUS_PER_HOUR_DEFAULT: u64 = 1_000;

/// The keys of the system's defaults, the shortest period first.
const DEFAULTS: [&str; 6] = ["per_second", "per_minute", "per_hour", "per_day", "per_week", "per_month"];

/// The parsed `[consumers]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumersConfig {
    /// The master switch. Off: no consumer is limited or counted, but records can still be managed.
    pub enabled: bool,
    /// Where the records are stored.
    pub records: RecordsUrl,
    /// How a request identifies its consumer.
    pub who: WhoCalls,
    /// The hourly limit of callers without credentials, per address; `None` is unlimited.
    pub anonymous_per_hour: Option<NonZeroU64>,
    /// The limits of a consumer without a record, the shortest period first; -1 is unlimited.
    pub defaults: [i64; 6],
    /// What happens while the store or the records are unreachable.
    pub when_store_fails: WhenStoreFails,
}

impl Default for ConsumersConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            records: RecordsUrl::default(),
            who: WhoCalls::default(),
            anonymous_per_hour: NonZeroU64::new(ANONYMOUS_PER_HOUR_DEFAULT),
            defaults: [-1; 6],
            // The API stays up when its counters are unreachable.
            when_store_fails: WhenStoreFails::Open,
        }
    }
}

impl ConsumersConfig {
    /// Resolves relative paths against the config file's folder.
    pub fn in_folder(&mut self, folder: &Path) {
        let paths = self.records.path_mut().into_iter().chain(self.who.path_mut());
        paths.for_each(|path| *path = folder.join(&*path));
    }

    /// The policy of callers without credentials, from this section.
    fn anonymous_policy(&self) -> Option<Arc<Policy>> {
        let limit = format!("{} requests / {} from first call", self.anonymous_per_hour?, Period::Hour);
        let policy = Policy::new(ANONYMOUS_POLICY, [limit.as_str()]).ok()?;
        Some(Arc::new(policy.with_when_store_fails(self.when_store_fails)))
    }
}

/// A config file: limits and consumers.
///
/// ```
/// use tollway_consumers::{ANONYMOUS_POLICY, ConfigWithConsumers};
///
/// let config = ConfigWithConsumers::parse("[consumers]\nheader = 'x-consumer-id'")?;
/// assert!(config.consumers().is_some_and(|consumers| consumers.enabled));
/// assert!(config.limits().policy(ANONYMOUS_POLICY).is_some(), "built from [consumers]");
/// # Ok::<(), tollway::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigWithConsumers {
    limits: Config,
    consumers: Option<ConsumersConfig>,
}

impl ConfigWithConsumers {
    /// Reads a config out of its text.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        tollway_config::parse(text)
    }

    /// Reads the config file at `path`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        ConfigFile::load(path).map(ConfigFile::into_config)
    }

    /// Store, policies and apis, including the policy of callers without credentials.
    pub fn limits(&self) -> &Config {
        &self.limits
    }

    /// How consumers are limited, if the config has the section.
    pub fn consumers(&self) -> Option<&ConsumersConfig> {
        self.consumers.as_ref()
    }

    /// Only store, policies and apis.
    pub fn into_limits(self) -> Config {
        self.limits
    }

    /// Both parts.
    pub fn into_parts(self) -> (Config, Option<ConsumersConfig>) {
        (self.limits, self.consumers)
    }
}

impl FromConfig for ConfigWithConsumers {
    fn read(root: &mut Section<'_>) -> Self {
        check_policy_name(root);
        let limits = Config::read(root);
        let Some(consumers) = root.section("consumers").map(read) else {
            return Self { limits, consumers: None };
        };
        check_anonymous_policy(root, &limits);
        let limits = match consumers.anonymous_policy() {
            Some(policy) => limits.with_policy(policy),
            None => limits,
        };
        Self { limits, consumers: Some(consumers) }
    }

    fn in_folder(&mut self, folder: &Path) {
        self.limits.in_folder(folder);
        self.consumers.iter_mut().for_each(|consumers| consumers.in_folder(folder));
    }
}

/// Reports a policy in the file with the reserved name of the consumers' policy.
fn check_policy_name(root: &Section<'_>) {
    let named = root.names("policies").into_iter().find(|name| *name.get_ref() == CONSUMERS_POLICY);
    if let Some(name) = named.filter(|_| root.has("consumers")) {
        let message = "with [consumers], this policy name is reserved: the policy is built from records";
        root.report().problem(name.span(), message, "give this one another name");
    }
}

/// Reads the section; problems go to the report.
fn read(mut section: Section<'_>) -> ConsumersConfig {
    let base = ConsumersConfig::default();
    let enabled = section.bool("enabled").unwrap_or(base.enabled);
    let records = records::read(&mut section).unwrap_or(base.records);
    let who = who::read(&mut section);
    let anonymous_per_hour = match amount(&mut section, "anonymous_per_hour") {
        None => base.anonymous_per_hour,
        Some(amount) => u64::try_from(amount).ok().and_then(NonZeroU64::new),
    };
    let defaults = DEFAULTS.map(|key| amount(&mut section, key).unwrap_or(-1));
    let when_store_fails = section.when_store_fails().unwrap_or(base.when_store_fails);
    section.finish();
    ConsumersConfig { enabled, records, who, anonymous_per_hour, defaults, when_store_fails }
}

/// A number of calls; -1, or 0 as in records, is unlimited.
fn amount(section: &mut Section<'_>, key: &'static str) -> Option<i64> {
    let value = section.value(key)?;
    let number = match value.get_ref() {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
        other => {
            let message = format!("`{key}` must be a whole number, not {}", type_words(other));
            section.problem(key, message, &format!("write it like `{key} = 100`, or -1 for no limit"));
            return None;
        }
    };
    let most = i64::try_from(AMOUNT_MAX).unwrap_or(i64::MAX);
    let amount = number.filter(|number| (-1..=most).contains(number));
    if amount.is_none() {
        let message = format!("`{key}` must be a number of calls up to {most}, or -1 for no limit");
        section.problem(key, message, "");
    }
    amount
}
