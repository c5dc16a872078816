//! Tollway and its rivals, measured in one run on the same work.
//!
//! A group is a table of rows; a row is one case, ours compared with one rival. [`engine`] measures the decision in process,
//! [`growth`] how that grows with policies, subjects and limits,
//! [`stores`] that of many callers on a shared store, [`server`] that of a server with its protocol, [`pipeline`] jobs through
//! stages, [`sqs`] their requests to SQS. [`rivals`] adapts each library to the same work, [`report`] prints.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for the terminal: what cannot be measured ends the run"
)]

mod arguments;
mod contender;
mod engine;
mod growth;
mod keys;
mod machine;
mod pipeline;
mod processor;
mod report;
mod rivals;
mod rounds;
mod server;
mod sqs;
mod stopwatch;
mod stores;
mod valgrind;
mod work;

use std::process::ExitCode;

use anyhow::Result;
use arguments::{Arguments, Group};
use clap::Parser;
use report::Report;

/// A group that this version does not support; clap uses the same code for invalid arguments.
const EXIT_USAGE: u8 = 2;

/// Everything was measured, and with `--strict` a figure misses its target.
const EXIT_MISSED: u8 = 3;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some((case, takes)) = arguments.count_case()? {
        engine::count(&case, takes)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(entrant) = arguments.serve {
        return server::serve(entrant).map(|()| ExitCode::SUCCESS);
    }
    if arguments.answer_jobs {
        return pipeline::answer_jobs().map(|()| ExitCode::SUCCESS);
    }
    let report = match arguments.group {
        Some(Group::Engine) => engine::measure(arguments.quick)?,
        Some(Group::Growth) => growth::measure(arguments.quick)?,
        Some(Group::Redis) => stores::redis::measure(arguments.quick)?,
        Some(Group::Postgres) => stores::postgres::measure(arguments.quick)?,
        Some(Group::Aws) => aws(arguments.quick)?,
        Some(Group::Server) => server::measure(arguments.quick)?,
        Some(Group::Pipeline) => pipeline::measure(arguments.quick)?,
        Some(group) => {
            eprintln!("error: the group `{}` is not supported in this version", group.name());
            return Ok(ExitCode::from(EXIT_USAGE));
        }
        None => unreachable!("clap asks for a group"),
    };
    if arguments.json {
        report.print_json()?
    } else {
        print!("{}", report.table())
    }
    if let Some(file) = &arguments.markdown {
        report.write_markdown(file, arguments.quick)?;
        eprintln!("wrote the table into {}", file.display());
    }
    Ok(if arguments.strict && report.missed() > 0 {
        eprintln!("error: {} figures missed their target", report.missed());
        ExitCode::from(EXIT_MISSED)
    } else {
        ExitCode::SUCCESS
    })
}

fn aws(quick: bool) -> Result<Report> {
    let mut report = stores::dynamo::measure(quick)?;
    sqs::measure(quick, &mut report)?;
    Ok(report)
}
