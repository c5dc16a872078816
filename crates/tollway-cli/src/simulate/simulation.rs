//! One simulation from end to end: read, replay, report.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;

use super::log::{Log, Unreadable};
use super::progress::Progress;
use super::replay::Replay;
use super::summary::Summary;
use super::{Arguments, chart, text};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::words::counted;

/// How shells end what Ctrl-C has ended.
const INTERRUPTED: Exit = Exit::new(128 + SIGINT as u8);

/// A replay, and the lines that were none of its calls.
pub(super) struct Simulation {
    replay: Replay,
    skipped: u64,
    /// The first few lines that were skipped.
    unreadable: Vec<Unreadable>,
    interrupted: bool,
}

impl Simulation {
    /// Replays the log to its end, or until somebody presses Ctrl-C.
    pub(super) fn run(
        replay: Replay,
        arguments: &Arguments,
        log: &Log,
        context: &Context,
    ) -> Result<Self, Failure> {
        let mut simulation = Self { replay, skipped: 0, unreadable: Vec::new(), interrupted: false };
        let stop = Arc::new(AtomicBool::new(false));
        let interrupt = signal_hook::flag::register(SIGINT, Arc::clone(&stop));
        interrupt
            .map_err(|error| Failure::new(Exit::FAILED, format!("cannot listen for Ctrl-C: {error}")))?;
        let progress = Progress::of(log, context.output());
        let cannot_read =
            |error| Failure::new(Exit::FAILED, format!("cannot read {}: {error}", arguments.log));
        while let Some(batch) = log.next(|| stop.load(Ordering::Relaxed)).map_err(cannot_read)? {
            batch.calls.iter().try_for_each(|call| simulation.replay.take(call))?;
            simulation.skipped += batch.skipped;
            simulation.unreadable.extend(batch.unreadable);
            if arguments.max_bad.is_some_and(|most| simulation.skipped > most) {
                break;
            }
            progress.show(log.bytes_done(), simulation.replay.seen.calls);
        }
        simulation.interrupted = stop.load(Ordering::Relaxed);
        Ok(simulation)
    }

    /// Says what came of it.
    pub(super) fn report(
        &self,
        arguments: &Arguments,
        log: &Log,
        context: &Context,
    ) -> Result<Exit, Failure> {
        let output = context.output();
        self.check_unreadable(arguments, context)?;
        self.warn(context);
        let summary = Summary {
            log: if arguments.log == "-" { "standard input" } else { &arguments.log },
            format: log.format().word(),
            skipped: self.skipped,
            interrupted: self.interrupted,
            replay: &self.replay,
        };
        if output.is_json() {
            output.json(&summary.to_json())?;
        } else {
            text::write(&summary, output)?;
        }
        if let Some(path) = &arguments.svg {
            let cannot_write =
                |error| Failure::new(Exit::FAILED, format!("cannot write {}: {error}", path.display()));
            fs::write(path, chart::draw(&summary)).map_err(cannot_write)?;
        }
        Ok(if self.interrupted { INTERRUPTED } else { Exit::DONE })
    }

    /// Says which lines could not be read; fails if they were too many, or all.
    fn check_unreadable(&self, arguments: &Arguments, context: &Context) -> Result<(), Failure> {
        let output = context.output();
        for Unreadable { line, reason } in &self.unreadable {
            output.warning(format_args!("line {line} is skipped: {reason}"));
        }
        if self.skipped > self.unreadable.len() as u64 {
            output.warning(format_args!("{} are skipped in all", counted(self.skipped, "lines")));
        }
        if let Some(most) = arguments.max_bad.filter(|most| self.skipped > *most) {
            let message = format!("more than {} of {} cannot be read", counted(most, "lines"), arguments.log);
            return Err(Failure::new(Exit::DATA, message)
                .advise("see what is wrong with them above, or raise --max-bad"));
        }
        if self.replay.seen.calls == 0 && self.interrupted {
            return Err(Failure::new(INTERRUPTED, "stopped before the first call"));
        }
        if self.replay.seen.calls == 0 {
            let message = format!("{} has no line that can be read", arguments.log);
            let failure = Failure::new(Exit::DATA, message);
            return Err(if self.skipped == 0 {
                failure
            } else {
                failure.advise("say what it is: --format, --time, --subject, --cost")
            });
        }
        Ok(())
    }

    fn warn(&self, context: &Context) {
        let (output, seen) = (context.output(), &self.replay.seen);
        if self.interrupted {
            output.warning(format_args!(
                "stopped: this is what the first {} show",
                counted(seen.calls, "calls")
            ));
        }
        if seen.out_of_order > 0 {
            let calls = counted(seen.out_of_order, "calls");
            output.warning(format_args!("out of order: {calls}; for each subject, time only moves forward"));
        }
        for trial in &self.replay.trials {
            let shared = trial.shared_meters();
            if shared > 0 {
                let takes = counted(shared, "takes");
                output.warning(format_args!(
                    "{}: more subjects than meters; {takes} shared one with others",
                    trial.title
                ));
            }
        }
    }
}
