//! `tollway limit`: limits as data.

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Read and change limits while they are in use
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments, _context: &Context) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::FAILED, "to be written"))
}
