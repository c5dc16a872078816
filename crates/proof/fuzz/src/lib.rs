//! Fuzzing on stable Rust: hand-written inputs and their mutations.
//!
//! A target is a test: it parses an input, checks properties of the result, and returns the kind of answer. An input with a
//! new kind of answer is mutated further, which reaches deep into a parser without coverage instrumentation. `cargo test`
//! is enough to run it; `scripts/fuzz` runs a target for longer.
//!
//! - `corpus`: the initial inputs, from `corpus/TARGET`
//! - `mangle`: mutates inputs
//! - `effort`: how long, from which seed, or which single input
//! - `witness`: the current input, in a file that survives a crash

mod corpus;
mod effort;
mod mangle;
mod witness;

use std::collections::HashSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use corpus::Corpus;
use effort::{Effort, Until};
use tollway_testkit::Random;
use witness::Witness;

/// The most kinds of answers: some error messages quote the input, so their kinds have no bound.
const KINDS_MAX: usize = 4_096;

/// The result of a run.
#[derive(Debug)]
pub struct FuzzReport {
    target: String,
    seed: u64,
    inputs: u64,
    kinds: usize,
}

/// Why a run failed.
#[derive(Debug)]
pub enum Found {
    /// An input broke a property.
    Broken {
        /// The target.
        target: String,
        /// The file with the input.
        input: PathBuf,
    },
    /// Inputs cannot be read or written.
    NoInput(String),
}

impl fmt::Display for FuzzReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, seed, inputs, kinds } = self;
        write!(f, "{target}: {inputs} inputs, {kinds} kinds of answers, seed {seed}")
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { target, input } => write!(
                f,
                "{target}: a promise was broken (see above) by the input in {0}\n  to repeat it: scripts/fuzz {target} {0}\n  \
                 once it is mended, keep it: mv {0} crates/proof/fuzz/corpus/{target}/",
                input.display()
            ),
            Self::NoInput(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Found {}

/// Runs a target with the effort of the environment. `check` panics on a failure and returns the kind of answer.
pub fn fuzz(target: &str, check: impl Fn(&[u8]) -> String) -> Result<FuzzReport, Found> {
    let no_input = |error: std::io::Error| Found::NoInput(format!("{target}: {error}"));
    let Effort { seed, until } = Effort::of_environment().map_err(Found::NoInput)?;
    let mut corpus = Corpus::of(target).map_err(no_input)?;
    let mut witness = Witness::new(target).map_err(no_input)?;
    eprintln!("{target}: seed {seed}; the input in hand is in {}", witness.path().display());
    let mut try_one = |input: &[u8]| {
        witness.see(input).map_err(no_input)?;
        let checked = catch_unwind(AssertUnwindSafe(|| check(input)));
        checked.map_err(|_| Found::Broken { target: target.to_owned(), input: witness.path().to_owned() })
    };
    let mut random = Random::new(seed);
    let mut seen = HashSet::new();
    let mut inputs = 0;
    if let Until::Once(input) = &until {
        seen.insert(try_one(input)?);
        inputs = 1;
    }
    // The hand-written inputs come first, unchanged.
    for place in 0..corpus.len() {
        if until.is_reached(inputs) {
            break;
        }
        seen.insert(try_one(corpus.get(place))?);
        inputs += 1;
    }
    while !until.is_reached(inputs) {
        let input = corpus.mangled(&mut random);
        let kind = try_one(&input)?;
        inputs += 1;
        if seen.len() < KINDS_MAX && seen.insert(kind) {
            corpus.keep(input, &mut random);
        }
    }
    witness.leave();
    Ok(FuzzReport { target: target.to_owned(), seed, inputs, kinds: seen.len() })
}

/// The kind of a message: its first line without quotes and numbers, so that it does not depend on the input.
pub fn kind_of(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let quotes = ['"', '`', '\''];
    let before = line.split(quotes).next().unwrap_or_default();
    let behind = line.rsplit(quotes).next().filter(|_| line.contains(quotes)).unwrap_or_default();
    let words = before.chars().chain(behind.chars());
    words.filter(|sign| sign.is_ascii_alphabetic() || *sign == ' ').take(KIND_CHARS).collect()
}

/// The length of a message that determines its kind.
const KIND_CHARS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_a_message_does_not_depend_on_the_input() {
        assert_eq!(kind_of("line 3: \"colour\" is no key"), kind_of("line 41: \"x\" is no key"));
        assert_ne!(kind_of("line 3: \"colour\" is no key"), kind_of("line 3: \"colour\" stands twice"));
    }

    #[test]
    fn failed_property_saves_its_input_and_says_how_to_repeat_it() {
        let found = fuzz("limit", |input| {
            assert!(!input.contains(&b'/'), "planted: no limit has a slash");
            String::new()
        });
        let said = found.unwrap_err();
        let Found::Broken { input, .. } = &said else { panic!("{said}") };
        assert!(std::fs::read(input).unwrap().contains(&b'/'));
        assert!(said.to_string().contains(&format!("scripts/fuzz limit {}", input.display())));
        std::fs::remove_file(input).unwrap();
    }
}
