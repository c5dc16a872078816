//! `tollway policy import`: a config for limits that another system has in a file.
//!
//! `envoy` is the command for those of Envoy's rate limit service; `yaml` is their file, `rules` what it means, `names` what
//! its policies are called, `toml` the config that is written. `obp` is the command for the properties of OBP-API.

mod envoy;
mod names;
mod obp;
mod rules;
mod toml;
mod yaml;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Make a config of limits that another system has in a file
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, clap::Subcommand)]
enum Format {
    Envoy(envoy::Arguments),
    Obp(obp::Arguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    match &arguments.format {
        Format::Envoy(arguments) => envoy::run(arguments, context),
        Format::Obp(arguments) => obp::run(arguments, context),
    }
}
