//! `redis-cli` as fixes print it: with the options that reach a server, and never with the password.

use std::fmt;

use url::form_urlencoded;

use super::servers::Url;
use crate::shell::shell_word_or_dots;

/// The command for one server, without what it should do.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RedisCli {
    command: String,
    has_password: bool,
}

impl RedisCli {
    /// The command for the server of this URL at `HOST:PORT`.
    pub(super) fn at(url: &Url, host: &str) -> Self {
        let (host, port) = host.rsplit_once(':').unwrap_or((host, "6379"));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut command = format!(
            "redis-cli -h {} -p {port} -n {}",
            shell_word_or_dots(host),
            shell_word_or_dots(&url.database)
        );
        let mut add = |option: &str, value: &str| {
            command.push_str(&format!(" {option} {}", shell_word_or_dots(value)));
        };
        let (user, password) = url.user.trim_end_matches('@').split_once(':').unwrap_or((&url.user, ""));
        let user = decoded(user.trim_end_matches('@'));
        if !user.is_empty() {
            add("--user", &user);
        }
        for (option, name) in [("--cacert", "ca"), ("--cert", "cert"), ("--key", "key")] {
            if let Some(path) = url.option(name) {
                add(option, path);
            }
        }
        if url.tls {
            command.push_str(" --tls");
        }
        Self { command, has_password: !password.is_empty() }
    }

    /// How the command gets its password, if it needs one.
    pub(super) fn hint(&self) -> &'static str {
        if self.has_password { " (with the store's password in REDISCLI_AUTH)" } else { "" }
    }

    /// A pipeline that runs a script on all keys of a pattern that pass the filter, some hundred at a time. The script
    /// gets them as ARGV.
    pub(super) fn on_all(&self, pattern: &str, filter: &str, script: &str) -> String {
        format!(
            "{self} --scan --pattern {pattern} | {filter} | tr '\\n' '\\0' | xargs -0 -n 500 {self} EVAL '{script}' 0"
        )
    }
}

impl fmt::Display for RedisCli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.command)
    }
}

/// A percent-decoded part of a URL, in which a plus sign is a plus sign.
fn decoded(text: &str) -> String {
    let text = format!("={}", text.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(text.as_bytes()).map(|(_, value)| value.into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_reach_the_server_without_the_password() {
        for (url, command, has_password) in [
            ("redis://h", "redis-cli -h h -p 6379 -n 0", false),
            ("redis://:se%40cret@h:7000/3", "redis-cli -h h -p 7000 -n 3", true),
            ("redis://an%20na+b:secret@[::1]:7/0", "redis-cli -h ::1 -p 7 -n 0 --user 'an na+b'", true),
            ("redis://anna@h", "redis-cli -h h -p 6379 -n 0 --user anna", false),
            (
                "rediss://h/1?ca=/etc/ca.crt&cert=my%20cert&key=k",
                "redis-cli -h h -p 6379 -n 1 --cacert /etc/ca.crt --cert 'my cert' --key k --tls",
                false,
            ),
        ] {
            let url = Url::read(url).unwrap();
            let cli = RedisCli::at(&url, &url.hosts[0]);
            assert_eq!((cli.to_string().as_str(), cli.has_password), (command, has_password));
            assert_eq!(cli.hint().is_empty(), !has_password);
        }
    }
}
