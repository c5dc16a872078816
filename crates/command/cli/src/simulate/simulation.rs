//! Runs a simulation: opens the log, replays it and reports.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::SIGINT;
use tollway::core::nearest;
use tollway_forecast::simulate::{Log, Replay, SimulateError, Summary, TIME_NAMES, Unreadable};

use super::{Arguments, chart, json, text};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::{self, counted};
use crate::output::Output;

/// The exit code of shells for a command ended by Ctrl-C.
const INTERRUPTED: Exit = Exit::new(128 + SIGINT as u8);

/// How often a second the progress bar is drawn.
const DRAWN_PER_SECOND: u8 = 8;

const BAR_OF_FILE: &str = "{wide_bar} {bytes} of {total_bytes}  {msg}  {eta} left";
const BAR_OF_STREAM: &str = "{spinner} {bytes}  {msg}";

/// A finished or interrupted replay.
pub(super) struct Simulation {
    summary: Summary,
    interrupted: bool,
}

/// The input of the reports.
pub(super) struct SimulationReport<'s> {
    /// The name of the log.
    pub(super) log: &'s str,
    pub(super) interrupted: bool,
    pub(super) summary: &'s Summary,
}

/// The file of the chart.
pub(super) struct ChartFile<'a> {
    path: &'a Path,
    overwrite: bool,
}

impl<'a> ChartFile<'a> {
    /// Fails if the file exists and must not be overwritten.
    pub(super) fn new(path: &'a Path, overwrite: bool) -> Result<Self, Failure> {
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(already_exists(path));
        }
        Ok(Self { path, overwrite })
    }

    fn write(&self, svg: &str) -> Result<(), Failure> {
        let written = if self.overwrite {
            fs::write(self.path, svg)
        } else {
            // A file created meanwhile is kept, too.
            let file = OpenOptions::new().write(true).create_new(true).open(self.path);
            file.and_then(|mut file| file.write_all(svg.as_bytes()))
        };
        written.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => already_exists(self.path),
            _ => Failure::new(Exit::FAILED, format!("cannot write {}: {error}", self.path.display())),
        })
    }
}

fn already_exists(path: &Path) -> Failure {
    Failure::new(Exit::FAILED, format!("{} already exists", path.display()))
        .advise("use another file with --svg, or overwrite it with --force")
}

