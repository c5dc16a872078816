//! `pipeline lambda`: works on messages of SQS as a function of AWS Lambda, or on one event from standard input.

#[cfg(feature = "aws")]
mod events;
#[cfg(feature = "aws")]
mod figures;

use tollway::Span;
use tollway::core::read_span;

use super::session::Which;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::serve::log::{Format, Level};

const EXAMPLES: &str = "\
Examples:
  tollway pipeline lambda                          in a function: the `bootstrap` of a custom runtime, or the entry point of an image
  tollway pipeline lambda --time 1m < event.json   on one event, to try it

The answer is {\"batchItemFailures\": [...]}: turn on ReportBatchItemFailures in the function's trigger.

A message that waits for quota when the function's time is nearly over goes back to its queue, which costs a receive. Where a
process can stay, `tollway pipeline run` takes tokens first and then messages.";

/// Work on messages of SQS that AWS Lambda hands over
///
/// Works with the pipeline's ledger, like every other worker: `engine` is sqs:. A message goes back to its queue if its job is to
/// be tried again later, or if there was no quota for it until 10 seconds before the function's time is over.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The stage of all messages [default: the stage whose `queue` they come from]
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// How long an event from standard input may take; Lambda says it by itself
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = read_span)]
    time: Span,
    /// Lowest level to log on standard error [default: $TOLLWAY_LOG_LEVEL, else info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<Level>,
    /// How log lines are written on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: Format,
}

#[cfg(feature = "aws")]
pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    events::run(arguments, which, context)
}

#[cfg(not(feature = "aws"))]
pub(super) fn run(arguments: &Arguments, _: &Which, _: &Context) -> Result<Exit, Failure> {
    let Arguments { stage: _, time: _, log_level: _, log_format: _ } = arguments;
    Err(Failure::new(Exit::CONFIG, "this build has no AWS support").advise("build it with `--features aws`"))
}
