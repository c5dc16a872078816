//! `tollway take`: a single take.

use serde_json::json;
use tollway::{Denied, Permit, Policy, Span};

use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::layout::{COLUMNS, sentence};
use crate::meters::Meter;
use crate::output::{BAD, FAINT, GOOD};
use crate::stopwatch::Stopwatch;
use crate::take_arguments::TakeArguments;
use crate::usage::policy_in_force;
use crate::wait::{TakeOptions, block_on_runtime, wait_for_permit};

/// Take from a policy's limits, waiting if necessary
///
/// Waits until every limit of the policy has room for the cost, at most as long as the policy or --max-wait allows.
/// Callers of the same store queue first come, first served. Exits 0 if granted and 75 if denied; a denied take costs
/// nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway take adobe && curl https://vendor.example/convert
  tollway take gemini -s team-a --cost tokens=3750 --max-wait 30s
  tollway take ci --limit \"10 / hour\" --max-wait 0 || echo not now")]
pub(crate) struct Arguments {
    /// The policy
    #[arg(add = complete_names::policies())]
    policy: String,
    #[command(flatten)]
    asked: TakeArguments,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let options = arguments.asked.options(&arguments.policy)?;
    let limiter = arguments.asked.whose.limiter(&arguments.policy, context)?;
    let policy = policy_in_force(&limiter, &arguments.policy)?;
    if policy.holds_slots() {
        return Err(Failure::usage(format!(
            "policy {} has a concurrency limit; this command would release its slot at once",
            policy.name()
        ))
        .advise(format_args!(
            "hold the slot while a command runs: tollway run {} -- COMMAND",
            policy.name()
        )));
    }
    let stopwatch = Stopwatch::start();
    match block_on_runtime(wait_for_permit(&limiter, &options, context))? {
        Ok(permit) => {
            let waited = stopwatch.elapsed();
            granted(&options, &*policy_in_force(&limiter, options.policy)?, &permit, waited, context)?;
            Ok(Exit::DONE)
        }
        Err(denied) => {
            say_denied(&options, &denied, context)?;
            Ok(Exit::DENIED)
        }
    }
}

fn granted(
    options: &TakeOptions<'_>,
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
            "policy": options.policy,
            "subject": options.subject,
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
        waited => format!(" {FAINT}after {}{FAINT:#}", humanize::span(waited)),
    };
    let shadow = if permit.would_deny() { " (shadow policy; it would have been denied)" } else { "" };
    output.line(format_args!("{GOOD}granted{GOOD:#}{after}{shadow}"))?;
    Meter::lines(&meters, now).iter().try_for_each(|line| output.line(line))
}

/// Prints that a take was denied, by which limit, and when to retry.
pub(crate) fn say_denied(
    options: &TakeOptions<'_>,
    denied: &Denied,
    context: &Context,
) -> Result<(), Failure> {
    let output = context.output();
    if output.is_json() {
        return output.json(&json!({
            "granted": false,
            "policy": options.policy,
            "subject": options.subject,
            "limit": denied.limit().map(|limit| limit.name().as_str()),
            "retry_after_ms": denied.retry_after().as_micros().div_ceil(1_000),
            "degraded": denied.degraded(),
            "limits": Meter::of_readings(denied.policy().limits(), denied.decision().readings_of(0), context.now()),
        }));
    }
    if output.is_quiet() {
        return Ok(());
    }
    if denied.held() {
        return output.line(format_args!("{BAD}denied{BAD:#}: {denied}"));
    }
    let limit = denied.limit().map(ToString::to_string).unwrap_or_default();
    let again = humanize::duration(denied.retry_after());
    let longest: Span =
        options.max_wait.unwrap_or(denied.policy().max_wait()).min(denied.policy().max_wait());
    let longest = match longest {
        Span::ZERO => String::new(),
        longest => format!(", longer than the maximum wait of {}", humanize::span(longest)),
    };
    let text = format!("by {limit}; retry in {again}{longest}");
    let text = sentence(&text, COLUMNS - "denied ".len()).join("\n  ");
    output.line(format_args!("{BAD}denied{BAD:#} {text}"))
}
