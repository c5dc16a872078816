//! T20: every parser of what others write, with inputs that were written by hand and what becomes of them when they are
//! mangled. Each target promises more than that nothing panics.
//!
//! `scripts/fuzz TARGET SECONDS` runs one of them for longer, `scripts/fuzz TARGET FILE` with one input alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a promise is broken by panicking"
)]

mod addresses;
mod config;
mod consumers;
mod envoy;
mod import;
mod limit;
mod obp;
mod permits;
mod query;
mod resp;
mod takes;

/// Runs a target, and says what it came to.
fn fuzz(target: &str, check: impl Fn(&[u8]) -> String) {
    match tollway_fuzz::fuzz(target, check) {
        Ok(report) => eprintln!("{report}"),
        Err(found) => panic!("{found}"),
    }
}

/// Text for a parser that is only ever given text.
fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// T23: a message may quote a stranger, and must not speak to a terminal or begin a line of the log for them.
fn is_harmless(message: &str) {
    let harmful = |character: char| character.is_control() && !"\n\t".contains(character);
    assert!(!message.contains(harmful), "{message:?}");
}
