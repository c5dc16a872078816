//! Works on events, from Lambda or from standard input.

use std::env;
use std::io::{Read, stdin};
use std::sync::Arc;
use std::time::Duration;

use tollway::{Limiter, Span, Timestamp};
use tollway_config::ConfigFile;
use tollway_pipeline::EngineUrl;
use tollway_pipeline::view::stage_of;
use tollway_sqs::SqsEngine;
use tollway_sqs::lambda::{
    BatchFailures, EVENT_BYTES_MAX, Invocation, LambdaWorker, RETURN_BEFORE, RuntimeApi, SqsEvent,
};

use super::Arguments;
use super::figures::Figures;
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use crate::pipeline::session::{Which, runtime};
use crate::serve;
use crate::serve::log::{self, Level};

/// How long the answer waits for metrics, and for incidents to be sent.
const DELIVERED_WITHIN: Duration = Duration::from_secs(1);

/// Lambda's address for programs. It sets the variable in every function.
const VARIABLE: &str = "AWS_LAMBDA_RUNTIME_API";

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    log::begin(arguments.log_level, Level::Info, arguments.log_format)?;
    runtime()?.block_on(work(arguments, which, context))
}

async fn work(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    if arguments.time <= RETURN_BEFORE {
        return Err(Failure::usage(format!("--time must be longer than {RETURN_BEFORE}")));
    }
    let file: ConfigFile<WholeConfig> = ConfigFile::load(context.config_path()?)?;
    let config = which.find(file.config().pipelines())?.clone();
    let stage = arguments.stage.as_ref().map(|name| stage_of(&config, name)).transpose()?;
    let (limits, policies) = (file.config().limits(), config.policies());
    let limiter = serve::limiter(limits, &context.store(limits)?, policies.iter().map(String::as_str))?;
    serve::read_set_limits(&limiter).await;
    serve::send_incidents(&limiter)?;
    if !matches!(config.engine, EngineUrl::Sqs(_)) {
        let message = format!("pipeline {} has no queues: its engine is {}", config.name, config.engine);
        return Err(Failure::new(Exit::CONFIG, message).advise("set engine = \"sqs:?ledger=tollway-jobs\""));
    }
    let engine = Arc::new(SqsEngine::for_deliveries(&config.engine)?);
    let worker = LambdaWorker::new(config.clone(), limiter.clone(), engine.clone(), stage);
    let figures =
        Figures::new(file.config().cloudwatch(), &config, engine, worker.own_events(), &limiter).await?;
    let address = env::var(VARIABLE).ok().filter(|address| !address.is_empty());
    match address {
        Some(address) => serve_lambda(&address, &worker, figures, &limiter).await,
        None => one_event(arguments.time, &worker, figures, &limiter, context).await,
    }
}

/// Works on events for as long as Lambda lets the process live.
async fn serve_lambda(
    address: &str,
    worker: &LambdaWorker,
    mut figures: Figures,
    limiter: &Limiter,
) -> Result<Exit, Failure> {
    let failed = |error| Failure::new(Exit::FAILED, error);
    let api = RuntimeApi::new(address).map_err(failed)?;
    loop {
        let Invocation { id, deadline, event } = api.next().await.map_err(failed)?;
        let handled = handle(&event, deadline, worker).await;
        // Lambda stops the process after the answer, and perhaps for ever.
        let published = tokio::time::timeout(DELIVERED_WITHIN, figures.publish()).await;
        if published.is_err() {
            tracing::warn!("metrics could not be sent in time");
        }
        deliver_incidents(limiter).await;
        match handled {
            Ok(failures) => {
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
    deliver_incidents(limiter).await;
    context.output().line(failures.to_json())?;
    Ok(Exit::DONE)
}

/// Sends incidents, and tells the store what was granted without it.
async fn deliver_incidents(limiter: &Limiter) {
    match tokio::time::timeout(DELIVERED_WITHIN, limiter.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("{error}"),
        Err(_) => tracing::warn!("incidents are not delivered yet; they are with the next event"),
    }
}

async fn handle(event: &str, deadline: Timestamp, worker: &LambdaWorker) -> Result<BatchFailures, String> {
    let event = SqsEvent::parse(event).map_err(|error| error.to_string())?;
    let failures = worker.handle(&event, deadline).await.map_err(|error| error.to_string())?;
    tracing::info!(messages = event.records.len(), back = failures.len(), "worked on an event");
    Ok(failures)
}
