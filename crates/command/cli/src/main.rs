//! The command `tollway`: rate limits in a shell, forecasts and diagnosis.
//!
//! One file per subcommand, each with its arguments and a `run`. Shared by all: `cli` is the command line, `context`
//! finds the config and opens the store, `output` writes text and JSON, `humanize` formats numbers and times, `failure` holds
//! exit codes and error messages.

#![forbid(unsafe_code)]

mod api;
mod arguments_without_passwords;
mod cli;
mod cloudwatch;
mod complete_names;
mod completions;
mod context;
mod dashboard;
#[cfg(feature = "pipeline")]
mod demo;
mod doctor;
mod failure;
#[cfg(feature = "gateway")]
mod gateway;
mod humanize;
mod incidents;
mod init;
mod layout;
mod limit;
mod log;
mod man;
mod meters;
mod notices;
mod origin;
mod output;
#[cfg(feature = "pipeline")]
mod pipeline;
mod plan;
mod policy;
mod provision;
mod reset;
mod run;
mod serve;
mod shell;
mod similar_subjects;
mod simulate;
mod stopwatch;
mod take;
mod take_arguments;
#[cfg(feature = "top")]
mod top;
mod usage;
mod usage_subjects;
#[cfg(feature = "vendor")]
mod vendor;
mod vendor_quotas;
mod wait;
mod whole_config;
mod why;

use std::process::ExitCode;

use cli::{Cli, Command};
use context::Context;
use failure::{Exit, Failure};
use output::Output;

fn main() -> ExitCode {
    // Handlers of a pipeline are started under a guard, which is this program.
    #[cfg(feature = "pipeline")]
    tollway_pipeline::handler::guard::run_if_asked();
    completions::answer_if_asked();
    let Cli { global, command } = arguments_without_passwords::parse();
    let output = Output::new(global.json, global.quiet, global.color);
    // These set up their own log level.
    if !command.has_own_log() {
        // A command that `run` starts may take long: what it waits for is said at once.
        log::report_warnings(global.quiet, !matches!(command, Command::Run(_)));
    }
    let context = Context::new(global, output);
    let ended = dispatch(command, &context).and_then(|exit| context.output().flush().map(|()| exit));
    let last = ended.as_ref().err().map(Failure::message);
    log::take_held(last).iter().for_each(|line| context.output().warning(line));
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => {
            context.output().failure(&failure);
            failure.exit().into()
        }
    }
}

fn dispatch(command: Command, context: &Context) -> Result<Exit, Failure> {
    match command {
        #[cfg(feature = "pipeline")]
        Command::Demo(arguments) => demo::run(&arguments, context),
        Command::Init(arguments) => init::run(&arguments, context),
        Command::Take(arguments) => take::run(&arguments, context),
        Command::Run(arguments) => run::run(&arguments, context),
        Command::Serve(arguments) => serve::run(&arguments, context),
        Command::Dashboard(arguments) => dashboard::run(&arguments, context),
        #[cfg(feature = "gateway")]
        Command::Gateway(arguments) => gateway::run(&arguments, context),
        #[cfg(feature = "top")]
        Command::Top(arguments) => top::run(&arguments, context),
        Command::Usage(arguments) => usage::run(&arguments, context),
        Command::Why(arguments) => why::run(&arguments, context),
        Command::Reset(arguments) => reset::run(&arguments, context),
        Command::Limit(arguments) => limit::run(&arguments, context),
        Command::Policy(arguments) => policy::run(&arguments, context),
        Command::Api(arguments) => api::run(&arguments, context),
        Command::Incidents(arguments) => incidents::run(&arguments, context),
        #[cfg(feature = "pipeline")]
        Command::Pipeline(arguments) => pipeline::run(&arguments, context),
        Command::Plan(arguments) => plan::run(&arguments, context),
        Command::Simulate(arguments) => simulate::run(&arguments, context),
        #[cfg(feature = "vendor")]
        Command::Vendor(arguments) => vendor::run(&arguments, context),
        Command::Doctor(arguments) => doctor::run(&arguments, context),
        Command::Provision(arguments) => provision::run(&arguments, context),
        Command::Completions(arguments) => completions::run(&arguments, context),
        Command::Man(arguments) => man::run(&arguments, context),
    }
}
