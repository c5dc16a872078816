//! `pipeline run`: works on the jobs until all are done, or until it is stopped.
//!
//! `setup` puts limiter, engine and runner together, `wait_for_engine` waits for an engine that is not up yet, `screen` shows progress, `signals` and `reload` react while it runs,
//! `alarms` go to the log and to operators, `metrics` are for Prometheus, `summary` ends it.

mod alarms;
mod metrics;
mod reload;
mod screen;
mod setup;
mod signals;
mod summary;
mod wait_for_engine;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tollway::core::read_span;
use tollway::{Limiter, Name, Span};
use tollway_notify::cloudwatch::CloudWatchConfig;
use tollway_pipeline::run::metrics::samples_of_process;
use tollway_pipeline::run::progress::Progress;
use tollway_pipeline::run::{OwnEvents, Runner};
use tollway_pipeline::view::{PipelineView, not_in_config, stage_of};
use tollway_pipeline::{Engine, EngineError, PipelineConfig};

use super::session::{Which, runtime};
use super::stage_names::{move_command, remark};
use crate::cloudwatch::Publishing;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::serve::log::{self, Format, Level};
use alarms::PipelineAlarms;
use metrics::Served;
pub(crate) use metrics::unshare;
use reload::Follower;
use screen::Screen;
use setup::Setup;
use signals::StopSignals;
use summary::Summary;

/// How often progress is shown on a terminal.
const TICK: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  tollway pipeline run                             until all jobs are done
  tollway pipeline run --jobs 100                  a small batch first
  tollway pipeline run --stay --metrics 127.0.0.1:9464
                                                   as a service that waits for more jobs
  tollway pipeline run --stage extract --stay      a service for one stage of a shared config

Exits with
  0    all jobs are done
  65   done, but there are dead letters, or jobs of stages that the config lacks
  69   the jobs cannot be reached, at the start or at the end
  75   stopped, or a stage was paused because too many of its jobs failed, and jobs are left: run it again
  78   the config is wrong

SIGTERM or Ctrl-C: claims no more, finishes what runs within --grace, gives the rest back. A second one gives back at once.
SIGHUP, or a changed config file: goes on with the new settings and freshly started handlers; running jobs are not disturbed.";

/// Work on the jobs until all are done
///
/// Claims a job only when its call fits the quota, late stages first, and hands it to the stage's handler. It may be killed
/// at any time and started again: no job is lost, and none is finished twice. While the engine that keeps the jobs, or the
/// limiter's store, is away, it waits; finished answers are kept and stored when it is back. On a terminal it shows progress;
/// otherwise it logs a line a minute.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Start at most N jobs of the first stage, work on what they hand on, and end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "stay")]
    jobs: Option<u64>,
    /// Work only on this stage; repeatable. Ends when its jobs are done and no stage before it has any
    #[arg(long = "stage", value_name = "NAME", add = crate::complete_names::stages())]
    stages: Vec<String>,
    /// Wait for more jobs when all are done
    #[arg(long)]
    stay: bool,
    /// How long to wait at the start for an engine that does not answer; with --stay, without end
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = read_span)]
    wait_for_engine: Span,
    /// Serve /metrics for Prometheus, and the dashboard, at this address
    ///
    /// Other machines need a token (`read` in [server.tokens]); on this machine none is needed.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// How long running jobs may take after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = read_span)]
    grace: Span,
    /// The name of this worker, if several machines share the jobs [default: host and process]
    ///
    /// With a name that stays the same, a restarted worker takes its jobs back at once, and not after their visibility
    /// timeout. No two workers may have the same name.
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Lowest level to log on standard error [default: $TOLLWAY_LOG_LEVEL, else info; on a terminal warn]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<Level>,
    /// How log lines are written on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: Format,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let output = context.output();
    let usual = if output.is_watched() { Level::Warn } else { Level::Info };
    let usual = if output.is_quiet() { Level::Error } else { usual };
    log::begin(arguments.log_level, usual, arguments.log_format)?;
    let runtime = runtime()?;
    match runtime.block_on(work(arguments, which, context))? {
        Some(exit) => Ok(exit),
        None => {
            // A name server or a store that does not answer is not waited for.
            runtime.shutdown_background();
            output.note("stopped before any job was claimed");
            Ok(Exit::DENIED)
        }
    }
}

/// None: it was stopped while it waited for its store or its jobs.
async fn work(arguments: &Arguments, which: &Which, context: &Context) -> Result<Option<Exit>, Failure> {
    // Before anything starts, so that no signal is missed.
    let (mut stops, hangups) = StopSignals::listen()?;
    let Some(setup) = stops.unless(Setup::new(arguments, which, context)).await else { return Ok(None) };
    let Setup { config, file, limiter, engine, commands, runner, notices, mut summary } = setup?;
    let runner = Arc::new(runner);
    if let Some(commands) = &commands {
        commands.show(runner.view());
    }
    let store_alarms = notices.watch_store(&limiter);
    let metrics = match arguments.metrics {
        Some(address) => {
            let server = file.config().server().cloned().unwrap_or_default();
            let store = context.store(file.config().limits())?;
            let (engine, runner, limiter) = (&engine, &runner, &limiter);
            let served = Served { server: &server, config: &config, store: &store, engine, runner, limiter };
            Some(metrics::serve(address, &served, context).await?)
        }
        None => None,
    };
    let publishing =
        publish(file.config().cloudwatch(), &config, &engine, runner.own_events(), &limiter).await?;
    warn_at_start(&config, &*engine).await;
    let screen = Screen::new(context.output(), &config);
    let mut running = Running { config, runner: &runner, limiter: &limiter, screen, stay: arguments.stay };
    let follower = Follower::new(file, which, &running.config.engine);
    let stopped = running.watch(&mut stops, follower, hangups, metrics.as_ref()).await;
    running.screen.close();
    drop(metrics);
    let config = running.config.clone();
    let stopped = stopped?;
    let given_back = drain(runner, arguments.grace, stopped, &mut stops, context).await?;
    if let Some(publishing) = publishing {
        publishing.finish().await;
    }
    let counted = summary.end(&config, &*engine, stopped, given_back).await;
    if counted.is_ok() {
        PipelineAlarms(notices.clone()).finished(&summary);
    }
    if let Some(task) = store_alarms {
        task.abort();
        let _ = task.await;
    }
    drop(commands);
    if let Err(error) = limiter.close().await {
        tracing::warn!("{error}");
    }
    notices.close().await;
    // An engine that is away at the end does not keep the process from ending as it should.
    counted?;
    summary.print(context.output()).map(Some)
}

