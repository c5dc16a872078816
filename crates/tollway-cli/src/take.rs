//! `tollway take`: one take.

use serde_json::json;
use tollway::{Denied, Permit, Policy, Span};

use crate::asked::Asked;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::meters::Meter;
use crate::output::{BAD, FAINT, GOOD};
use crate::turn::{Turn, on_a_runtime, wait_for_turn};
use crate::usage::policy_in_force;
use crate::words;

/// Take from a policy's limits, waiting for the turn
///
/// Waits until the cost fits into every limit of the policy, as long as the policy allows or --max-wait says, first
/// come first served among all who share the store. Exits 0 if it was granted and 75 if it was denied; a denied take
/// takes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway take adobe && curl https://vendor.example/convert
  tollway take gemini -s team-a --cost tokens=3750 --max-wait 30s
  tollway take ci --limit \"10 / hour\" --max-wait 0 || echo not now")]
pub(crate) struct Arguments {
    /// The policy
    policy: String,
    #[command(flatten)]
    asked: Asked,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let turn = arguments.asked.turn(&arguments.policy)?;
    let limiter = arguments.asked.whose.limiter(&arguments.policy, context)?;
    let policy = policy_in_force(&limiter, &arguments.policy)?;
    if policy.holds_slots() {
        return Err(Failure::usage(format!(
            "policy {} has a concurrency limit, and a slot taken here would be free again at once",
            policy.name()
        ))
        .advise(format_args!(
            "tollway run -p {} -- COMMAND holds it while the command runs",
            policy.name()
        )));
    }
    let asked_at = context.now();
    match on_a_runtime(wait_for_turn(&limiter, &turn, context))? {
        Ok(permit) => {
            let waited = context.now().since(asked_at);
            granted(&turn, &*policy_in_force(&limiter, turn.policy)?, &permit, waited, context)?;
            Ok(Exit::DONE)
        }
        Err(denied) => {
            say_denied(&turn, &denied, context)?;
            Ok(Exit::DENIED)
        }
    }
}

fn granted(
    turn: &Turn<'_>,
    policy: &Policy,
    permit: &Permit,
    waited: Span,
    context: &Context,
) -> Result<(), Failure> {
    let (output, now) = (context.output(), context.now());
    let meters = Meter::of_readings(policy.limits(), permit.decision().readings_of(0), now);
    if output.is_json() {
        return output.json(&json!({
            "granted": true,
            "policy": turn.policy,
            "subject": turn.subject,
            "permit": permit.id().to_string(),
            "waited_ms": waited.as_micros() / 1_000,
            "degraded": permit.degraded(),
            "would_deny": permit.would_deny(),
            "limits": meters,
        }));
    }
    if output.is_quiet() {
        return Ok(());
    }
    let after = match waited {
        waited if waited < Span::from_millis(100) => String::new(),
        waited => format!(" {FAINT}after {}{FAINT:#}", words::span(waited)),
    };
    let shadow = if permit.would_deny() { " (as a shadow; it would have been denied)" } else { "" };
    output.line(format_args!("{GOOD}granted{GOOD:#}{after}{shadow}"))?;
    let width = meters.iter().map(|meter| meter.name().len()).max().unwrap_or(0);
    meters.iter().try_for_each(|meter| output.line(format_args!("  {}", meter.line(width, now))))
}

/// Says that a take was denied, by which limit, and until when.
pub(crate) fn say_denied(turn: &Turn<'_>, denied: &Denied, context: &Context) -> Result<(), Failure> {
    let output = context.output();
    if output.is_json() {
        return output.json(&json!({
            "granted": false,
            "policy": turn.policy,
            "subject": turn.subject,
            "limit": denied.limit().map(|limit| limit.name().as_str()),
            "retry_after_ms": denied.retry_after().as_micros().div_ceil(1_000),
            "degraded": denied.degraded(),
            "limits": Meter::of_readings(denied.policy().limits(), denied.decision().readings_of(0), context.now()),
        }));
    }
    if output.is_quiet() {
        return Ok(());
    }
    let limit = denied.limit().map(ToString::to_string).unwrap_or_default();
    let again = words::duration(denied.retry_after());
    let longest: Span = turn.max_wait.unwrap_or(denied.policy().max_wait()).min(denied.policy().max_wait());
    let longest = match longest {
        Span::ZERO => String::new(),
        longest => format!(", later than the longest wait of {}", words::span(longest)),
    };
    output.line(format_args!("{BAD}denied{BAD:#} by {limit}; free in {again}{longest}"))
}
