//! The effort of a run: a fixed number of inputs, so that a test is reproducible, or a time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

/// The default number of inputs: a second or two for all but the slowest parsers.
const INPUTS_DEFAULT: u64 = 20_000;

/// The default seed.
const SEED_DEFAULT: u64 = 1;

pub(crate) struct Effort {
    pub(crate) seed: u64,
    pub(crate) until: Until,
}

/// When a run ends.
pub(crate) enum Until {
    /// After this many inputs.
    Inputs(u64),
    /// At this time.
    Moment(Instant),
    /// After this one input.
    Once(Vec<u8>),
}

impl Effort {
    /// `TOLLWAY_FUZZ_SECONDS` sets a time, `TOLLWAY_FUZZ_INPUT` a single file, `TOLLWAY_SEED` the seed.
    pub(crate) fn of_environment() -> Result<Self, String> {
        let (input, seconds) = (variable("TOLLWAY_FUZZ_INPUT"), number("TOLLWAY_FUZZ_SECONDS")?);
        let until = match (input, seconds) {
            (Some(path), _) => Until::Once(
                std::fs::read(&path).map_err(|error| format!("TOLLWAY_FUZZ_INPUT={path}: {error}"))?,
            ),
            (None, Some(seconds)) => Until::Moment(later(seconds)),
            (None, None) => Until::Inputs(INPUTS_DEFAULT),
        };
        // A long run uses a new seed.
        let seed = match (number("TOLLWAY_SEED")?, &until) {
            (Some(seed), _) => seed,
            (None, Until::Moment(_)) => RandomState::new().build_hasher().finish(),
            (None, _) => SEED_DEFAULT,
        };
        Ok(Self { seed, until })
    }
}

impl Until {
    #[expect(clippy::disallowed_methods, reason = "the length of a run is the machine's time")]
    pub(crate) fn is_reached(&self, inputs: u64) -> bool {
        match self {
            Self::Inputs(most) => inputs >= *most,
            Self::Moment(moment) => Instant::now() >= *moment,
            Self::Once(_) => inputs >= 1,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the length of a run is the machine's time")]
fn later(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Result<Option<u64>, String> {
    let parse = |value: String| value.parse().map_err(|_| format!("{name}={value:?} is not a whole number"));
    variable(name).map(parse).transpose()
}
