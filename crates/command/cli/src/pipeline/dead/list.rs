//! `pipeline dead list`.

use clap::ValueEnum;
use tollway::Timestamp;
use tollway_pipeline::State;
use tollway_pipeline::view::{DeadLetterKinds, DeadLetters, JobView, KindOf};

use super::grouped;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::{self, count};
use crate::layout::{COLUMNS, cut, printable, printable_name};
use crate::output::{FAINT, Output, STRONG};
use crate::pipeline::filter::FilterArguments;
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
enum GroupBy {
    Error,
    Stage,
    Group,
}

impl From<GroupBy> for KindOf {
    fn from(by: GroupBy) -> Self {
        match by {
            GroupBy::Error => Self::Error,
            GroupBy::Stage => Self::Stage,
            GroupBy::Group => Self::Group,
        }
    }
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(which, context, false)?;
    let engine = &*session.engine;
    let filter = session.wait(arguments.filter.jobs().check(Some(State::Dead), &session.config, engine))?;
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    if let Some(by) = arguments.group_by {
        let kinds = session.wait(DeadLetterKinds::count(engine, filter, by.into(), limit))?;
        return grouped::print(&kinds, context.output());
    }
    let dead = session.wait(DeadLetters::read(engine, filter, limit))?;
    let output = context.output();
    if output.is_json() {
        output.json(&dead)?;
        return Ok(Exit::DONE);
    }
    if dead.dead_letters.is_empty() {
        output.line("no dead letters")?;
    }
    for job in &dead.dead_letters {
        write(job, session.now(), output)?;
    }
    let shown = dead.dead_letters.len() as u64;
    if dead.found > shown {
        let (shown, found) = (count(shown), count(dead.found));
        output.note(format_args!(
            "{shown} of {found} dead letters; --limit shows more, --group-by error counts them"
        ));
    }
    Ok(Exit::DONE)
}

fn write(job: &JobView, now: Timestamp, output: &Output) -> Result<(), Failure> {
    let (id, stage) = (job.id.to_string(), &job.stage);
    let died = humanize::moment(job.changed_at, now);
    let room = COLUMNS.saturating_sub(id.len() + stage.as_str().len() + died.len() + 6).max(20);
    let key = cut(&printable_name(&job.key), room);
    output.line(format_args!("{STRONG}{id}{STRONG:#}  {stage}  {FAINT}{died}{FAINT:#}  {key}"))?;
    output.line(format_args!("  {}", cut(&printable(&job.error), COLUMNS - 2)))
}
