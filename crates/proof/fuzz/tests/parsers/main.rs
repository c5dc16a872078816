//! T20: every parser of untrusted input, with hand-written inputs and their mutations. Each target checks properties beyond
//! the absence of panics.
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
mod dialects;
mod envoy;
mod import;
mod limit;
mod obp;
mod permits;
mod query;
mod resp;
mod takes;

/// Runs a target, and prints the result.
fn fuzz(target: &str, check: impl Fn(&[u8]) -> String) {
    match tollway_fuzz::fuzz(target, check) {
        Ok(report) => eprintln!("{report}"),
        Err(found) => panic!("{found}"),
    }
}

/// The input as text, for parsers of text.
fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// T23: a message may quote untrusted input, but without control characters or line ends.
fn is_harmless(message: &str) {
    let harmful = |character: char| character.is_control() && !"\n\t".contains(character);
    assert!(!message.contains(harmful), "{message:?}");
}