impl Arguments {
    /// The stages to work on; none: all.
    fn stages(&self, config: &PipelineConfig) -> Result<Option<Vec<Name>>, Failure> {
        let stages = self.stages.iter().map(|name| stage_of(config, name));
        let stages: Vec<Name> = stages.collect::<Result<_, _>>()?;
        Ok((!stages.is_empty()).then_some(stages))
    }
}

/// Names stages whose jobs are not worked on: those that the config lacks, and those that are paused. An engine that is away
/// has its own lines in the log.
async fn warn_at_start(config: &PipelineConfig, engine: &dyn Engine) {
    for counts in not_in_config(&engine.counts().await.unwrap_or_default(), config) {
        tracing::warn!("{}; move them: {}", remark(&counts), move_command(&counts.stage));
    }
    for settings in engine.stages().await.unwrap_or_default().iter().filter(|settings| settings.paused) {
        let stage = settings.stage.as_str();
        if config.stage(stage).is_some() {
            tracing::warn!("stage {stage} is paused: its jobs wait for `tollway pipeline resume {stage}`");
        }
    }
}

/// Sends metrics to CloudWatch, if the config says so.
async fn publish(
    cloudwatch: Option<&CloudWatchConfig>,
    config: &PipelineConfig,
    engine: &Arc<dyn Engine>,
    own: OwnEvents,
    limiter: &Limiter,
) -> Result<Option<Publishing>, Failure> {
    let stages: Arc<[Name]> = config.stage_names().into();
    let source = (config.name.to_string(), engine.clone(), stages, own, limiter.clone());
    let read = move || {
        let (pipeline, engine, stages, own, limiter) = source.clone();
        async move {
            let mut samples = limiter.samples().await;
            // An engine that fails says so in the log.
            let now = engine.time(limiter.clock().now());
            if let Ok(progress) = Progress::read(&*engine, &stages, now).await {
                samples.extend(samples_of_process(&pipeline, progress, &own));
            }
            samples
        }
    };
    Publishing::start(cloudwatch, limiter, read).await
}

/// A pipeline that runs.
struct Running<'r> {
    config: PipelineConfig,
    runner: &'r Arc<Runner>,
    limiter: &'r Limiter,
    screen: Screen,
    stay: bool,
}

impl Running<'_> {
    /// Shows progress and reloads, until all is done, or it is told to stop: then true.
    async fn watch(
        &mut self,
        stops: &mut StopSignals,
        mut reload: Follower<'_>,
        mut hangups: Signal,
        metrics: Option<&metrics::Serving>,
    ) -> Result<bool, EngineError> {
        let mut ticks = tokio::time::interval(TICK);
        let finished = self.runner.finished();
        tokio::pin!(finished);
        loop {
            tokio::select! {
                ended = &mut finished, if !self.stay => return ended.map(|()| false),
                () = stops.next() => return Ok(true),
                reading = reload.next(&mut hangups) => {
                    let new = reload.apply(reading, self.runner, self.limiter, &self.config.engine).await;
                    if let Some(new) = new {
                        if let Some(metrics) = metrics {
                            metrics.reload(&new, self.runner);
                        }
                        self.config = new;
                    }
                }
                _ = ticks.tick() => self.show().await,
            }
        }
    }

    async fn show(&mut self) {
        if let Some(outage) = self.runner.engine_outage() {
            return self.screen.show_outage(&outage);
        }
        let Ok(progress) = self.runner.progress().await else { return };
        if self.screen.is_due(progress.at) {
            let mut view = PipelineView::of(progress, &self.config, self.limiter).await;
            if self.screen.is_live() {
                view = view.with_live(self.runner.engine(), Some(self.runner.view()())).await;
            }
            self.screen.show(&view);
        }
    }
}

/// Ends the runner: a second signal ends the grace of running jobs.
async fn drain(
    runner: Arc<Runner>,
    grace: Span,
    stopped: bool,
    stops: &mut StopSignals,
    context: &Context,
) -> Result<usize, Failure> {
    // The metrics' task has ended with its handle, or ends now.
    let Some(runner) = unshare(runner).await else { return Ok(0) };
    if stopped {
        let text = crate::humanize::span(grace);
        context
            .output()
            .note(format_args!("stopping: running jobs have {text}; once more to give them back at once"));
    }
    let patience = async {
        tokio::select! {
            () = tokio::time::sleep(grace.into()) => {}
            () = stops.next() => {}
        }
    };
    Ok(runner.drain_until(patience).await?.given_back)
}
