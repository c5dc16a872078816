//! `tollway run`: runs a command once its limits allow it.

mod child;

use std::ffi::OsString;
use std::process::Command;

use tollway::Limiter;

use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::take::say_denied;
use crate::take_arguments::TakeArguments;
use crate::usage::policy_in_force;
use crate::wait::{TakeOptions, block_on_runtime, wait_for_permit};

/// Run a command once its limits allow it
///
/// Takes from the policy, waits if necessary, then replaces itself with the command (exec), so exit code and signals are
/// the command's own. Under a concurrency limit it stays as the parent process and holds the slot until the command ends.
/// $TOLLWAY_PERMIT holds the permit's id and $TOLLWAY_BEGAN_AT the start time. All `tollway run` processes that share a
/// store stay within the limit together, on one machine or on many.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway run adobe -- ./convert.sh report.pdf
  ls *.pdf | xargs -P 50 -n 1 tollway run adobe -- ./convert.sh
  tollway run gemini --cost tokens=3750 --max-wait 30s --or-exit 1 -- python3 ask.py
  tollway run ci --limit \"2 concurrent\" -- make test")]
pub(crate) struct Arguments {
    /// The policy
    #[arg(required_unless_present = "named", add = complete_names::policies())]
    policy: Option<String>,
    /// The policy; the same as POLICY
    #[arg(long = "policy", short = 'p', value_name = "POLICY", conflicts_with = "policy", add = complete_names::policies())]
    named: Option<String>,
    #[command(flatten)]
    asked: TakeArguments,
    /// Exit code if denied
    #[arg(long, value_name = "CODE", default_value_t = Exit::DENIED.code())]
    or_exit: u8,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let policy = arguments.policy.as_ref().or(arguments.named.as_ref());
    let policy = policy.ok_or_else(|| Failure::usage("no policy to take from"))?;
    let options = arguments.asked.options(policy)?;
    let limiter = arguments.asked.whose.limiter(policy, context)?;
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(Failure::usage("no command to run"));
    };
    // Checked first: a command that cannot run costs nothing.
    child::find(program)?;
    let mut command = Command::new(program);
    command.args(rest);
    match block_on_runtime(begin(&limiter, &options, command, context))? {
        Outcome::Ended(exit) => Ok(exit),
        Outcome::Denied => Ok(Exit::new(arguments.or_exit)),
        Outcome::Ready(command) => {
            drop(limiter);
            Err(child::replace_process(command))
        }
    }
}

/// The outcome of the take.
enum Outcome {
    /// Granted; the command replaces this process.
    Ready(Command),
    /// Granted; the command ran as a child process and has ended.
    Ended(Exit),
    /// Denied.
    Denied,
}

async fn begin(
    limiter: &Limiter,
    options: &TakeOptions<'_>,
    mut command: Command,
    context: &Context,
) -> Result<Outcome, Failure> {
    let permit = match wait_for_permit(limiter, options, context).await? {
        Ok(permit) => permit,
        Err(denied) => {
            if context.output().is_json() {
                say_denied(options, &denied, context)?;
            }
            // On standard error: standard output belongs to the command.
            if denied.held() {
                context.output().note(format_args!("denied: {denied}"));
                return Ok(Outcome::Denied);
            }
            let limit = denied.limit().map(ToString::to_string).unwrap_or_default();
            let wait = humanize::duration(denied.retry_after());
            context
                .output()
                .note(format_args!("denied by {limit} of policy {}; retry in {wait}", options.policy));
            return Ok(Outcome::Denied);
        }
    };
    command.env("TOLLWAY_PERMIT", permit.id().to_string());
    command.env("TOLLWAY_BEGAN_AT", context.now().to_string());
    if policy_in_force(limiter, options.policy)?.holds_slots() {
        return child::run_as_child(command, permit, context.output()).await.map(Outcome::Ended);
    }
    Ok(Outcome::Ready(command))
}
