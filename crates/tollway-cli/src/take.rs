//! `tollway take`: one take.

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Take from a policy's limits, waiting for the turn
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments, _context: &Context) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::FAILED, "to be written"))
}
