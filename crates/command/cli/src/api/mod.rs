//! `tollway api`: the vendors that are called, from the config and from shipped profiles.
//!
//! `list`, `show` and `try_call` are the commands, `fields` the fields of an api as JSON and as text, `toml` writes it as a
//! config, `tried` shows what became of a call.

#[cfg(feature = "client")]
mod call_result;
mod fields;
mod list;
mod show;
mod toml;
#[cfg(feature = "client")]
mod try_call;

pub(crate) use fields::json;
#[cfg(feature = "gateway")]
pub(crate) use show::find;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// List, show and try the APIs that you call: limits, retries, where they come from
///
/// An api is a section `[apis.NAME]` of the config. Tollway ships profiles of well-known vendors: with the name of one, the
/// section needs no keys, and each key you write replaces the profile's. The page docs/guide/apis.md explains every key.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway api list                             your apis, then the shipped profiles
  tollway api show notion                      every field, and where it comes from
  tollway api show notion --toml >> tollway.toml
  tollway api try notion /v1/users             one call, and what the vendor says about limits")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::Arguments),
    Show(show::Arguments),
    #[cfg(feature = "client")]
    Try(try_call::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::List(_) => list::run(context),
        Command::Show(arguments) => show::run(arguments, context),
        #[cfg(feature = "client")]
        Command::Try(arguments) => try_call::run(arguments, context),
    }
}
