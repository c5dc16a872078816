//! `tollway init`: writes a small config to begin with.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use tollway::config::CONFIG_FILE;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{FAINT, GOOD};

/// Write a small config for what you have
///
/// It works as it is, and its comments say what to change. An existing file is never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway init vendor                    you call an API that has a quota
  tollway init api                       you run an API, and limit its callers
  tollway init consumers                 your callers have limits of their own, kept in a database
  tollway init envoy                     Envoy asks for every request
  tollway init pipeline                  a backlog of jobs that call a vendor
  tollway init vendor --output -         only print it")]
pub(crate) struct Arguments {
    /// What you have
    what: Template,
    /// Where to write it; - prints it
    #[arg(long, short, value_name = "FILE", default_value = CONFIG_FILE)]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Template {
    /// You call a vendor's API that has a quota
    Vendor,
    /// You run an API, and limit its callers
    Api,
    /// Your callers have limits of their own
    Consumers,
    /// Envoy asks for every request
    Envoy,
    /// A backlog of jobs that call a vendor
    Pipeline,
}

impl Template {
    fn text(self) -> &'static str {
        match self {
            Self::Vendor => include_str!("templates/vendor.toml"),
            Self::Api => include_str!("templates/api.toml"),
            Self::Consumers => include_str!("templates/consumers.toml"),
            Self::Envoy => include_str!("templates/envoy.toml"),
            Self::Pipeline => include_str!("templates/pipeline.toml"),
        }
    }

    /// The first command to try, and what it shows.
    fn next(self) -> (&'static str, &'static str) {
        match self {
            Self::Vendor => ("tollway take vendor && echo call it now", "waits for its turn"),
            Self::Api | Self::Consumers => ("tollway serve", "then follow what it prints"),
            Self::Envoy => (
                "tollway policy try --domain edge --descriptor remote_address=192.0.2.1",
                "which limit a request meets",
            ),
            Self::Pipeline => ("tollway pipeline plan --items 1M --latency 10s", "how long a backlog takes"),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let Arguments { what, output: path } = arguments;
    let output = context.output();
    if path.as_os_str() == "-" {
        output.bytes(what.text().as_bytes())?;
        return Ok(Exit::DONE);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
        let path = path.display();
        match error.kind() {
            ErrorKind::AlreadyExists => {
                let name = what.to_possible_value();
                let name = name.map_or_else(String::new, |value| value.get_name().to_owned());
                Failure::new(Exit::FAILED, format!("{path} exists already, and is not overwritten")).advise(
                    format!(
                        "write another file: tollway init {name} --output FILE, or only print it: --output -"
                    ),
                )
            }
            _ => Failure::new(Exit::FAILED, format!("cannot write {path}: {error}")),
        }
    })?;
    file.write_all(what.text().as_bytes())?;
    output.line(format_args!("{GOOD}wrote {}{GOOD:#}", path.display()))?;
    let (command, shows) = what.next();
    output.note("try:");
    output.note(format_args!("  tollway policy check    {FAINT}# explains every limit in it{FAINT:#}"));
    output.note(format_args!("  {command}    {FAINT}# {shows}{FAINT:#}"));
    Ok(Exit::DONE)
}
