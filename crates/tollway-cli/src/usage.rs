//! `tollway usage`: what is used.

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Show what is used of every limit
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments, _context: &Context) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::FAILED, "to be written"))
}
