//! Interprets the properties: every one that limits calls in OBP-API, with its default there.

use std::net::Ipv6Addr;

use super::properties::Property;

/// The six periods, the shortest first.
pub(super) const PERIODS: [&str; 6] = ["second", "minute", "hour", "day", "week", "month"];

/// Properties with these prefixes are about limits or Redis. An unknown one is worth a note.
const ABOUT_LIMITS: [&str; 5] =
    ["redis", "cache.redis", "rate_limiting", "use_consumer_limits", "user_consumer_limit"];

/// The parsed settings.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) enabled: bool,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) password: Option<String>,
    pub(super) tls: bool,
    pub(super) truststore: Option<String>,
    pub(super) keystore: Option<String>,
    /// Calls an hour without credentials; no limit if it is 0 or less.
    pub(super) anonymous_per_hour: i64,
    /// The limit of each period, the shortest first.
    pub(super) defaults: [i64; 6],
    /// Notes: advice, and properties without a counterpart.
    pub(super) notes: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: false,
            host: "127.0.0.1".to_owned(),
            port: 6_379,
            password: None,
            tls: false,
            truststore: None,
            keystore: None,
            anonymous_per_hour: 1_000,
            defaults: [-1; 6],
            notes: Vec::new(),
        }
    }
}

impl Settings {
    /// Reads properties in their order; the last of a name counts, as in Java.
    pub(super) fn of(properties: &[Property]) -> Result<Self, String> {
        let mut settings = Self::default();
        let mut known = 0_usize;
        for property in properties {
            let wrong = |problem| format!("line {}: {} {problem}", property.line, property.key);
            if settings.set(property).map_err(wrong)? {
                known = known.saturating_add(1);
            } else if ABOUT_LIMITS.iter().any(|beginning| property.key.starts_with(beginning)) {
                settings.notes.push(left_out(property));
            }
        }
        if known == 0 {
            let note = "nothing in it is about limits or Redis, so that this config has the defaults; is it the right file?";
            settings.notes.push(note.to_owned());
        }
        settings.note_what_follows();
        Ok(settings)
    }

    /// Whether the property is known.
    fn set(&mut self, Property { key, value, .. }: &Property) -> Result<bool, String> {
        let value = value.trim();
        match key.as_str() {
            "use_consumer_limits" => self.enabled = read_switch(value)?,
            "cache.redis.url" => self.host = read_host(value)?,
            "cache.redis.port" => self.port = read_port(value)?,
            "cache.redis.password" => self.password = read_text(value),
            "redis.use.ssl" => self.tls = read_switch(value)?,
            "truststore.path.redis" => self.truststore = read_text(value),
            "keystore.path.redis" => self.keystore = read_text(value),
            // Asked for when the stores are converted; never written down.
            "truststore.password.redis" | "keystore.password.redis" => {}
            "user_consumer_limit_anonymous_access" => self.anonymous_per_hour = read_amount(value)?,
            key => {
                let period = key.strip_prefix("rate_limiting_per_");
                let Some(index) = PERIODS.iter().position(|known| period == Some(known)) else {
                    return Ok(false);
                };
                if let Some(amount) = self.defaults.get_mut(index) {
                    *amount = read_amount(value)?;
                }
            }
        }
        Ok(true)
    }

    fn note_what_follows(&mut self) {
        let mut note = |text: &str| self.notes.push(text.to_owned());
        if self.password.is_some() {
            note("the config contains the password of Redis; restrict access: chmod 600 tollway.toml");
        }
        if !self.enabled {
            note(
                "use_consumer_limits is false: no consumer is limited until the config says `enabled = true`",
            );
        }
        let stores = self.truststore.is_some() || self.keystore.is_some();
        match (self.tls, stores) {
            (true, true) => note("Java's stores of certificates must become PEM files; the config says how"),
            (false, true) => {
                note("redis.use.ssl is false, so that the truststore and the keystore are left out")
            }
            (_, false) => {}
        }
        if self.tls && cfg!(not(feature = "redis-tls")) {
            note("this build cannot speak TLS to Redis; build it with `--features redis-tls`");
        }
    }
}

fn left_out(Property { line, key, .. }: &Property) -> String {
    let why = if key.to_ascii_lowercase().contains("pool") {
        "there is no pool to size, since all calls share one connection"
    } else {
        "it has no counterpart here"
    };
    format!("line {line}: {} is left out: {why}", key.escape_debug())
}

/// `null` in the properties' documentation means an unset text.
fn read_text(value: &str) -> Option<String> {
    (!value.is_empty() && value != "null").then(|| value.to_owned())
}

fn read_switch(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("is {value:?}: write true or false")),
    }
}

fn read_port(value: &str) -> Result<u16, String> {
    let port = value.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("is {value:?}: write a port from 1 to 65535"))
}

/// As it stands in a URL.
fn read_host(value: &str) -> Result<String, String> {
    if value.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{value}]"));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if value.is_empty() || !value.bytes().all(fits) {
        return Err(format!(
            "is {value:?}: write the name or the address of a host, without a scheme or a port"
        ));
    }
    Ok(value.to_owned())
}

fn read_amount(value: &str) -> Result<i64, String> {
    tollway_consumers::read_amount(value).map_err(|problem| problem.to_string())
}
