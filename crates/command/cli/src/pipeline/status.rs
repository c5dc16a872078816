//! `pipeline status`: how far every stage is.

use serde_json::json;
use tollway_pipeline::State;
use tollway_pipeline::view::{GroupView, PipelineView};

use super::progress_text;
use super::session::{Session, Which};
use super::width::stdout_width;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::count;
use crate::layout::COLUMNS;

/// Show how far every stage is, at which rate, and when all may be done
///
/// Works while the pipeline runs and while it does not. The estimated end is a range between the best and the worst rate of
/// the last minutes in which the pipeline ran.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exits with 0; with --check, with 1 if a stage is paused, has dead letters, or has jobs and is not in the config."
)]
pub(crate) struct Arguments {
    /// Only the jobs of this group, such as a job_id
    #[arg(long)]
    group: Option<String>,
    /// Exit with 1 if a stage is paused, has dead letters, or has jobs and is not in the config: for scripts
    #[arg(long, conflicts_with = "group")]
    check: bool,
    /// Show it again every second, until Ctrl-C
    #[arg(long, short, conflicts_with_all = ["group", "check"])]
    watch: bool,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    if arguments.watch {
        return super::watch::run(which, context);
    }
    let session = Session::open(which, context, false)?;
    if let Some(group) = &arguments.group {
        return of_group(group, &session);
    }
    // First: it may know that the date of this machine is behind.
    let limiter = session.limiter()?;
    let view = PipelineView::read(&*session.engine, &session.config, &limiter, session.now());
    let view = session.wait(view)?;
    let at = view.progress.at;
    context.warn_if_behind(at);
    if context.output().is_json() {
        let mut fields = json!(view);
        fields["clock_behind_s"] =
            json!(context.clock_behind(at).map(|behind| behind.as_micros() / 1_000_000));
        context.output().json(&fields)?;
    } else {
        for line in progress_text::lines(&view, stdout_width().unwrap_or(COLUMNS)) {
            context.output().line(line)?;
        }
    }
    Ok(if arguments.check && !view.is_healthy() { Exit::FAILED } else { Exit::DONE })
}

fn of_group(group: &str, session: &Session<'_>) -> Result<Exit, Failure> {
    let view = session.wait(GroupView::read(&*session.engine, group))?;
    let output = session.context.output();
    if output.is_json() {
        output.json(&json!(view))?;
        return Ok(Exit::DONE);
    }
    for stage in &view.stages {
        let states = State::ALL.into_iter().filter(|state| stage.of(*state) > 0);
        let states: Vec<String> = states.map(|state| format!("{} {state}", count(stage.of(state)))).collect();
        output.line(format_args!("{:<12} {}", stage.stage.as_str(), states.join(", ")))?;
    }
    Ok(Exit::DONE)
}
