//! `tollway reset`: resets usage to zero.

use serde_json::json;

use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::GOOD;
use crate::take_arguments::SubjectArguments;
use crate::usage::policy_in_force;

/// Reset a policy's usage for one subject
///
/// Sets usage to zero and drops takes that are booked ahead. Permits granted before the reset stay valid. Use it when a
/// vendor has raised or refilled your quota, or after a mistake.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway reset adobe
  tollway reset gemini -s team-a")]
pub(crate) struct Arguments {
    /// The policy
    #[arg(add = complete_names::policies())]
    policy: String,
    #[command(flatten)]
    whose: SubjectArguments,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let limiter = arguments.whose.limiter(&arguments.policy, context)?;
    policy_in_force(&limiter, &arguments.policy)?;
    let subject = arguments.whose.subject.as_deref();
    limiter.reset(&arguments.policy).subject(subject.unwrap_or_default()).now()?;
    let output = context.output();
    if output.is_json() {
        output.json(&json!({ "reset": true, "policy": arguments.policy, "subject": subject }))?;
    } else if !output.is_quiet() {
        let whose = subject.map(|subject| format!(" for {subject}")).unwrap_or_default();
        output.line(format_args!("{GOOD}usage of {} reset{GOOD:#}{whose}", arguments.policy))?;
    }
    Ok(Exit::DONE)
}
