//! `pipeline dead list`.

use clap::ValueEnum;
use serde::Serialize;
use tollway::Timestamp;
use tollway_pipeline::{Filter, Job, JobId, State, bounds};

use super::grouped;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::{self, count};
use crate::layout::{COLUMNS, cut, printable, printable_name};
use crate::output::{FAINT, Output, STRONG};
use crate::pipeline::filter::FilterArguments;
use crate::pipeline::job_view::JobJson;
use crate::pipeline::session::{Session, Which};

/// List dead letters, or count them by their error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline dead list                       the oldest 20
  tollway pipeline dead list --group-by error      how many of each error, the most frequent first
  tollway pipeline dead list --group job-123 --limit 1000
  tollway pipeline dead list --json | jq .dead_letters[].key

Exits with 0, whether there are any or not; `status --check` is for scripts.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    filter: FilterArguments,
    /// Count them by this, with one example each
    #[arg(long, value_name = "WHAT")]
    group_by: Option<GroupBy>,
    /// The most lines
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
}

/// What dead letters are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum GroupBy {
    Error,
    Stage,
    Group,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(which, context, false)?;
    let filter = arguments.filter.filter(Some(State::Dead), &session.config, &*session.engine);
    let filter = session.wait(filter)?;
    if let Some(by) = arguments.group_by {
        return grouped::run(by, filter, arguments.limit, &session);
    }
    let found = session.wait(session.engine.matching(filter.clone()))?;
    let output = context.output();
    let mut listed: Vec<Job> = Vec::new();
    let mut left = arguments.limit;
    each_page(&session, &filter, |jobs| {
        let taken = jobs.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX));
        // Without the data, which a list does not show.
        listed.extend(taken.map(|job| Job { data: String::new(), ..job }));
        left = arguments.limit.saturating_sub(listed.len() as u64);
        Ok(left > 0)
    })?;
    if output.is_json() {
        output.json(&Listed { found, dead_letters: listed.iter().map(JobJson::new).collect() })?;
        return Ok(Exit::DONE);
    }
    if listed.is_empty() {
        output.line("no dead letters")?;
    }
    for job in &listed {
        write(job, session.now(), output)?;
    }
    let shown = listed.len() as u64;
    if found > shown {
        let (shown, found) = (count(shown), count(found));
        output.note(format_args!(
            "{shown} of {found} dead letters; --limit shows more, --group-by error counts them"
        ));
    }
    Ok(Exit::DONE)
}

#[derive(Serialize)]
struct Listed<'j> {
    found: u64,
    dead_letters: Vec<JobJson<'j>>,
}

/// Hands pages of jobs to a function until it wants no more.
pub(super) fn each_page(
    session: &Session<'_>,
    filter: &Filter,
    mut page: impl FnMut(Vec<Job>) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut after: Option<JobId> = None;
    loop {
        let found = session.wait(session.engine.scan(filter.clone(), after, bounds::PAGE_MAX))?;
        after = found.next;
        if !page(found.items)? || after.is_none() {
            return Ok(());
        }
    }
}

fn write(job: &Job, now: Timestamp, output: &Output) -> Result<(), Failure> {
    let (id, stage) = (job.id.to_string(), &job.stage);
    let died = humanize::moment(job.changed_at, now);
    let room = COLUMNS.saturating_sub(id.len() + stage.as_str().len() + died.len() + 6).max(20);
    let key = cut(&printable_name(&job.key), room);
    output.line(format_args!("{STRONG}{id}{STRONG:#}  {stage}  {FAINT}{died}{FAINT:#}  {key}"))?;
    output.line(format_args!("  {}", cut(&printable(&job.error), COLUMNS - 2)))
}
