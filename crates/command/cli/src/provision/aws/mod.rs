//! `tollway provision aws`: finds existing resources, creates missing ones, and deletes them.
//!
//! `resources` is the one description of them, made of the config; `pipelines` adds queues, `monitoring` alarms and a
//! dashboard. `table`, `parameter`, `queue`, `topic`, `alarm` and `dashboard` find, create and delete one kind of resource over
//! an `account`, and `steps` chooses among them; `made_by` marks what was created. `survey` looks for `doctor`, `template` writes
//! them for CloudFormation, `roles` lists permissions, `report` writes the result.

pub(crate) mod account;
mod alarm;
mod dashboard;
mod error;
mod made_by;
mod monitoring;
mod parameter;
#[cfg(feature = "pipeline")]
mod pipelines;
mod queue;
mod report;
mod resources;
mod roles;
mod steps;
pub(crate) mod survey;
pub(crate) mod table;
mod template;
mod topic;

use std::io::{self, BufRead, IsTerminal, Read, Write};

use serde_json::Value;

use self::error::ProvisionError;
use self::report::{Done, State, Step};
use self::resources::{Resource, Wanted};
use super::AwsArguments;
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};

/// How often SQS delivers a message before it moves it to the dead-letter queue. A pipeline counts tries by itself; this is for
/// messages that kill their worker each time.
const MAX_RECEIVES: u32 = 10;

/// As the documents have it.
const MAX_RECEIVES_DOCUMENTED: u32 = 3;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64;

pub(super) fn run(arguments: &AwsArguments, context: &Context) -> Result<Exit, Failure> {
    let max_receives = if arguments.as_documented { MAX_RECEIVES_DOCUMENTED } else { MAX_RECEIVES };
    if arguments.as_documented {
        context.output().warning(
            "SQS counts every receive, also of a job whose worker was stopped or whose Lambda waited for quota: \
             after 3 of them it takes a good job for a dead letter",
        );
    }
    let config = WholeConfig::load(context.config_path()?)?;
    let store = context.named_store().or(config.limits().store());
    let wanted = resources::of(&config, store, max_receives)?;
    if let Some(role) = arguments.iam {
        return print(&roles::policy(&wanted, role), context);
    }
    if arguments.cloudformation {
        return print(&template::template(&wanted), context);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot start the async runtime: {error}")))?;
    let steps = runtime.block_on(look(&wanted.resources)).map_err(failed)?;
    if arguments.destroy {
        return runtime.block_on(destroy(&wanted, steps, arguments, context));
    }
    runtime.block_on(apply(&wanted, steps, arguments.apply, context))
}

fn print(value: &Value, context: &Context) -> Result<Exit, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::new(Exit::FAILED, error))?;
    context.output().line(text)?;
    Ok(Exit::DONE)
}

fn failed(error: ProvisionError) -> Failure {
    Failure::new(Exit::STORE, &error.message).advise(&error.advice)
}

async fn look(resources: &[Resource]) -> Result<Vec<Step>, ProvisionError> {
    let mut steps = Vec::new();
    for resource in resources {
        steps.push(Step::new(resource, resource.look().await?));
    }
    Ok(steps)
}

/// Creates what is missing, in order. What was created before a failure stays, and the next run finds it.
async fn apply(
    wanted: &Wanted,
    mut steps: Vec<Step>,
    apply: bool,
    context: &Context,
) -> Result<Exit, Failure> {
    // Before anything is created: if one resource cannot be created, none is.
    if let Some(problem) = steps.iter().find_map(Step::problem) {
        report::say(&steps, wanted, Done::Nothing, context)?;
        return Err(failed(problem));
    }
    let done = if apply { Done::Applied } else { Done::Nothing };
    if apply {
        let missing = wanted.resources.iter().zip(&mut steps).filter(|(_, step)| !step.state.is_ready());
        for (resource, step) in missing {
            context.output().note(format_args!("creating {} {}", step.kind, step.name));
            resource.make().await.map_err(failed)?;
            step.state = State::Made;
        }
    }
    report::say(&steps, wanted, done, context)?;
    Ok(Exit::DONE)
}

/// Deletes what `--apply` made and what `--all` names, the last one first. The rest is kept.
async fn destroy(
    wanted: &Wanted,
    mut steps: Vec<Step>,
    arguments: &AwsArguments,
    context: &Context,
) -> Result<Exit, Failure> {
    check_names(&arguments.all, &steps)?;
    for (resource, step) in wanted.resources.iter().zip(&mut steps) {
        let is_named = arguments.all.contains(&step.name);
        if step.state != State::Missing && !is_named && !resource.is_ours().await.map_err(failed)? {
            step.state = State::Kept;
        }
    }
    let doomed = steps.iter().filter(|step| is_doomed(step));
    let names: Vec<String> = doomed.map(|step| format!("{} {}", step.kind, step.name)).collect();
    if names.is_empty() {
        context.output().note("nothing was deleted: nothing exists that `--apply` made");
    } else if !arguments.yes && !is_confirmed(&names, context)? {
        context.output().note("nothing was deleted");
        return Ok(Exit::DONE);
    }
    for (resource, step) in wanted.resources.iter().zip(&mut steps).rev() {
        if is_doomed(step) {
            context.output().note(format_args!("deleting {} {}", step.kind, step.name));
            resource.remove().await.map_err(failed)?;
            step.state = State::Removed;
        }
    }
    report::say(&steps, wanted, Done::Destroyed, context)?;
    Ok(Exit::DONE)
}

fn is_doomed(step: &Step) -> bool {
    !matches!(step.state, State::Missing | State::Kept | State::Removed)
}

/// A name that the config does not need is a mistake, and must not look like a success.
fn check_names(names: &[String], steps: &[Step]) -> Result<(), Failure> {
    match names.iter().find(|name| !steps.iter().any(|step| step.name == **name)) {
        Some(unknown) => {
            let known: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
            Err(Failure::usage(format!("the config needs nothing called {unknown:?}"))
                .advise(format!("it needs {}", known.join(", "))))
        }
        None => Ok(()),
    }
}

fn is_confirmed(names: &[String], context: &Context) -> Result<bool, Failure> {
    if context.output().is_json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let count = names.len();
        return Err(Failure::usage(format!(
            "this would delete {count} resources, and cannot ask without a terminal"
        ))
        .advise("add --yes to do it; --plan lists them"));
    }
    let mut asking = io::stderr();
    write!(
        asking,
        "delete these, with all usage, jobs and dead letters in them?\n  {}\n[y/N] ",
        names.join("\n  ")
    )?;
    asking.flush()?;
    let mut answer = String::new();
    io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}
