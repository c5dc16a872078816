//! What a terminal shows beside counts: its width, call times, retries to come and the last error.

use std::collections::BTreeMap;

use terminal_size::{Width, terminal_size_of};
use tollway::Timestamp;
use tollway::core::Name;
use tollway_pipeline::Engine;
use tollway_pipeline::run::progress::Progress;
use tollway_pipeline::run::{CallTimes, LastError, RunnerView};

use crate::layout::COLUMNS;

/// What is known beside counts.
pub(super) struct Live {
    /// How many columns there are.
    pub(super) width: usize,
    /// What the process knows that runs the pipeline.
    runner: RunnerView,
    /// When the next job of a stage is tried again.
    pub(super) next_due: BTreeMap<Name, Timestamp>,
}

impl Live {
    /// For text that is written once.
    pub(super) fn of_width(width: usize) -> Self {
        Self { width, runner: RunnerView::default(), next_due: BTreeMap::new() }
    }

    /// For a terminal, on which it is drawn again and again. `own`: this process runs the pipeline; else the one is asked that
    /// does, where it can be.
    pub(super) async fn read(
        width: Option<usize>,
        own: Option<RunnerView>,
        progress: &Progress,
        engine: &dyn Engine,
    ) -> Self {
        let mut next_due = BTreeMap::new();
        for stage in progress.stages.iter().filter(|stage| stage.retrying > 0) {
            // An engine that fails says so elsewhere.
            if let Ok(peek) = engine.peek(&stage.stage, progress.at).await {
                next_due.extend(peek.next_at.map(|at| (stage.stage.clone(), at)));
            }
        }
        let runner = match own {
            Some(own) => own,
            None => engine.runner_view().await.ok().flatten().unwrap_or_default(),
        };
        Self { width: width.unwrap_or(COLUMNS), runner, next_due }
    }

    pub(super) fn calls(&self, stage: &Name) -> Option<CallTimes> {
        self.runner.calls.get(stage).copied()
    }

    pub(super) fn last_error(&self) -> Option<&LastError> {
        self.runner.last_error.as_ref()
    }
}

/// The width of the terminal on standard error; one that is too narrow for figures is not believed.
pub(super) fn stderr_width() -> Option<usize> {
    width_of(terminal_size_of(std::io::stderr()))
}

/// The same of standard output.
pub(super) fn stdout_width() -> Option<usize> {
    width_of(terminal_size_of(std::io::stdout()))
}

fn width_of(size: Option<(Width, terminal_size::Height)>) -> Option<usize> {
    // The last column stays free: some terminals wrap a line that fills it.
    size.map(|(Width(columns), _)| usize::from(columns).saturating_sub(1)).filter(|columns| *columns >= 40)
}
