//! Fuzzing on stable Rust: inputs that were written by hand, and what becomes of them when they are mangled.
//!
//! A target is a test: it reads an input, promises something about what it read, and says what kind of answer it was. An
//! input that was answered as none before is mangled further, which leads deep into a parser although nobody looks at which
//! lines of it ran. Nothing beyond `cargo test` is needed for that; `scripts/fuzz` runs a target for as long as one likes.
//!
//! - `corpus`: the inputs that it begins with, from `corpus/TARGET`
//! - `mangle`: one input out of another
//! - `effort`: how long, from which seed, or which input alone
//! - `witness`: the input in hand, in a file, whatever becomes of the process

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

/// Kinds of answers that are told apart: some texts of errors repeat what a stranger wrote, and are never the same twice.
const KINDS_MAX: usize = 4_096;

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    target: String,
    seed: u64,
    inputs: u64,
    kinds: usize,
}

/// Why a run ended before its time.
#[derive(Debug)]
pub enum Found {
    /// A promise was broken by this input.
    Broken {
        /// The target.
        target: String,
        /// The file that has it.
        input: PathBuf,
    },
    /// Inputs cannot be read or kept.
    NoInput(String),
}

impl fmt::Display for Report {
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
                 once it is mended, keep it: mv {0} crates/tollway-fuzz/corpus/{target}/",
                input.display()
            ),
            Self::NoInput(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Found {}

/// Tries a target, as hard as the environment says. `check` fails by panicking, and says what kind of answer it was.
pub fn fuzz(target: &str, check: impl Fn(&[u8]) -> String) -> Result<Report, Found> {
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
    // All that was written by hand comes first, as it stands.
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
    Ok(Report { target: target.to_owned(), seed, inputs, kinds: seen.len() })
}

/// The kind of a message: its first line without what it quotes and without numbers, so that it does not depend on what was
/// sent.
pub fn kind_of(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let quotes = ['"', '`', '\''];
    let before = line.split(quotes).next().unwrap_or_default();
    let behind = line.rsplit(quotes).next().filter(|_| line.contains(quotes)).unwrap_or_default();
    let words = before.chars().chain(behind.chars());
    words.filter(|sign| sign.is_ascii_alphabetic() || *sign == ' ').take(KIND_CHARS).collect()
}

/// So much of a message tells what kind it is.
const KIND_CHARS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_message_does_not_depend_on_what_was_sent() {
        assert_eq!(kind_of("line 3: \"colour\" is no key"), kind_of("line 41: \"x\" is no key"));
        assert_ne!(kind_of("line 3: \"colour\" is no key"), kind_of("line 3: \"colour\" stands twice"));
    }

    #[test]
    fn a_broken_promise_leaves_its_input_and_says_how_to_repeat_it() {
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
