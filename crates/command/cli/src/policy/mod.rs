//! `tollway policy`: checks, explains, tries and imports config files.
//!
//! `check` is the command, `report` its result and `text` the output; `explain` describes limits in sentences; `findings`
//! are warnings about a valid file; `compare` compares it with an older one. `try_descriptor` finds the rule of a request. `import` converts files of other systems.

mod compare;

mod check;
mod explain;
mod findings;
mod import;
mod report;
mod text;
mod try_descriptor;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Check, explain, try and import config files
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(check::Arguments),
    Try(try_descriptor::Arguments),
    Import(import::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Check(arguments) => check::run(arguments, context),
        Command::Try(arguments) => try_descriptor::run(arguments, context),
        Command::Import(arguments) => import::run(arguments, context),
    }
}
