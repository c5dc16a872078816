//! The policies on trial: the one that was named or brought along, and what it would be with another limit.

use tollway::core::{bounds::WAIT_MAX, nearest};
use tollway::{Limit, Policy, Span};

use super::Arguments;
use super::replay::TrialPolicy;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::words;

/// The name of a policy of limits that were brought along; nobody sees it.
const BROUGHT_ALONG: &str = "limits";

/// How many what-ifs there are at most: more columns than these are hard to read.
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
    let policy = without_slots(&policy, context)?;
    warn_of_shorter_waits(&policy, max_wait, context);
    let mut trials = vec![TrialPolicy { title, policy }];
    for (index, limit) in arguments.what_if.iter().enumerate() {
        let title = if index == 0 { "what if".to_owned() } else { format!("what if {}", index + 1) };
        let policy = without_slots(&what_if(&trials[0].policy, limit)?, context)?;
        trials.push(TrialPolicy { title, policy });
    }
    trials.iter().try_for_each(|trial| check_wait(&trial.policy, max_wait))?;
    Ok(trials)
}

/// The policy of this name, enforced even if it is a shadow: what it would do is the question.
fn configured(name: &str, context: &Context) -> Result<Policy, Failure> {
    let config = context.config()?;
    if let Some(policy) = config.policy(name) {
        return Ok(Policy::clone(policy).with_shadow(false));
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

/// Limits without a config let a take wait as long as it asks to.
fn brought_along(limits: &[String], max_wait: Span) -> Result<Policy, Failure> {
    let policy = Policy::new(BROUGHT_ALONG, limits.iter().map(String::as_str)).map_err(Failure::usage)?;
    policy.with_max_wait(max_wait).map_err(Failure::usage)
}

/// The policy with this limit in place of the one of its name. If it has none, this limit is the whole policy.
fn what_if(policy: &Policy, limit: &Limit) -> Result<Policy, Failure> {
    let mut limits = policy.limits().to_vec();
    match limits.iter_mut().find(|known| known.name() == limit.name()) {
        Some(known) => *known = limit.clone(),
        None => limits = vec![limit.clone()],
    }
    policy.with_limits(limits).map_err(Failure::usage)
}

/// A log does not say how long calls took, so nobody can say how many there were at a time.
fn without_slots(policy: &Policy, context: &Context) -> Result<Policy, Failure> {
    let (slots, limits): (Vec<Limit>, Vec<Limit>) =
        policy.limits().iter().cloned().partition(|limit| limit.has_slots());
    let Some(slot) = slots.first() else { return Ok(policy.clone()) };
    let why = "a log does not say how long calls took";
    if limits.is_empty() {
        return Err(Failure::usage(format!("{slot} cannot be simulated: {why}")));
    }
    context.output().warning(format_args!("{slot} is left out: {why}"));
    policy.with_limits(limits).map_err(Failure::usage)
}

fn check_wait(policy: &Policy, max_wait: Span) -> Result<(), Failure> {
    if max_wait == Span::ZERO {
        return Ok(());
    }
    if let Some(limit) = policy.limits().iter().find(|limit| limit.slides()) {
        return Err(Failure::usage(format!(
            "waits under `{limit}` cannot be simulated: a sliding limit books nobody ahead"
        ))
        .advise("leave --max-wait out to see how long until denied calls would have fitted"));
    }
    Ok(())
}

fn warn_of_shorter_waits(policy: &Policy, max_wait: Span, context: &Context) {
    if max_wait > policy.max_wait() {
        let most = words::span(policy.max_wait());
        context.output().warning(format_args!(
            "the policy lets takes wait {most} at the most, so these do not wait longer"
        ));
    }
}
