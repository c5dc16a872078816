//! `tollway why`: why a take is denied, and when it will not be.

use serde_json::json;
use tollway::core::{Algorithm, Reading};
use tollway::{Denied, Limit, Limiter};

use crate::asked::{HowMuch, Whose};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::meters::Meter;
use crate::output::{BAD, FAINT, GOOD, STRONG};
use crate::turn::Turn;
use crate::usage::{follow, meters_of, policy_in_force};
use crate::words;

/// Explain why a take is denied, and when it will not be
///
/// Asks the store what a take would be answered now, without taking: which limit says no, how much of it is used, when
/// it is free, and which amount would have been enough. Exits 0 if it would be granted and 75 if it would be denied.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway why adobe
  tollway why gemini -s team-a --cost tokens=3750")]
pub(crate) struct Arguments {
    /// The policy
    policy: String,
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    how_much: HowMuch,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    arguments.how_much.check()?;
    let limiter = arguments.whose.limiter(&arguments.policy, context)?;
    follow(&limiter, context);
    let turn = Turn {
        policy: &arguments.policy,
        subject: arguments.whose.subject.as_deref(),
        costs: &arguments.how_much.costs,
        max_wait: None,
        id: None,
    };
    match turn.preview(&limiter)? {
        None => {
            say_granted(&limiter, &turn, context)?;
            Ok(Exit::DONE)
        }
        Some(denied) => {
            say_denied(&turn, &denied, arguments.whose.brought_limits(), context)?;
            Ok(Exit::DENIED)
        }
    }
}

fn say_granted(limiter: &Limiter, turn: &Turn<'_>, context: &Context) -> Result<(), Failure> {
    let policy = policy_in_force(limiter, turn.policy)?;
    let meters = meters_of(limiter, &policy, turn.subject, context)?;
    let (output, now) = (context.output(), context.now());
    if output.is_json() {
        return output.json(&json!({
            "would_grant": true, "policy": turn.policy, "subject": turn.subject, "limits": meters,
        }));
    }
    if policy.shadow() {
        output
            .line(format_args!("{GOOD}a shadow never denies{GOOD:#}: policy {} only watches", turn.policy))?;
    } else {
        output.line(format_args!("{GOOD}nothing stands in the way{GOOD:#}: it would be granted now"))?;
    }
    let width = meters.iter().map(|meter| meter.name().len()).max().unwrap_or(0);
    meters.iter().try_for_each(|meter| output.line(format_args!("  {}", meter.line(width, now))))
}

/// A limit that has no room for its charge.
struct Lack<'a> {
    limit: &'a Limit,
    reading: &'a Reading,
    charge: u64,
}

impl Lack<'_> {
    /// The capacity with which it would have fitted.
    fn enough(&self) -> u64 {
        self.reading.used.saturating_add(self.charge)
    }

    /// What to set the limit to for that, as `tollway limit set` reads it; nothing where no amount would help.
    fn remedy(&self) -> Option<String> {
        let enough = self.enough();
        match self.limit.algorithm() {
            Algorithm::Paced(_) => None,
            Algorithm::Bucket { period, burst } if *burst != self.limit.amount() => {
                let algorithm = Algorithm::Bucket { period: *period, burst: enough };
                let limit = Limit::new(self.limit.amount(), self.limit.unit().clone(), algorithm).ok()?;
                Some(format!("\"{limit}\""))
            }
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Concurrency { .. } => {
                self.limit.with_amount(enough).ok().map(|_| enough.to_string())
            }
        }
    }
}

fn lacking<'a>(turn: &Turn<'_>, denied: &'a Denied) -> Vec<Lack<'a>> {
    let policy = denied.policy();
    let costs = turn.costs.iter().map(|cost| (cost.unit.as_str(), cost.amount));
    let Ok(cost) = policy.cost(costs) else { return Vec::new() };
    let charges: Vec<u64> = policy.amounts(&cost).map(|(_, charge)| charge).collect();
    let limits = policy.limits().iter().zip(denied.decision().readings_of(0)).zip(charges);
    let lack = |((limit, reading), charge)| Lack { limit, reading, charge };
    limits.map(lack).filter(|lack| lack.charge > lack.reading.remaining).collect()
}

fn say_denied(turn: &Turn<'_>, denied: &Denied, brought: bool, context: &Context) -> Result<(), Failure> {
    let (output, now) = (context.output(), context.now());
    let lacks = lacking(turn, denied);
    let booked_until = denied.decision().readings_of(0).iter().map(|reading| reading.as_of).max();
    let booked_until = booked_until.filter(|until| until.since(now) > tollway::Span::from_millis(50));
    if output.is_json() {
        return output.json(&json!({
            "would_grant": false,
            "policy": turn.policy,
            "subject": turn.subject,
            "limit": denied.limit().map(|limit| limit.name().as_str()),
            "retry_after_ms": denied.retry_after().as_micros().div_ceil(1_000),
            "retry_at": denied.retry_at().to_string(),
            "booked_until": booked_until.map(|until| until.to_string()),
            "lacking": lacks.iter().map(|lack| json!({
                "limit": lack.limit.name().as_str(), "cost": lack.charge, "remaining": lack.reading.remaining,
                "enough": booked_until.is_none().then(|| lack.enough()),
            })).collect::<Vec<_>>(),
            "limits": Meter::of_readings(denied.policy().limits(), denied.decision().readings_of(0), now),
        }));
    }
    let by = denied.limit().map(ToString::to_string).unwrap_or_default();
    output.line(format_args!("{BAD}denied{BAD:#} by {STRONG}{by}{STRONG:#} of policy {}", turn.policy))?;
    output.line(format_args!("  {}", whom(turn)))?;
    if let Some(until) = booked_until {
        let (at, wait) = (words::moment(until, now), words::span(until.since(now)));
        output.line(format_args!(
            "  others stand in line: places are booked for the next {wait}, until {at}"
        ))?;
    }
    // While others stand in line, no amount would have been enough for somebody who comes now; and a limit that was
    // brought along is not in the store to be set.
    let remedies = booked_until.is_none() && !brought;
    lacks.iter().try_for_each(|lack| say_lack(lack, turn, remedies, context))?;
    let (wait, at) = (words::duration(denied.retry_after()), words::moment(denied.retry_at(), now));
    output.line(format_args!("  free in {STRONG}{wait}{STRONG:#}, at {at}, unless units come back before"))
}

fn whom(turn: &Turn<'_>) -> String {
    match turn.subject {
        Some(subject) => format!("counted for {subject} alone"),
        None => "counted for all who name no subject together".to_owned(),
    }
}

fn say_lack(lack: &Lack<'_>, turn: &Turn<'_>, remedies: bool, context: &Context) -> Result<(), Failure> {
    let Lack { limit, reading, charge } = lack;
    let name = limit.name();
    let used = words::count(reading.used);
    let slots = limit.has_slots();
    let of = words::counted(reading.capacity, if slots { "slots" } else { limit.unit().as_str() });
    let output = context.output();
    output.line(format_args!(
        "  {name}: {used} of {of} used, {} left, {} asked",
        words::count(reading.remaining),
        words::count(*charge)
    ))?;
    let Some(remedy) = lack.remedy().filter(|_| remedies) else { return Ok(()) };
    output.line(format_args!(
        "    {FAINT}{} would have been enough: tollway limit set {}.{name} {remedy}{FAINT:#}",
        words::count(lack.enough()),
        turn.policy
    ))
}
