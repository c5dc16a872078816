//! `tollway man`: manual pages, generated from the `--help` texts.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Print the manual page, or write one page per command
///
/// To read it now:  tollway man | man -l -
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Write tollway.1, tollway-take.1 and so on into this folder
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match &arguments.into {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            context.output().bytes(&page)?;
        }
        Some(folder) => {
            let failed = |error| {
                Failure::new(Exit::FAILED, format!("cannot write into {}: {error}", folder.display()))
            };
            fs::create_dir_all(folder).map_err(failed)?;
            clap_mangen::generate_to(command, folder).map_err(failed)?;
        }
    }
    Ok(Exit::DONE)
}
