//! `tollway incidents`: calls that a vendor refused although they had a permit.
//!
//! `list` is the command itself, `show` prints one incident in full.

mod list;
mod show;

use tollway::incident::{Incident, IncidentFile};

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// List calls that a vendor refused although they were within the limit
///
/// Every process with the same config on this machine adds its incidents to one file, by default beside the state file. An
/// incident has the meters, the calls in flight and the last takes at that moment. The page docs/guide/incidents.md
/// explains the file, and the webhook that incidents can be sent to.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  tollway incidents                          the last 20, the newest last
  tollway incidents --since 1h --policy gemini
  tollway incidents show 1f3c                one in full; the start of its id is enough
  tollway incidents --json | jq '.incidents[].said'"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: list::ListOptions,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(show::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    match &arguments.command {
        None => list::run(&arguments.list, context),
        Some(Command::Show(arguments)) => show::run(arguments, context),
    }
}

/// All incidents in the file, the oldest first.
fn read(context: &Context) -> Result<Vec<Incident>, Failure> {
    let file = IncidentFile::at(context.incidents_file()?);
    file.read().map_err(|error| {
        Failure::new(Exit::FAILED, format!("cannot read the incidents in {}: {error}", file.path().display()))
            .advise("check `file` of [incidents] in the config, and who may read that file")
    })
}
