//! `pipeline status --watch`: progress that is drawn again every second.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tollway::Limiter;
use tollway_pipeline::view::PipelineView;
use tollway_pipeline::{Engine, EngineUrl, PipelineConfig};

use super::interrupt::Interrupt;
use super::progress_text;
use super::session::{Which, runtime};
use super::width::stderr_width;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::layout::COLUMNS;
use crate::pipeline::engine_opener;

/// How often it is drawn.
const EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(which: &Which, context: &Context) -> Result<Exit, Failure> {
    if context.output().is_json() || !context.output().is_watched() {
        return Err(Failure::usage("--watch needs a terminal, and no --json")
            .advise("leave --watch out: `tollway pipeline status` shows it once"));
    }
    let (config, limits) = which.config(context)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let limiter = context.limiter(&limits)?;
        let mut interrupt = Interrupt::listen()?;
        let screen = Screen::new();
        let mut engine = Some(engine_opener().open_for_command(&config.engine, false).await?);
        loop {
            let (lines, reached) = look(engine.take(), &config, &limiter, context).await;
            screen.show(&lines);
            // A file belongs to one process at a time, and the pipeline must be able to have it.
            engine = reached.filter(|_| !matches!(config.engine, EngineUrl::Sqlite(_)));
            if interrupt.sleep(EVERY).await.is_some() {
                return Ok(Exit::DONE);
            }
        }
    })
}

/// What there is to see now, and the engine if it can be reached.
async fn look(
    engine: Option<Arc<dyn Engine>>,
    config: &PipelineConfig,
    limiter: &Limiter,
    context: &Context,
) -> (Vec<String>, Option<Arc<dyn Engine>>) {
    let lines = async {
        let engine = match engine {
            Some(engine) => engine,
            None => engine_opener().open_for_command(&config.engine, false).await?,
        };
        let view = PipelineView::read(&*engine, config, limiter, context.now()).await?;
        let view = view.with_live(&*engine, None).await;
        Ok::<_, Failure>((progress_text::lines(&view, stderr_width().unwrap_or(COLUMNS)), engine))
    };
    match lines.await {
        Ok((lines, engine)) => (lines, Some(engine)),
        // It may be away for a moment.
        Err(failure) => (vec![format!("{} does not answer: {}", config.engine, failure.message())], None),
    }
}

/// Lines that replace those before.
struct Screen(ProgressBar);

impl Screen {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
        let style = ProgressStyle::with_template("{msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    fn show(&self, lines: &[String]) {
        self.0.set_message(lines.join("\n"));
        self.0.tick();
    }
}

impl Drop for Screen {
    /// The last figures stay on the terminal.
    fn drop(&mut self) {
        self.0.abandon();
    }
}
