//! `tollway run`: a command that begins once its limits allow it.

mod child;

use std::ffi::OsString;
use std::process::Command;

use tollway::Limiter;

use crate::asked::Asked;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::take::say_denied;
use crate::turn::{Turn, on_a_runtime, wait_for_turn};
use crate::usage::policy_in_force;

/// Run a command once its limits allow it
///
/// Takes from the policy, waits for the turn, and becomes the command: its exit code and its signals are those of
/// `tollway run`. Under a policy with a concurrency limit it stays beside the command instead and holds the slot until
/// it ends. The command finds the permit's id in $TOLLWAY_PERMIT and when it began in $TOLLWAY_BEGAN_AT. Any number of `tollway run` on this machine, or on all machines of one shared store, stay within the limit.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway run -p adobe -- ./convert.sh report.pdf
  ls *.pdf | xargs -P 50 -n 1 tollway run -p adobe -- ./convert.sh
  tollway run -p gemini --cost tokens=3750 --max-wait 30s --or-exit 1 -- python3 ask.py
  tollway run -p ci --limit \"2 concurrent\" -- make test")]
pub(crate) struct Arguments {
    /// The policy
    #[arg(long, short)]
    policy: String,
    #[command(flatten)]
    asked: Asked,
    /// How to exit when it is denied
    #[arg(long, value_name = "CODE", default_value_t = Exit::DENIED.code())]
    or_exit: u8,
    /// The command and its arguments, behind --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let turn = arguments.asked.turn(&arguments.policy)?;
    let limiter = arguments.asked.whose.limiter(&arguments.policy, context)?;
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(Failure::usage("there is no command to run"));
    };
    // A command that cannot run must not cost anything.
    child::find(program)?;
    let mut command = Command::new(program);
    command.args(rest);
    match on_a_runtime(begin(&limiter, &turn, command, context))? {
        Begun::Over(exit) => Ok(exit),
        Begun::Denied => Ok(Exit::new(arguments.or_exit)),
        Begun::Ready(command) => {
            drop(limiter);
            Err(child::become_it(command))
        }
    }
}

/// How far it came.
enum Begun {
    /// The command may begin, in our place.
    Ready(Command),
    /// The command ran beside us and has ended.
    Over(Exit),
    /// It was denied.
    Denied,
}

async fn begin(
    limiter: &Limiter,
    turn: &Turn<'_>,
    mut command: Command,
    context: &Context,
) -> Result<Begun, Failure> {
    let permit = match wait_for_turn(limiter, turn, context).await? {
        Ok(permit) => permit,
        Err(denied) => {
            if context.output().is_json() {
                say_denied(turn, &denied, context)?;
            }
            // Standard output is the command's.
            context.output().note(&denied);
            return Ok(Begun::Denied);
        }
    };
    command.env("TOLLWAY_PERMIT", permit.id().to_string());
    command.env("TOLLWAY_BEGAN_AT", context.now().to_string());
    if policy_in_force(limiter, turn.policy)?.holds_slots() {
        return child::run_beside(command, permit, context.output()).await.map(Begun::Over);
    }
    Ok(Begun::Ready(command))
}
