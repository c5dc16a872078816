//! `pipeline drain`: pauses all stages and waits until no job runs.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tollway::Span;
use tollway::core::read_span;
use tollway_pipeline::view::set_paused;
use tollway_pipeline::{Engine, EngineError, EngineFault, State};

use super::interrupt::Interrupt;
use super::session::{Session, Which};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::{self, counted};
use crate::output::{GOOD, Output};
use crate::pipeline::engine_opener;
use crate::stopwatch::Stopwatch;

/// How often running jobs are counted.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Span = Span::from_secs(10);

/// What undoes it.
const UNDO: &str = "`tollway pipeline resume` goes on";

/// Pause all stages, and wait until no job runs
///
/// For an update of the machine or of the vendor: the process goes on, without work. Jobs that run come to their end.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline drain                           as long as it takes
  tollway pipeline drain --timeout 5m || exit 1
  tollway pipeline resume                          undo it

Exits with 0; with 75 if jobs still run after --timeout; with 130 after Ctrl-C. All stages stay paused in each case.")]
pub(crate) struct Arguments {
    /// Give up after this time, e.g. 10m
    #[arg(long, value_name = "TIME", value_parser = read_span)]
    timeout: Option<Span>,
}

/// How it ended.
enum End {
    Drained,
    TimedOut(u64),
    Interrupted(u64, Exit),
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(which, context, true)?;
    session.wait(set_paused(&*session.engine, &session.config.stage_names(), true, session.now()))?;
    let stopwatch = Stopwatch::start();
    let end = session.wait(wait_until_idle(&session, arguments.timeout, stopwatch))?;
    report(&end, stopwatch.elapsed(), context.output())
}

async fn wait_until_idle(
    session: &Session<'_>,
    timeout: Option<Span>,
    stopwatch: Stopwatch,
) -> Result<End, Failure> {
    let mut interrupt = Interrupt::listen()?;
    let mut engine = session.engine.clone();
    let mut display = Display::new(session.context.output());
    loop {
        let running = match running_jobs(session, &*engine).await {
            // The process that had the jobs has ended.
            Err(error) if error.fault == EngineFault::Network => {
                engine = reopened(session).await?;
                running_jobs(session, &*engine).await?
            }
            running => running?,
        };
        if running == 0 {
            return Ok(End::Drained);
        }
        if session.config.engine.is_run() == Some(false) {
            let jobs = counted(running, "jobs");
            display.note(format_args!("no process runs this pipeline: {jobs} will be tried again"));
            return Ok(End::Drained);
        }
        display.show(running);
        if timeout.is_some_and(|timeout| stopwatch.elapsed() >= timeout) {
            return Ok(End::TimedOut(running));
        }
        if let Some(exit) = interrupt.sleep(LOOK_EVERY).await {
            return Ok(End::Interrupted(running, exit));
        }
    }
}

async fn reopened(session: &Session<'_>) -> Result<Arc<dyn Engine>, EngineError> {
    engine_opener().open_for_command(&session.config.engine, true).await
}

/// Jobs whose claims have not expired.
async fn running_jobs(session: &Session<'_>, engine: &dyn Engine) -> Result<u64, EngineError> {
    for stage in &session.config.stages {
        engine.peek(&stage.name, session.now()).await?;
    }
    Ok(engine.counts().await?.iter().map(|stage| stage.of(State::Running)).sum())
}

fn report(end: &End, took: Span, output: &Output) -> Result<Exit, Failure> {
    let (exit, running) = match end {
        End::Drained => (Exit::DONE, 0),
        End::TimedOut(running) => (Exit::DENIED, *running),
        End::Interrupted(running, exit) => (*exit, *running),
    };
    if output.is_json() {
        let seconds = took.as_micros() as f64 / 1e6;
        output.json(&json!({ "drained": running == 0, "running": running, "seconds": seconds }))?;
        return Ok(exit);
    }
    let left = counted(running, "jobs");
    match end {
        End::Drained => {
            let took = humanize::span(took);
            output
                .line(format_args!("{GOOD}drained{GOOD:#} in {took}: all stages are paused, no job runs"))?;
            output.line(UNDO)?;
            Ok(exit)
        }
        End::TimedOut(_) => {
            let message =
                format!("{left} still running after {}; all stages stay paused", humanize::span(took));
            Err(Failure::new(exit, message).advise(format!("wait again with the same command; {UNDO}")))
        }
        End::Interrupted(..) => {
            let message = format!("interrupted with {left} still running; all stages stay paused");
            Err(Failure::new(exit, message).advise(UNDO))
        }
    }
}

/// How many jobs run: a line that changes on a terminal, and otherwise a line now and then.
struct Display<'o> {
    output: &'o Output,
    bar: ProgressBar,
    printed: Option<Stopwatch>,
}

impl<'o> Display<'o> {
    fn new(output: &'o Output) -> Self {
        let bar = if output.is_watched() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { output, bar, printed: None }
    }

    fn show(&mut self, running: u64) {
        let text = format!("paused; {} still running", counted(running, "jobs"));
        self.bar.set_message(text.clone());
        self.bar.tick();
        if self.bar.is_hidden() && self.printed.is_none_or(|printed| printed.elapsed() >= LINE_EVERY) {
            self.printed = Some(Stopwatch::start());
            self.output.note(text);
        }
    }

    fn note(&self, text: impl std::fmt::Display) {
        self.bar.suspend(|| self.output.note(text));
    }
}

impl Drop for Display<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
