//! `pipeline dead show`: one dead letter in full.

use tollway_pipeline::view::JobView;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::layout::{printable, printable_lines, printable_name};
use crate::output::STRONG;
use crate::pipeline::job_text::{field, tries, write_attempts};
use crate::pipeline::json_text::indent;
use crate::pipeline::session::{Session, Which};

/// Show one dead letter in full: its data, and every attempt with its detail
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline dead show 104
  tollway pipeline dead show 104 --json | jq .data")]
pub(crate) struct Arguments {
    #[command(flatten)]
    job: super::JobArguments,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(which, context, false)?;
    let job = super::find_dead(&session, &arguments.job.id_or_key())?;
    let evidence = session.wait(session.engine.evidence(job.id))?;
    let output = context.output();
    if output.is_json() {
        output.json(&JobView::in_full(&job, &evidence))?;
        return Ok(Exit::DONE);
    }
    let now = session.now();
    output.line(format_args!("{STRONG}dead letter {}{STRONG:#}", job.id))?;
    field(output, "key", &printable_name(&job.key))?;
    field(output, "stage", job.stage.as_str())?;
    if let Some(group) = &job.group {
        field(output, "group", &printable_name(group))?;
    }
    field(output, "enqueued", &humanize::moment_in_full(job.created_at))?;
    let ago = humanize::span(now.since(job.changed_at));
    field(output, "died", &format!("{}, {ago} ago", humanize::moment_in_full(job.changed_at)))?;
    field(output, "error", &printable(&job.error))?;
    field(output, "attempts", &tries(&job, session.config.stage(job.stage.as_str())))?;
    output.line(format_args!("{STRONG}data{STRONG:#}"))?;
    for line in printable_lines(&indent(&job.data)) {
        output.line(format_args!("  {line}"))?;
    }
    if !evidence.is_empty() {
        output.line(format_args!("{STRONG}attempts{STRONG:#}"))?;
        write_attempts(&evidence, true, now, output)?;
    }
    let id = job.id;
    output.note(format_args!("correct it: {}", which.command(&format!("dead edit {id}"))));
    output.note(format_args!("try again:  {}", which.command(&format!("dead redrive --id {id}"))));
    Ok(Exit::DONE)
}
