//! `tollway why`: why a take is denied.

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Explain why a take is denied, and when it will not be
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments, _context: &Context) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::FAILED, "to be written"))
}