/// Opens the log, or standard input for `-`. Returns the size of a file.
pub(super) fn open(path: &str) -> io::Result<(Box<dyn Read + Send>, Option<u64>)> {
    if path == "-" {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((Box::new(file), about.is_file().then_some(about.len())))
}

/// Adds the log's name and helpful options to an error.
pub(super) fn failure(error: SimulateError, path: &str) -> Failure {
    let data = |message: String| Failure::new(Exit::DATA, message);
    match error {
        SimulateError::Empty => data(format!("{path} has no readable line")),
        SimulateError::UnknownFormat => {
            data(error.to_string()).advise("set the format: --format jsonl, csv or clf")
        }
        SimulateError::NoTime { known } => {
            let names = TIME_NAMES.join(", ");
            let failure = data(format!("the log has no known time field: {names}"));
            match &*known {
                [] => failure.advise("set the time field: --time FIELD"),
                known => failure.advise(format!(
                    "set the time field with --time FIELD; the fields are {}",
                    known.join(", ")
                )),
            }
        }
        SimulateError::NoField { field, known } => {
            let failure = data(format!("the log has no field {field:?}"));
            match nearest(&field, known.iter().map(String::as_str)) {
                Some(near) => failure.advise(format!("did you mean {near:?}?")),
                None => failure.advise(format!("its fields are {}", known.join(", "))),
            }
        }
        SimulateError::EndlessLine { .. } => {
            data(format!("{path}: {error}")).advise("use a log with one call per line")
        }
        SimulateError::TooLarge => data(format!("{path}: {error}")).advise("replay a part of it"),
        SimulateError::Read(error) => Failure::unreadable(Exit::FAILED, path, &error),
        SimulateError::Outcomes(error) => {
            Failure::new(Exit::FAILED, format!("cannot write the outcomes: {error}"))
        }
        SimulateError::OnlySlots { .. }
        | SimulateError::WaitUnderSliding { .. }
        | SimulateError::Policy(_)
        | SimulateError::Cost(_) => Failure::usage(error),
        SimulateError::Store(_) => Failure::new(Exit::STORE, error),
        SimulateError::Thread(_) | SimulateError::Engine(_) => Failure::new(Exit::FAILED, error),
    }
}

impl Simulation {
    /// Replays the log to its end, or until Ctrl-C. `size` is that of the log, if it is a file.
    pub(super) fn run(
        replay: Replay<'_>,
        arguments: &Arguments,
        log: &Log,
        size: Option<u64>,
        context: &Context,
    ) -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let interrupt = signal_hook::flag::register(SIGINT, Arc::clone(&stop));
        interrupt
            .map_err(|error| Failure::new(Exit::FAILED, format!("cannot listen for Ctrl-C: {error}")))?;
        let bar = bar(size, context.output());
        let is_stopped = || stop.load(Ordering::Relaxed);
        let replayed = replay.run(log, is_stopped, |progress| {
            if arguments.max_bad.is_some_and(|most| progress.skipped > most) {
                return ControlFlow::Break(());
            }
            show(&bar, progress.bytes, progress.calls);
            ControlFlow::Continue(())
        });
        bar.finish_and_clear();
        let summary = replayed.map_err(|error| failure(error, &arguments.log))?;
        Ok(Self { summary, interrupted: is_stopped() })
    }

    /// Writes the summary, and the chart if one is wanted.
    pub(super) fn report(
        &self,
        arguments: &Arguments,
        chart: Option<&ChartFile<'_>>,
        context: &Context,
    ) -> Result<Exit, Failure> {
        let output = context.output();
        self.check_unreadable(arguments, context)?;
        self.warn(context);
        let log = if arguments.log == "-" { "standard input" } else { &arguments.log };
        let report = SimulationReport { log, interrupted: self.interrupted, summary: &self.summary };
        if output.is_json() {
            output.json(&json::of(&report))?;
        } else {
            text::write(&report, output)?;
        }
        if let Some(file) = chart {
            file.write(&chart::draw(&report))?;
        }
        Ok(if self.interrupted { INTERRUPTED } else { Exit::DONE })
    }

    /// Warns of unreadable lines; fails if there are too many or nothing else.
    fn check_unreadable(&self, arguments: &Arguments, context: &Context) -> Result<(), Failure> {
        let output = context.output();
        let Summary { skipped, unreadable, traffic, .. } = &self.summary;
        for Unreadable { line, reason } in unreadable {
            output.warning(format_args!("line {line} skipped: {reason}"));
        }
        if *skipped > unreadable.len() as u64 {
            output.warning(format_args!("{} skipped in total", counted(*skipped, "lines")));
        }
        if let Some(most) = arguments.max_bad.filter(|most| skipped > most) {
            let message = format!("more than {} of {} are unreadable", counted(most, "lines"), arguments.log);
            return Err(
                Failure::new(Exit::DATA, message).advise("see the warnings above, or raise --max-bad")
            );
        }
        if traffic.calls == 0 && self.interrupted {
            return Err(Failure::new(INTERRUPTED, "stopped before the first call"));
        }
        if traffic.calls == 0 {
            let message = format!("{} has no readable line", arguments.log);
            let failure = Failure::new(Exit::DATA, message);
            return Err(if *skipped == 0 {
                failure
            } else {
                failure.advise("set --format, --time, --subject or --cost")
            });
        }
        Ok(())
    }

    fn warn(&self, context: &Context) {
        let (output, traffic) = (context.output(), &self.summary.traffic);
        if self.interrupted {
            output.warning(format_args!(
                "interrupted: results for the first {}",
                counted(traffic.calls, "calls")
            ));
        }
        if traffic.out_of_order > 0 {
            let calls = counted(traffic.out_of_order, "calls");
            output.warning(format_args!(
                "{calls} out of order; each is decided at the latest time of its subject"
            ));
        }
        for trial in &self.summary.trials {
            let shared = trial.shared_accounts();
            if shared > 0 {
                let takes = counted(shared, "takes");
                output.warning(format_args!(
                    "{}: too many subjects; {takes} shared an account with others",
                    trial.title
                ));
            }
        }
    }
}

/// A progress bar on standard error, hidden unless that is a terminal.
fn bar(size: Option<u64>, output: &Output) -> ProgressBar {
    if !output.is_watched() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr_with_hz(DRAWN_PER_SECOND));
    let style = if size.is_some() { BAR_OF_FILE } else { BAR_OF_STREAM };
    // An invalid template is a bug, but no reason to fail.
    bar.with_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn show(bar: &ProgressBar, bytes: u64, calls: u64) {
    if bar.is_hidden() {
        return;
    }
    let per_second = u128::from(calls) * 1_000 / bar.elapsed().as_millis().max(1);
    bar.set_message(format!("{} lines/s", humanize::count(u64::try_from(per_second).unwrap_or(u64::MAX))));
    bar.set_position(bytes);
}
