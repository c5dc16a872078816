//! The policies on trial: that of `--policy` or `--limit`, and one more for each `--what-if`.

use tollway::core::{bounds::WAIT_MAX, nearest};
use tollway::{Policy, Span};
use tollway_simulate::{SimulateError, TrialPolicy, replace_limit};

use super::Arguments;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::words;

/// The name of the policy of `--limit`; it is never shown.
const BROUGHT_ALONG: &str = "limits";

/// The most what-ifs: more columns are hard to read.
const WHAT_IFS_MAX: usize = 4;

/// The policy as it is, then one for each what-if.
pub(super) fn on_trial(arguments: &Arguments, context: &Context) -> Result<Vec<TrialPolicy>, Failure> {
    if arguments.what_if.len() > WHAT_IFS_MAX {
        return Err(Failure::usage(format!(
            "there is room for {WHAT_IFS_MAX} what-ifs, not {}",
            arguments.what_if.len()
        )));
    }
    let max_wait = arguments.max_wait.unwrap_or(Span::ZERO);
    if max_wait > WAIT_MAX {
        return Err(Failure::usage(format!(
            "--max-wait {max_wait} is more than the {WAIT_MAX} that a take may wait"
        )));
    }
    let (title, policy) = match &arguments.policy {
        Some(name) => (name.clone(), configured(name, context)?),
        None => ("as given".to_owned(), brought_along(&arguments.limit, max_wait)?),
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
        let why = "a log does not say how long calls took";
        context.output().warning(format_args!("{slots} is left out: {why}"));
    }
    Ok(trial)
}

fn failure(error: SimulateError) -> Failure {
    let failure = Failure::usage(&error);
    match error {
        SimulateError::WaitUnderSliding { .. } => {
            failure.advise("leave --max-wait out to see how long until denied calls would have fitted")
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
    let failure = Failure::new(Exit::CONFIG, format!("there is no policy {name:?}"));
    Err(match (nearest(name, names.iter().copied()), names.as_slice()) {
        (Some(near), _) => failure.advise(format!("did you mean {near:?}?")),
        (None, []) => {
            failure.advise("the config has none; bring the limits along: --limit \"200 requests / minute\"")
        }
        (None, names) => failure.advise(format!("the config has {}", names.join(", "))),
    })
}

/// The policy of `--limit`, under which a take waits as long as `--max-wait` says.
fn brought_along(limits: &[String], max_wait: Span) -> Result<Policy, Failure> {
    let policy = Policy::new(BROUGHT_ALONG, limits.iter().map(String::as_str)).map_err(Failure::usage)?;
    policy.with_max_wait(max_wait).map_err(Failure::usage)
}

fn warn_of_shorter_waits(policy: &Policy, max_wait: Span, context: &Context) {
    if max_wait > policy.max_wait() {
        let most = words::span(policy.max_wait());
        context.output().warning(format_args!(
            "the policy lets takes wait {most} at the most, so these do not wait longer"
        ));
    }
}
