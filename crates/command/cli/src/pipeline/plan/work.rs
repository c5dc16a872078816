//! The work to plan: how many jobs pass each stage, how long one takes, how many run at a time.

use tollway::Span;
use tollway_pipeline::view::stage_of;
use tollway_pipeline::{
    EngineUrl, Filter, PipelineConfig, StageConfig, StageCounts, StageSettings, State, bounds,
};

use super::{Arguments, LATENCY_DEFAULT};
use crate::failure::Failure;
use crate::pipeline::engine_opener;

/// The part of calls that are retries, if the pipeline has not run enough to tell.
const RETRIES_ASSUMED: f64 = 0.10;

/// How many jobs must be done before their retries count.
const DONE_MIN: u64 = 1_000;

/// How many jobs must be there before their data is measured.
const SAMPLE_MIN: usize = 100;

/// What the engine knows.
#[derive(Default)]
pub(super) struct Observed {
    counts: Vec<StageCounts>,
    settings: Vec<StageSettings>,
    /// The data of a job on average, if there are enough jobs to tell.
    pub(super) data_bytes: Option<u64>,
    /// How long the engine keeps a job at most.
    retention_max: Option<Span>,
}

impl Observed {
    /// With `items`, an engine that is not there, or not a file of this machine, is not asked.
    pub(super) async fn read(config: &PipelineConfig, items: bool) -> Result<Self, Failure> {
        let there = match &config.engine {
            EngineUrl::Sqlite(file) => file.exists(),
            EngineUrl::Postgres(_) => !items,
            // Its queues say how long they keep messages.
            EngineUrl::Sqs(_) => true,
        };
        if !there {
            return Ok(Self::default());
        }
        let engine = engine_opener().open_for_command(&config.engine, false).await?;
        let sample = engine.scan(Filter::default(), None, bounds::PAGE_MAX).await?.items;
        let bytes: usize = sample.iter().map(|job| job.data.len()).sum();
        let average = bytes.checked_div(sample.len()).filter(|_| sample.len() >= SAMPLE_MIN);
        let data_bytes = average.and_then(|bytes| u64::try_from(bytes).ok());
        let retention_max = engine.capabilities().retention_max;
        Ok(Self {
            counts: engine.counts().await?,
            settings: engine.stages().await?,
            data_bytes,
            retention_max,
        })
    }

    /// Jobs of a stage that are still to be done.
    fn left(&self, stage: &StageConfig) -> u64 {
        let counts = self.counts.iter().find(|counts| counts.stage == stage.name);
        let open = [State::Ready, State::Delayed, State::Held, State::Running];
        counts.map_or(0, |counts| open.iter().map(|state| counts.of(*state)).sum())
    }

    /// The part of calls that were retries.
    fn retries(&self) -> Option<f64> {
        let sum = |count: fn(&StageCounts) -> u64| self.counts.iter().map(count).sum::<u64>();
        let done = sum(|counts| counts.events.completed);
        let retried =
            sum(|counts| counts.events.failures + counts.events.crashes + counts.events.rate_limited);
        (done >= DONE_MIN).then(|| retried as f64 / done as f64)
    }
}

/// The work of a pipeline.
pub(super) struct Work {
    pub(super) pipeline: String,
    /// How many items, or jobs that are left.
    pub(super) items: u64,
    /// The number was given.
    pub(super) given: bool,
    /// The stages that an item passes, in order.
    pub(super) stages: Vec<StageWork>,
    /// How many jobs may run in all stages together.
    pub(super) total_concurrency: Option<u32>,
    /// The part of calls that may be retries.
    pub(super) retries: f64,
    pub(super) retries_measured: bool,
    pub(super) latency_given: bool,
}

/// The work of a stage.
pub(super) struct StageWork {
    pub(super) config: StageConfig,
    /// How many jobs pass it.
    pub(super) jobs: u64,
    /// How long a job takes. None: it makes no call, and it was not said.
    pub(super) latency: Option<Span>,
    pub(super) concurrency: u32,
    /// How long its jobs are kept: as the config says, and no longer than the engine can.
    pub(super) retention: Span,
}

impl Work {
    pub(super) fn new(
        config: &PipelineConfig,
        arguments: &Arguments,
        observed: &Observed,
    ) -> Result<Self, Failure> {
        for named in arguments.latency.iter().filter_map(|latency| latency.stage.as_ref()) {
            stage_of(config, named)?;
        }
        let mut stages: Vec<StageWork> =
            path(config).map(|stage| StageWork::new(stage, arguments, observed)).collect();
        let items = match arguments.items {
            Some(items) => {
                stages.iter_mut().for_each(|stage| stage.jobs = items);
                items
            }
            None => pass_on(&mut stages),
        };
        if items == 0 {
            return Err(Failure::usage("no jobs are left to plan for")
                .advise("say how many items there will be: --items 1M"));
        }
        let retries = observed.retries();
        Ok(Self {
            pipeline: config.name.to_string(),
            items,
            given: arguments.items.is_some(),
            stages,
            total_concurrency: config.concurrency,
            retries: retries.unwrap_or(0.0).max(RETRIES_ASSUMED),
            retries_measured: retries.is_some_and(|measured| measured > RETRIES_ASSUMED),
            latency_given: !arguments.latency.is_empty(),
        })
    }

    /// The same with as many more jobs as there may be retries.
    pub(super) fn with_retries(&self, jobs: u64) -> u64 {
        (jobs as f64 * (1.0 + self.retries)).ceil() as u64
    }
}

impl StageWork {
    fn new(config: &StageConfig, arguments: &Arguments, observed: &Observed) -> Self {
        let name = config.name.as_str();
        let own = arguments.latency.iter().rfind(|latency| latency.stage.as_deref() == Some(name));
        let all = arguments.latency.iter().rfind(|latency| latency.stage.is_none());
        let of_calls = all.map_or(LATENCY_DEFAULT, |latency| latency.latency);
        let calls = !config.take.as_str().is_empty();
        let set = observed.settings.iter().find(|known| known.stage == config.name);
        Self {
            jobs: observed.left(config),
            latency: own.map(|own| own.latency).or(calls.then_some(of_calls)),
            concurrency: set.and_then(|known| known.concurrency).unwrap_or(config.concurrency),
            retention: observed.retention_max.map_or(config.retention, |max| max.min(config.retention)),
            config: config.clone(),
        }
    }

    /// Whether a job of it takes something of this policy.
    pub(super) fn takes_from(&self, policy: &str) -> bool {
        self.config.take.amounts().contains_key(policy)
    }
}

/// The stages that an item passes, from where it enters.
fn path(config: &PipelineConfig) -> impl Iterator<Item = &StageConfig> {
    let first = config.stage(config.source.stage.as_str());
    std::iter::successors(first, |stage| config.stage(stage.next.as_ref()?.as_str()))
}

/// What is in a stage passes all after it, too. How many jobs that is about.
fn pass_on(stages: &mut [StageWork]) -> u64 {
    let mut passed = 0;
    for stage in stages {
        passed += stage.jobs;
        stage.jobs = passed;
    }
    passed
}
