//! `tollway demo`: something worth seeing at once.

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Watch eight processes share one limit
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments, _context: &Context) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::FAILED, "to be written"))
}
