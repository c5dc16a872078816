//! Finds existing resources and creates missing ones.

use super::error::ProvisionError;
use super::parameter::ParameterFound;
use super::report::{self, State, Step};
use super::resources::{self, Resource};
use super::table::{TableFound, TableSpec, Tables};
use crate::context::Context;
use crate::failure::{Exit, Failure};

pub(super) fn run(apply: bool, context: &Context) -> Result<Exit, Failure> {
    let config = context.config()?;
    let wanted = resources::of(&config, context.named_store().or(config.store()));
    if wanted.is_empty() {
        return Err(Failure::new(Exit::CONFIG, "the config needs no AWS resources").advise(
            "name a table, as in `url = \"dynamodb://tollway\"` below [store], or a parameter, as in \
             `source = \"ssm:/pdf-processing/adobe-api-rpm\"` below a policy",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot start the async runtime: {error}")))?;
    let mut steps = runtime.block_on(look(&wanted)).map_err(failed)?;
    // Before anything is created: if one resource cannot be created, none is.
    if let Some(problem) = steps.iter().find_map(Step::problem) {
        report::say(&steps, &wanted, apply, context)?;
        return Err(failed(problem));
    }
    if apply {
        runtime.block_on(make(&wanted, &mut steps, context)).map_err(failed)?;
    }
    report::say(&steps, &wanted, apply, context)?;
    Ok(Exit::DONE)
}

fn failed(error: ProvisionError) -> Failure {
    Failure::new(Exit::STORE, &error.message).advise(&error.advice)
}

async fn look(wanted: &[Resource]) -> Result<Vec<Step>, ProvisionError> {
    let mut steps = Vec::new();
    for wanted in wanted {
        steps.push(look_at(wanted).await?);
    }
    Ok(steps)
}

async fn look_at(wanted: &Resource) -> Result<Step, ProvisionError> {
    match wanted {
        Resource::Table { table, connect, .. } => {
            let found = Tables::new(connect).await.look(table).await?;
            let state = match &found {
                TableFound::Missing => State::Missing,
                TableFound::Ready => State::Ready,
                TableFound::WithoutTtl { other: None } => State::Incomplete("TTL is off"),
                // Creates nothing: returns the reason.
                found => State::Refused(refusal(connect, table, found).await),
            };
            Ok(Step::table(table, state))
        }
        Resource::Parameter { parameter, .. } => Ok(match parameter.look().await? {
            ParameterFound::Missing => Step::parameter(parameter, State::Missing, None),
            ParameterFound::Ready { value } => Step::parameter(parameter, State::Ready, Some(value)),
        }),
    }
}

async fn refusal(connect: &tollway_aws::Connect, table: &TableSpec, found: &TableFound) -> ProvisionError {
    let refused = Tables::new(connect).await.make(table, found).await;
    refused.err().unwrap_or_else(|| ProvisionError { message: String::new(), advice: String::new() })
}

async fn make(wanted: &[Resource], steps: &mut [Step], context: &Context) -> Result<(), ProvisionError> {
    for (wanted, step) in wanted.iter().zip(steps) {
        if step.state == State::Ready {
            continue;
        }
        context.output().note(format_args!("creating {} {}", step.kind, step.name));
        match wanted {
            Resource::Table { table, connect, .. } => {
                let tables = Tables::new(connect).await;
                let found = tables.look(table).await?;
                tables.make(table, &found).await?;
            }
            Resource::Parameter { parameter, .. } => parameter.make(&parameter.look().await?).await?,
        }
        step.state = State::Made;
    }
    Ok(())
}
