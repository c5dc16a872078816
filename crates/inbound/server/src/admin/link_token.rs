//! The token of the link that a program prints to its terminal: it opens the dashboard in one browser, and ends with the process.

use std::fmt;
use std::fmt::Write as _;

use super::tokens::{Right, Tokens};
use crate::{ServeError, TokenRight};

/// 128 random bits: too many to guess.
const RANDOM_BYTES: usize = 16;

/// The name of the token, for the log.
const NAME: &str = "link";

/// A token of this process. It is in no file, and in no log.
pub struct LinkToken {
    text: String,
    right: TokenRight,
}

impl LinkToken {
    /// A new token, which may read, or read and write.
    pub fn new(right: TokenRight) -> Result<Self, ServeError> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).map_err(|error| ServeError::Machine(error.to_string()))?;
        let mut text = String::with_capacity(2 * RANDOM_BYTES);
        for byte in random {
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self { text, right })
    }

    /// What the request sends.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As tokens to compare with.
    pub(crate) fn tokens(&self) -> Result<Tokens, ServeError> {
        Tokens::of_one(Right::from(self.right), NAME, &self.text)
    }
}

impl fmt::Debug for LinkToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkToken").field("right", &self.right).finish_non_exhaustive()
    }
}
