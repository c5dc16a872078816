//! `pipeline dead edit`: corrects a dead letter.

use std::io::{self, Read};

use serde_json::json;
use tollway_pipeline::view::{correct, shell_word};
use tollway_pipeline::{Edit, Job, JobCost, bounds};

use super::editor::{self, Outcome};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::GOOD;
use crate::pipeline::session::{Session, Which};

/// Correct a dead letter: its data, priority or cost
///
/// Without options, its data is opened in $VISUAL or $EDITOR, and stored when you leave the editor. Data must be JSON; text
/// that is not is kept in a file, so nothing you wrote is lost. The job stays a dead letter until `dead redrive`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline dead edit 104                   in your editor
  tollway pipeline dead edit 104 --data '{\"page\": 7}'
  tollway pipeline dead edit 104 --data @fixed.json
  tollway pipeline dead show 104 --json | jq '.data.page = 7 | .data' | tollway pipeline dead edit 104 --data -

Exits with 0; with 65 if the data is no JSON; with 66 if there is no such job; with 1 if it is no dead letter.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    job: super::JobArguments,
    /// The new data: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    data: Option<String>,
    /// The new priority: higher is claimed first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i16>,
    /// What the job takes, e.g. '{"adobe": {"requests": 2}}'; '{}' is what its stage takes
    #[arg(long, value_name = "JSON")]
    cost: Option<String>,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let job = super::find_dead(&Session::open(which, context, false)?, &arguments.job.id_or_key())?;
    let given = arguments.data.as_deref().map(read_data).transpose()?;
    let mut edit = Edit::default();
    if let Some(priority) = arguments.priority {
        edit = edit.priority(priority);
    }
    if let Some(cost) = &arguments.cost {
        edit = edit.cost(JobCost::parse(cost)?);
    }
    let in_editor = given.is_none() && edit == Edit::default();
    let edited = match (given, in_editor) {
        (None, true) => match editor::edit(&job)? {
            Outcome::Unchanged => {
                context.output().note("nothing was changed");
                return Ok(Exit::DONE);
            }
            Outcome::Edited(edited) => Some(edited),
        },
        (Some(text), _) => {
            edit = edit.data(text.trim())?;
            None
        }
        (None, false) => None,
    };
    let Some(edited) = edited else { return store(&job, edit, which, context) };
    // While the editor was open, no command or pipeline had to wait, and so the job may have changed.
    let stored = edited.check(&job).and_then(|edit| store(&job, edit, which, context));
    edited.keep_if_failed(stored, &format!("dead edit {} --data @", shell_word(&arguments.job.id_or_key())))
}

fn store(job: &Job, edit: Edit, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(which, context, false)?;
    session.wait(correct(&*session.engine, job, edit, session.now()))?;
    let output = context.output();
    if output.is_json() {
        output.json(&json!({ "id": job.id.get(), "edited": true }))?;
        return Ok(Exit::DONE);
    }
    output.line(format_args!("{GOOD}edited{GOOD:#} dead letter {}", job.id))?;
    output.note(format_args!("try it again: {}", which.command(&format!("dead redrive --id {}", job.id))));
    Ok(Exit::DONE)
}

/// The text itself, of a file, or of standard input.
fn read_data(given: &str) -> Result<String, Failure> {
    let (name, read): (&str, Box<dyn Read>) = match (given, given.strip_prefix('@')) {
        ("-", _) => ("standard input", Box::new(io::stdin())),
        (_, Some(path)) => {
            let file = std::fs::File::open(path);
            (path, Box::new(file.map_err(|error| Failure::unreadable(Exit::DATA, path, &error))?))
        }
        (text, None) => return Ok(text.to_owned()),
    };
    let mut text = String::new();
    // More than is allowed, so that longer data is refused and not cut.
    let most = bounds::JOB_BYTES_MAX as u64 * 2;
    let cannot = |error: io::Error| Failure::new(Exit::DATA, format!("cannot read {name}: {error}"));
    read.take(most).read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}
