//! `tollway api`: the vendors that are called, from the config and from shipped profiles.
//!
//! `list` and `show` are the commands, `fields` the fields of an api as JSON and as text, `toml` writes it as a config.

mod fields;
mod list;
mod show;
mod toml;

pub(crate) use fields::json;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// List and show the APIs that you call: limits, retries, where they come from
///
/// An api is a section `[apis.NAME]` of the config. Tollway ships profiles of well-known vendors: with the name of one, the
/// section needs no keys, and each key you write replaces the profile's. The page docs/guide/apis.md explains every key.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway api list                             your apis, then the shipped profiles
  tollway api show notion                      every field, and where it comes from
  tollway api show notion --toml >> tollway.toml")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::Arguments),
    Show(show::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::List(_) => list::run(context),
        Command::Show(arguments) => show::run(arguments, context),
    }
}
