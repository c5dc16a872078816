//! The policies to compare: that of `--policy` or `--limit`, and one per `--what-if`.

use tollway::core::{bounds::WAIT_MAX, nearest};
use tollway::{Policy, Span};
use tollway_forecast::simulate::{SimulateError, TrialPolicy, replace_limit};

use super::Arguments;
use crate::context::Context;
use crate::failure::Failure;
use crate::humanize::{self, first_of};

/// The name of the policy of `--limit`; never printed.
const LIMITS_POLICY: &str = "limits";

/// The most `--what-if` options: more columns are hard to read.
const WHAT_IFS_MAX: usize = 4;

/// The original policy, then one per what-if.
pub(super) fn on_trial(arguments: &Arguments, context: &Context) -> Result<Vec<TrialPolicy>, Failure> {
    if arguments.what_if.len() > WHAT_IFS_MAX {
        return Err(Failure::usage(format!(
            "at most {WHAT_IFS_MAX} --what-if are allowed, not {}",
            arguments.what_if.len()
        )));
    }
    let max_wait = arguments.max_wait.unwrap_or(Span::ZERO);
    if max_wait > WAIT_MAX {
        return Err(Failure::usage(format!("--max-wait {max_wait} exceeds the maximum of {WAIT_MAX}")));
    }
    let (title, policy) = match &arguments.policy {
        Some(name) => (name.clone(), configured(name, context)?),
        None if arguments.limit.is_empty() => {
            return Err(Failure::usage("name the policy to replay it under: --policy NAME")
                .advise("or give a limit: --limit \"200 requests / minute\""));
        }
        None => ("as given".to_owned(), from_limits(&arguments.limit, max_wait)?),
    };
    let trial = on_one_trial(title, &policy, context)?;
    warn_of_shorter_waits(&trial.policy, max_wait, context);
    let mut trials = vec![trial];
    for (index, limit) in arguments.what_if.iter().enumerate() {
        let title = if index == 0 { "what if".to_owned() } else { format!("what if {}", index + 1) };
        let policy = replace_limit(&trials[0].policy, limit).map_err(Failure::usage)?;
        trials.push(on_one_trial(title, &policy, context)?);
    }
    trials.iter().try_for_each(|trial| trial.check_wait(max_wait)).map_err(failure)?;
    Ok(trials)
}

fn on_one_trial(title: String, policy: &Policy, context: &Context) -> Result<TrialPolicy, Failure> {
    let trial = TrialPolicy::new(title, policy).map_err(failure)?;
    if let Some(slots) = &trial.left_out {
        let why = "a log does not contain the duration of calls";
        context.output().warning(format_args!("{slots} is ignored: {why}"));
    }
    Ok(trial)
}

fn failure(error: SimulateError) -> Failure {
    let failure = Failure::usage(&error);
    match error {
        SimulateError::WaitUnderSliding { .. } => {
            failure.advise("omit --max-wait to see after which wait denied calls would fit")
        }
        _ => failure,
    }
}

/// The policy of this name in the config.
fn configured(name: &str, context: &Context) -> Result<Policy, Failure> {
    let config = context.config()?;
    if let Some(policy) = config.policy(name) {
        return Ok(Policy::clone(policy));
    }
    let names: Vec<&str> = config.policies().iter().map(|policy| policy.name().as_str()).collect();
    let failure = Failure::not_found(format!("there is no policy {name:?}"));
    Err(match (nearest(name, names.iter().copied()), names.as_slice()) {
        (Some(near), _) => failure.advise(format!("did you mean {near:?}?")),
        (None, []) => {
            failure.advise("the config has none; give the limits: --limit \"200 requests / minute\"")
        }
        (None, names) => failure.advise(format!("the config has {}", first_of(names.iter().copied()))),
    })
}

/// The policy of `--limit`, with `--max-wait` as its maximum wait.
fn from_limits(limits: &[String], max_wait: Span) -> Result<Policy, Failure> {
    let policy = Policy::new(LIMITS_POLICY, limits.iter().map(String::as_str)).map_err(Failure::usage)?;
    policy.with_max_wait(max_wait).map_err(Failure::usage)
}

fn warn_of_shorter_waits(policy: &Policy, max_wait: Span, context: &Context) {
    if max_wait > policy.max_wait() {
        let most = humanize::span(policy.max_wait());
        context.output().warning(format_args!("calls wait at most {most}, the policy's max_wait"));
    }
}
