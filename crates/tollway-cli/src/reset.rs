//! `tollway reset`: meters made new.

use serde_json::json;

use crate::asked::Whose;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::GOOD;
use crate::usage::policy_in_force;

/// Make a policy's meters new, for one subject
///
/// What was used is forgotten, and places that were booked ahead no longer count. Whoever holds a permit from before
/// keeps it. Use it when a vendor has raised or refilled your quota, or after a mistake.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway reset adobe
  tollway reset gemini -s team-a")]
pub(crate) struct Arguments {
    /// The policy
    policy: String,
    #[command(flatten)]
    whose: Whose,
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
        output.line(format_args!("{GOOD}the meters of {} are new{GOOD:#}{whose}", arguments.policy))?;
    }
    Ok(Exit::DONE)
}
