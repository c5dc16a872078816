//! The policies to forecast: the limits as they are, and one more for each `--what-if`.

use std::sync::Arc;

use tollway::core::{Policy, nearest};
use tollway::{Limit, Name};
use tollway_forecast::plan::{Forecast, Load, PlanError, Scenario, replace_limit};

use super::{Arguments, Column};
use crate::context::Context;
use crate::failure::Failure;
use crate::humanize::{self, first_of};

/// The forecast of the limits as they are, then one for each `--what-if`.
pub(super) fn forecast(
    arguments: &Arguments,
    load: &Load,
    context: &Context,
) -> Result<Vec<Column>, Failure> {
    let (heading, base) = match &arguments.policy {
        Some(name) => (name.clone(), Policy::clone(&*configured(name, context)?)),
        None => given(&arguments.limits)?,
    };
    let costs: Vec<(&str, u64)> =
        arguments.costs.iter().map(|cost| (cost.unit.as_str(), cost.amount)).collect();
    let scenario = |policy: Policy| Scenario::new(policy, &costs).map_err(failure);
    let mut scenarios = vec![(heading, None, scenario(base.clone())?)];
    for text in &arguments.what_if {
        let limit = read_limit("--what-if", text)?;
        let heading = limit.to_string();
        let policy = replace_limit(&base, limit).map_err(failure)?;
        scenarios.push((heading, Some(text.clone()), scenario(policy)?));
    }
    let column = |(heading, what_if, scenario)| {
        let forecast = Forecast::new(scenario, load).map_err(failure)?;
        Ok(Column { heading, what_if, forecast })
    };
    scenarios.into_iter().map(column).collect()
}

fn configured(name: &str, context: &Context) -> Result<Arc<Policy>, Failure> {
    let config = context.config()?;
    let known = || config.policies().iter().map(|policy| policy.name().as_str());
    config.policy(name).cloned().ok_or_else(|| {
        let failure = Failure::not_found(format!("there is no policy {name:?}"));
        match (nearest(name, known()), known().next()) {
            (Some(near), _) => failure.advise(format!("did you mean {near:?}?")),
            (None, Some(_)) => failure.advise(format!("the config has {}", first_of(known()))),
            (None, None) => failure.advise("the config has no policies; give limits with --limit"),
        }
    })
}

fn given(texts: &[String]) -> Result<(String, Policy), Failure> {
    let limits: Vec<Limit> =
        texts.iter().map(|text| read_limit("--limit", text)).collect::<Result<_, _>>()?;
    let heading = match &*limits {
        [limit] => limit.to_string(),
        _ => "as given".to_owned(),
    };
    let name = Name::new("plan").map_err(Failure::usage)?;
    Ok((heading, Policy::of_limits(name, limits).map_err(Failure::usage)?))
}

/// Parses a limit; an error points at the wrong word.
fn read_limit(option: &str, text: &str) -> Result<Limit, Failure> {
    text.parse().map_err(|error: tollway::core::LimitTextError| {
        let pointed: Vec<String> = error.pointed().lines().map(|line| format!("  {line}")).collect();
        Failure::usage(format!("{option}: {}\n{}", error.message(), pointed.join("\n")))
    })
}

/// Names the option that caused the error.
fn failure(error: PlanError) -> Failure {
    let failure = Failure::usage(&error);
    match error {
        PlanError::UnknownUnit { unit, known } => unknown_unit(&unit, &known),
        PlanError::UnitTwice { unit } => {
            Failure::usage(format!("--cost gives {unit} twice")).advise("give each unit once")
        }
        PlanError::NeverGranted { limit, charge } => {
            let unit = limit.unit().as_str();
            Failure::usage(format!(
                "a call of {} can never be granted: \"{limit}\" grants at most {} at once",
                humanize::counted(charge, unit),
                humanize::count(limit.capacity())
            ))
            .advise(format!("split the call, or lower its cost with --cost {unit}=N"))
        }
        PlanError::NoSuchLimit { limit, names } => {
            let names: Vec<&str> = names.iter().map(Name::as_str).collect();
            let text = limit.to_string();
            Failure::usage(format!("--what-if {text:?}: which limit would it replace?")).advise(format!(
                "prefix it with a name, e.g. \"{}: {text}\"; the limits are {}",
                names.first().unwrap_or(&""),
                names.join(", ")
            ))
        }
        PlanError::NeedsLatency { .. } => failure.advise("give the duration of a call, e.g. --latency 1.5s"),
        PlanError::CostsNothing { limit } => {
            failure.advise(format!("give the cost of a call, e.g. --cost {}=100", limit.unit()))
        }
        PlanError::Cost(_) | PlanError::Policy(_) => failure,
    }
}

fn unknown_unit(unit: &str, known: &[Name]) -> Failure {
    let units: Vec<&str> = known.iter().map(Name::as_str).collect();
    let failure = Failure::usage(format!("--cost: no limit counts {unit:?}"));
    match (nearest(unit, units.iter().copied()), units.is_empty()) {
        (Some(near), _) => {
            failure.advise(format!("did you mean {near:?}? The limits count {}", units.join(", ")))
        }
        (None, false) => failure.advise(format!("the limits count {}", units.join(", "))),
        (None, true) => failure.advise("the limits count only concurrent calls, no units"),
    }
}
