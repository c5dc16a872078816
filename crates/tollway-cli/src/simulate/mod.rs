//! `tollway simulate`: a traffic log replayed through a policy.

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Replay a traffic log through a policy
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments, _context: &Context) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::FAILED, "to be written"))
}
