//! Writes the config of the properties.

use std::fmt::Write;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::settings::{PERIODS, Settings};
use crate::source::quoted;

/// What is percent-encoded in the password of a URL: all but letters, digits and what RFC 3986 calls unreserved.
const IN_PASSWORDS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same in a path.
const IN_PATHS: &AsciiSet = &IN_PASSWORDS.remove(b'/');

/// Written in place of a hidden password.
const HIDDEN: &str = "...";

/// How the config is written.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// Whether it contains the password.
    pub(super) password: bool,
    /// Whether it uses TLS; a build without TLS cannot read that.
    pub(super) tls: bool,
}

/// The whole config, with the name of the property beside each value.
pub(super) fn write(settings: &Settings, file: &str, style: Style) -> String {
    let mut text = format!("# Made by `tollway policy import obp` of {}.\n", file.escape_debug());
    write_store(&mut text, settings, style);
    write_consumers(&mut text, settings);
    text
}

fn write_store(text: &mut String, settings: &Settings, style: Style) {
    text.push_str(
        "
[store]
# cache.redis.url, cache.redis.port, cache.redis.password and redis.use.ssl. The layout counts in the keys that are there
# already, CONSUMER_PER_MINUTE and its sisters. There is no pool to size: all calls share one connection.
",
    );
    if settings.tls {
        settings.truststore.iter().for_each(|path| write_truststore(text, path));
        settings.keystore.iter().for_each(|path| write_keystore(text, path));
    }
    let _ = writeln!(text, "url = {}", quoted(&url(settings, style)));
}

fn write_truststore(text: &mut String, path: &str) {
    let _ = write!(
        text,
        "#
# truststore.path.redis is Java's. Make a PEM file of it; both commands ask for truststore.password.redis:
#   keytool -importkeystore -srckeystore {from} -destkeystore {pem}.p12 -deststoretype PKCS12
#   openssl pkcs12 -in {pem}.p12 -nokeys -out {pem}
",
        from = shell_word(path),
        pem = shell_word(&certificates(path)),
    );
}

fn write_keystore(text: &mut String, path: &str) {
    let _ = write!(
        text,
        "#
# keystore.path.redis is Java's. Make PEM files of it; all commands ask for keystore.password.redis:
#   keytool -importkeystore -srckeystore {from} -destkeystore {pem}.p12 -deststoretype PKCS12
#   openssl pkcs12 -in {pem}.p12 -clcerts -nokeys -out {pem}
#   openssl pkcs12 -in {pem}.p12 -nocerts -nodes -out {key}
",
        from = shell_word(path),
        pem = shell_word(&certificates(path)),
        key = shell_word(&private_key(path)),
    );
}

fn write_consumers(text: &mut String, settings: &Settings) {
    let Settings { enabled, anonymous_per_hour, defaults, .. } = settings;
    let _ = write!(
        text,
        "
[consumers]
# Records of single consumers are not in the properties; make them with the management API, or a program.
records = \"sqlite:tollway.db\"
# How a request shows its consumer: by a header that only what stands in front can set, or by a token.
# header = \"x-consumer-id\"
# tokens = {{ file = \"consumer-tokens\" }}
# While Redis does not answer, calls are let through.
when_store_fails = \"open\"
enabled = {enabled}  # use_consumer_limits
anonymous_per_hour = {anonymous_per_hour}  # user_consumer_limit_anonymous_access
"
    );
    for (period, amount) in PERIODS.iter().zip(defaults) {
        let _ = writeln!(text, "per_{period} = {amount}  # rate_limiting_per_{period}");
    }
}

fn url(settings: &Settings, style: Style) -> String {
    let tls = settings.tls && style.tls;
    let scheme = if tls { "rediss" } else { "redis" };
    let password = settings.password.as_ref().map(|password| match style.password {
        true => format!(":{}@", utf8_percent_encode(password, IN_PASSWORDS)),
        false => format!(":{HIDDEN}@"),
    });
    let mut url = format!(
        "{scheme}://{}{}:{}/0?layout=consumers",
        password.unwrap_or_default(),
        settings.host,
        settings.port
    );
    if tls {
        let ca = settings.truststore.iter().map(|path| ("ca", certificates(path)));
        let pair = settings
            .keystore
            .iter()
            .flat_map(|path| [("cert", certificates(path)), ("key", private_key(path))]);
        for (name, path) in ca.chain(pair) {
            let _ = write!(url, "&{name}={}", utf8_percent_encode(&path, IN_PATHS));
        }
    }
    url
}

/// The PEM file beside a Java keystore.
fn certificates(store: &str) -> String {
    Path::new(store).with_extension("pem").display().to_string()
}

fn private_key(store: &str) -> String {
    Path::new(store).with_extension("key.pem").display().to_string()
}

/// As one word of a command, on one line of a comment.
fn shell_word(path: &str) -> String {
    let path = path.escape_debug().to_string();
    let plain = |sign: char| sign.is_alphanumeric() || "/._-".contains(sign);
    if path.chars().all(plain) { path } else { format!("\"{path}\"") }
}
