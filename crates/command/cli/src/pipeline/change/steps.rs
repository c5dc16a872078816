//! Applies a change step by step, as fast as it may, until it is done or interrupted.

use tollway::Span;
use tollway_pipeline::PipelineConfig;
use tollway_pipeline::view::ChangeSteps;

use super::display::Display;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::pipeline::engine_opener;
use crate::pipeline::interrupt::Interrupt;
use crate::stopwatch::Stopwatch;

/// How far it came.
pub(in crate::pipeline) struct Stepped {
    pub(in crate::pipeline) changed: u64,
    /// A signal ended it.
    pub(in crate::pipeline) interrupted: Option<Exit>,
}

/// Shows how far it is of `most` jobs. A slow change also prints lines.
pub(super) async fn run(
    mut steps: ChangeSteps,
    config: &PipelineConfig,
    most: u64,
    slow: bool,
    context: &Context,
) -> Result<Stepped, Failure> {
    let mut engine = Some(engine_opener().open_for_command(&config.engine, false).await?);
    let mut interrupt = Interrupt::listen()?;
    let mut display = Display::new(context, most, slow);
    let stopwatch = Stopwatch::start();
    loop {
        let open = match engine.take() {
            Some(engine) => engine,
            None => engine_opener().open_for_command(&config.engine, false).await?,
        };
        let more = steps.step(&*open, stopwatch.elapsed(), open.time(context.now())).await?;
        display.show(steps.changed());
        if !more {
            return Ok(Stepped { changed: steps.changed(), interrupted: None });
        }
        let pause = steps.pause(stopwatch.elapsed());
        // While it waits, another process may run the pipeline, or another command may change it.
        engine = (pause == Span::ZERO).then_some(open);
        if let Some(exit) = interrupt.sleep(pause.into()).await {
            return Ok(Stepped { changed: steps.changed(), interrupted: Some(exit) });
        }
    }
}
