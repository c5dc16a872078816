//! What is planned with: the limits as they are, and what if one of them were another.

use std::sync::Arc;

use tollway::core::{Cost, Policy, nearest};
use tollway::{Limit, Name};

use super::Arguments;
use super::read::UnitCost;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::words;

/// Limits, and what each call takes of them.
pub(super) struct Scenario {
    pub(super) heading: String,
    /// The limit that is tried, as it was written.
    pub(super) what_if: Option<String>,
    pub(super) policy: Policy,
    pub(super) cost: Cost,
}

/// The limits as they are, then one scenario for each `--what-if`.
pub(super) fn all(arguments: &Arguments, context: &Context) -> Result<Vec<Scenario>, Failure> {
    let (heading, base) = match &arguments.policy {
        Some(name) => (name.clone(), Policy::clone(&*configured(name, context)?)),
        None => given(&arguments.limits)?,
    };
    let mut scenarios = Vec::new();
    scenarios.push(Scenario::new(heading, None, base.clone(), &arguments.costs)?);
    for text in &arguments.what_if {
        let limit = read_limit("--what-if", text)?;
        let heading = limit.to_string();
        let policy = replace(&base, limit)?;
        scenarios.push(Scenario::new(heading, Some(text.clone()), policy, &arguments.costs)?);
    }
    Ok(scenarios)
}

impl Scenario {
    fn new(
        heading: String,
        what_if: Option<String>,
        policy: Policy,
        costs: &[UnitCost],
    ) -> Result<Self, Failure> {
        let mut cost = policy.default_cost().clone();
        for (index, UnitCost { unit, amount }) in costs.iter().enumerate() {
            if costs.iter().take(index).any(|earlier| earlier.unit == *unit) {
                return Err(Failure::usage(format!("--cost gives {unit} twice"))
                    .advise("give what one call takes of it once"));
            }
            if !policy.units().iter().any(|known| known.as_str() == unit) {
                return Err(unknown_unit(unit, &policy));
            }
            cost = policy.cost_with(cost, unit, *amount).map_err(Failure::usage)?;
        }
        refuse_impossible(&policy, &cost)?;
        Ok(Self { heading, what_if, policy, cost })
    }
}

fn configured(name: &str, context: &Context) -> Result<Arc<Policy>, Failure> {
    let config = context.config()?;
    let known = || config.policies().iter().map(|policy| policy.name().as_str());
    config.policy(name).cloned().ok_or_else(|| {
        let failure = Failure::new(Exit::CONFIG, format!("there is no policy {name:?}"));
        match (nearest(name, known()), known().next()) {
            (Some(near), _) => failure.advise(format!("did you mean {near:?}?")),
            (None, Some(_)) => {
                failure.advise(format!("the config has {}", known().collect::<Vec<_>>().join(", ")))
            }
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

/// Points at the word where the text goes wrong.
fn read_limit(option: &str, text: &str) -> Result<Limit, Failure> {
    text.parse().map_err(|error: tollway::core::LimitTextError| {
        let pointed: Vec<String> = error.pointed().lines().map(|line| format!("  {line}")).collect();
        Failure::usage(format!("{option}: {}\n{}", error.message(), pointed.join("\n")))
    })
}

/// The policy with this limit in place of the one of its name, or of the only one.
fn replace(policy: &Policy, limit: Limit) -> Result<Policy, Failure> {
    let limits = policy.limits();
    let place = match limits.iter().position(|known| known.name() == limit.name()) {
        None if limits.len() == 1 => 0,
        Some(place) => place,
        None => {
            let names: Vec<&str> = limits.iter().map(|known| known.name().as_str()).collect();
            let message =
                format!("--what-if {limit:?}: which limit would it replace?", limit = limit.to_string());
            let advice = format!(
                "put the name of one before it, as in \"{}: {limit}\"; the limits are {}",
                names.first().unwrap_or(&""),
                names.join(", ")
            );
            return Err(Failure::usage(message).advise(advice));
        }
    };
    let mut limits = limits.to_vec();
    if let Some(old) = limits.get_mut(place) {
        *old = limit;
    }
    policy.with_limits(limits).map_err(Failure::usage)
}

fn unknown_unit(unit: &str, policy: &Policy) -> Failure {
    let units: Vec<&str> = policy.units().iter().map(Name::as_str).collect();
    let failure = Failure::usage(format!("--cost: no limit counts {unit:?}"));
    match (nearest(unit, units.iter().copied()), units.is_empty()) {
        (Some(near), _) => {
            failure.advise(format!("did you mean {near:?}? The limits count {}", units.join(", ")))
        }
        (None, false) => failure.advise(format!("the limits count {}", units.join(", "))),
        (None, true) => failure.advise("the limits count no units, only calls under way"),
    }
}

/// A cost that could never be granted has no plan.
fn refuse_impossible(policy: &Policy, cost: &Cost) -> Result<(), Failure> {
    let Some((limit, charge)) = policy.charges(cost).find(|(limit, charge)| *charge > limit.capacity())
    else {
        return Ok(());
    };
    let unit = limit.unit().as_str();
    let message = format!(
        "a call of {} can never be granted: \"{limit}\" grants at most {} at once",
        words::counted(charge, unit),
        words::count(limit.capacity())
    );
    Err(Failure::usage(message).advise(format!("split the call, or give it less with --cost {unit}=N")))
}
