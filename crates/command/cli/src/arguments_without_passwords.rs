//! Parses the command line. clap repeats a wrong argument in its message, which must not show a password.

use clap::Parser;
use clap::error::ErrorKind;
use serde_json::json;

use crate::cli::{Cli, NAME};

/// The arguments, or the end of the process with a message.
pub(crate) fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        if error.kind() == ErrorKind::DisplayVersion && std::env::args_os().any(|word| word == "--json") {
            anstream::println!("{}", json!({ "name": NAME, "version": env!("CARGO_PKG_VERSION") }));
            std::process::exit(error.exit_code())
        }
        let message = error.render().to_string();
        let shown =
            without_passwords(&message, std::env::args_os().filter_map(|word| word.into_string().ok()));
        if shown == message {
            error.exit()
        }
        anstream::eprint!("{shown}");
        std::process::exit(error.exit_code())
    })
}

/// The message with every URL of the command line that may hold a password cut behind its scheme.
fn without_passwords(message: &str, words: impl Iterator<Item = String>) -> String {
    words.fold(message.to_owned(), |message, word| {
        let value = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => value,
            _ => word.as_str(),
        };
        match value.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) && may_hold_a_password(rest) => {
                message.replace(value, &format!("{scheme}:..."))
            }
            _ => message,
        }
    })
}

fn is_scheme(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

/// Before an `@`, or in a parameter.
fn may_hold_a_password(rest: &str) -> bool {
    rest.contains('@') || rest.contains('=') || rest.starts_with("//:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_passwords_are_cut() {
        for (word, shown) in [
            ("redis://:hunter2@db/0", "redis:..."),
            ("--store=redis://:hunter2@db/x", "--store=redis:..."),
            ("postgres://app:hunter2@db", "postgres:..."),
            ("sqs:?ledger=t&access=KEY:hunter2", "sqs:..."),
            ("redis://:hunter2", "redis:..."),
            ("file:/var/lib/state", "file:/var/lib/state"),
            ("hello", "hello"),
        ] {
            let message = format!("error: unexpected argument '{word}' found");
            let without = without_passwords(&message, std::iter::once(word.to_owned()));
            assert_eq!(without, format!("error: unexpected argument '{shown}' found"));
        }
    }
}
