//! `tollway policy`: the config file, explained.

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Check the config file and explain every limit
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments, _context: &Context) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::FAILED, "to be written"))
}
