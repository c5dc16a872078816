//! `pipeline lambda`: works on messages of SQS as a function of AWS Lambda, or on one event from standard input.

mod figures;

use std::env;
use std::io::{Read, stdin};

use tollway::core::read_span;
use tollway::{Limiter, Span, Timestamp};
use tollway_config::ConfigFile;
use tollway_pipeline::EngineUrl;
use tollway_pipeline::lambda::{
    EVENT_BYTES_MAX, Invocation, LambdaWorker, RETURN_BEFORE, RuntimeApi, SqsEvent,
};

use self::figures::Figures;
use super::session::{Which, runtime, stage_of};
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use crate::serve;
use crate::serve::log::{self, Level};

/// Lambda's address for programs. It sets the variable in every function.
const VARIABLE: &str = "AWS_LAMBDA_RUNTIME_API";

const EXAMPLES: &str = "\
Examples:
  tollway pipeline lambda                          in a function: the `bootstrap` of a custom runtime, or the entry point of an image
  tollway pipeline lambda --time 1m < event.json   on one event, to try it

The answer is {\"batchItemFailures\": [...]}: turn on ReportBatchItemFailures in the function's trigger.

A message that waits for quota when the function's time is nearly over goes back to its queue, which costs a receive. Where a
process can stay, `tollway pipeline run` takes tokens first and then messages.";

/// Work on messages of SQS that AWS Lambda hands over
///
/// Takes from the same quota as every other worker. A message goes back to its queue if its job failed, or if there was no
/// quota for it until 10 seconds before the function's time is over. What a job hands on goes to the pipeline's engine.
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
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    log::begin(arguments.log_level, Level::Info)?;
    runtime()?.block_on(work(arguments, which, context))
}

async fn work(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    if arguments.time <= RETURN_BEFORE {
        return Err(Failure::usage(format!("--time must be longer than {RETURN_BEFORE}")));
    }
    let file: ConfigFile<WholeConfig> = ConfigFile::load(context.config_path()?)?;
    let config = which.find(file.config().pipelines())?.clone();
    let stage = arguments.stage.as_ref().map(|name| stage_of(&config, name)).transpose()?;
    let limiter = serve::limiter(file.config().limits(), &context.store(file.config().limits())?)?;
    serve::read_set_limits(&limiter).await;
    serve::send_incidents(&limiter)?;
    let engine = config.engine.open_for_command(true).await?;
    let worker = LambdaWorker::new(config.clone(), limiter.clone(), engine.clone(), stage);
    let worker = worker.map_err(|error| Failure::new(Exit::CONFIG, error))?;
    let figures =
        Figures::new(file.config().cloudwatch(), &config, engine, worker.own_events(), &limiter).await?;
    let address = env::var(VARIABLE).ok().filter(|address| !address.is_empty());
    if address.is_some() && matches!(config.engine, EngineUrl::Sqlite(_)) {
        tracing::warn!(
            "what is handed on is kept in a file that ends with this function: use sqs: or postgres://"
        );
    }
    match address {
        Some(address) => serve_lambda(&address, &worker, figures).await,
        None => one_event(arguments.time, &worker, figures, &limiter, context).await,
    }
}

/// Works on events for as long as Lambda lets the process live.
async fn serve_lambda(address: &str, worker: &LambdaWorker, mut figures: Figures) -> Result<Exit, Failure> {
    let failed = |error| Failure::new(Exit::FAILED, error);
    let api = RuntimeApi::new(address).map_err(failed)?;
    loop {
        let Invocation { id, deadline, event } = api.next().await.map_err(failed)?;
        match handle(&event, deadline, worker).await {
            Ok(failures) => {
                figures.publish().await;
                api.respond(&id, &failures).await.map_err(failed)?;
            }
            Err(error) => {
                tracing::error!("the event goes back: {error}");
                api.fail(&id, &error).await.map_err(failed)?;
            }
        }
    }
}

async fn one_event(
    time: Span,
    worker: &LambdaWorker,
    mut figures: Figures,
    limiter: &Limiter,
    context: &Context,
) -> Result<Exit, Failure> {
    let mut event = String::new();
    let bound = u64::try_from(EVENT_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let read = stdin().lock().take(bound).read_to_string(&mut event);
    read.map_err(|error| Failure::new(Exit::DATA, format!("the event cannot be read: {error}")))?;
    let failures = handle(&event, context.now().plus(time), worker).await;
    let failures = failures.map_err(|error| Failure::new(Exit::DATA, error))?;
    figures.publish().await;
    if let Err(error) = limiter.close().await {
        tracing::warn!("{error}");
    }
    context.output().line(failures.to_json())?;
    Ok(Exit::DONE)
}

async fn handle(
    event: &str,
    deadline: Timestamp,
    worker: &LambdaWorker,
) -> Result<tollway_pipeline::lambda::BatchFailures, String> {
    let event = SqsEvent::parse(event).map_err(|error| error.to_string())?;
    let failures = worker.handle(&event, deadline).await.map_err(|error| error.to_string())?;
    tracing::info!(messages = event.records.len(), back = failures.len(), "worked on an event");
    Ok(failures)
}
