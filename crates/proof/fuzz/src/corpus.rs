//! The inputs: the hand-written ones, and those found during the run.

use std::io;
use std::path::Path;

use tollway_testkit::Random;

use crate::mangle::{self, Words};

/// The most inputs kept: with more, each would be mutated less often.
const KEPT_MAX: usize = 2_000;

pub(crate) struct Corpus {
    inputs: Vec<Vec<u8>>,
    /// The number of hand-written inputs. They come first and stay.
    by_hand: usize,
    words: Words,
}

impl Corpus {
    /// The files in the folder of a target, sorted by name.
    pub(crate) fn of(target: &str) -> io::Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        let no_folder =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        let mut paths = std::fs::read_dir(&folder)
            .map_err(no_folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        let inputs = paths.iter().map(std::fs::read).collect::<io::Result<Vec<_>>>()?;
        if inputs.is_empty() {
            return Err(io::Error::other(format!("{} has no input to begin with", folder.display())));
        }
        Ok(Self { by_hand: inputs.len(), words: Words::of(&inputs), inputs })
    }

    pub(crate) fn len(&self) -> usize {
        self.inputs.len()
    }

    /// The input at a place below `len`.
    pub(crate) fn get(&self, place: usize) -> &[u8] {
        self.inputs.get(place).map_or(&[], Vec::as_slice)
    }

    /// A new input, mutated from one or two of the kept ones.
    pub(crate) fn mangled(&self, random: &mut Random) -> Vec<u8> {
        let (one, other) = (random.pick(&self.inputs), random.pick(&self.inputs));
        mangle::mangle(one, other, &self.words, random)
    }

    /// Keeps an input with a new kind of answer.
    pub(crate) fn keep(&mut self, input: Vec<u8>, random: &mut Random) {
        if self.inputs.len() < KEPT_MAX.max(self.by_hand) {
            return self.inputs.push(input);
        }
        let (_, found) = self.inputs.split_at_mut(self.by_hand);
        if !found.is_empty() {
            let place = random.index(found.len());
            found[place] = input;
        }
    }
}
