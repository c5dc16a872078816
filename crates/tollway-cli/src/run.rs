//! `tollway run`: a command under a limit.

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Run a command once its limits allow it
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments, _context: &Context) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::FAILED, "to be written"))
}
