//! The workers under Tollway: jobs in a SQLite file, a limiter, and a runner with two stages.

use std::path::Path;
use std::sync::Arc;

use tollway::core::Name;
use tollway::{BuildError, Limiter, Policy, Span};
use tollway_pipeline::bounds::{BATCH_MAX, PAGE_MAX};
use tollway_pipeline::run::Runner;
use tollway_pipeline::run::progress::Progress;
use tollway_pipeline::{
    Change, CommandConfig, Edit, Engine, EngineAnswer, Filter, HandlerConfig, Job, JobCost, JobId, JobResult,
    NewJob, Page, SqliteEngine, StageConfig, State,
};

use super::documents::{Document, STAGES, TRIES, name};
use super::quota::Quota;
use super::state::Plan;
use super::worker_processes::WorkerProcesses;
use crate::failure::{Exit, Failure};
use crate::pipeline::unshare;

const POLICY: &str = "vendor";
const LIMIT: &str = "calls";

/// The pause before a second try.
const BACKOFF: Span = Span::from_millis(500);
/// How long a worker may take for a job; far longer than the vendor takes.
const TIMEOUT: Span = Span::from_secs(30);
/// How long jobs may go on after the demo was interrupted.
const DRAIN_WITHIN: Span = Span::from_secs(2);

/// The pipeline of the demo.
pub(super) struct Pipeline {
    engine: Arc<dyn Engine>,
    limiter: Limiter,
    runner: Arc<Runner>,
}

/// Dead letters that were corrected and redriven.
#[derive(Clone, Debug)]
pub(super) struct Redriven {
    pub(super) jobs: u64,
    /// The error of the first one.
    pub(super) error: String,
}

/// What the file holds at the end.
#[derive(Debug, Default)]
pub(super) struct JobRecords {
    pub(super) jobs: Vec<Job>,
    pub(super) completions: Vec<(usize, JobResult)>,
}

impl Pipeline {
    /// Enqueues every document and starts the workers.
    pub(super) async fn start(
        plan: &Plan,
        quota: &Quota,
        workers: &WorkerProcesses,
        file: &Path,
    ) -> Result<Self, Failure> {
        let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open(file).map_err(failed)?);
        let limiter = limiter(quota)?;
        enqueue(&*engine, plan.jobs, &limiter).await?;
        let mut builder = Runner::builder(Arc::clone(&engine), limiter.clone()).sole_owner();
        for stage in stages(plan.workers, &workers.command)? {
            builder = builder.stage(stage);
        }
        let runner = builder.start().await.map_err(failed)?;
        Ok(Self { engine, limiter, runner: Arc::new(runner) })
    }

    pub(super) fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    pub(super) fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    pub(super) fn runner(&self) -> &Arc<Runner> {
        &self.runner
    }

    /// How far it is. Fails if its workers cannot work.
    pub(super) async fn progress(&self) -> Result<Progress, Failure> {
        let progress = self.runner.progress().await.map_err(failed)?;
        match progress.stages.iter().find(|stage| stage.paused) {
            None => Ok(progress),
            Some(stage) => {
                let jobs =
                    self.scan(Filter { stage: Some(stage.stage.clone()), ..Filter::default() }).await?;
                let error = jobs
                    .into_iter()
                    .map(|job| job.error)
                    .rfind(|error| !error.is_empty())
                    .unwrap_or_default();
                let what = format!("the workers of stage {} do not work: {error}", stage.stage.as_str());
                Err(Failure::new(Exit::FAILED, what).advise("try again with fewer workers: --workers 4"))
            }
        }
    }

    /// Changes the limit as `tollway limit set` does, or back to what it was as `limit clear` does.
    pub(super) async fn set_limit(&self, limit: Option<u64>) -> Result<(), Failure> {
        let set = match limit {
            Some(limit) => self.limiter.set_limit(POLICY, LIMIT, &limit.to_string()).await,
            None => self.limiter.clear_limit(POLICY, LIMIT).await,
        };
        set.map_err(failed)
    }

    /// Corrects the data of dead letters and redrives them, as `pipeline dead edit` and `dead redrive` do.
    pub(super) async fn correct_and_redrive(&self) -> Result<Redriven, Failure> {
        let dead = Filter { state: Some(State::Dead), ..Filter::default() };
        let letters = self.scan(dead.clone()).await?;
        let error = letters.first().map(|job| job.error.clone()).unwrap_or_default();
        for job in letters {
            let Ok(document) = serde_json::from_str::<Document>(&job.data) else { continue };
            let data = serde_json::to_string(&document.corrected()).map_err(failed)?;
            let edit = Edit::default().data(&data).map_err(failed)?;
            self.engine.edit(job.id, edit, self.limiter.clock().now()).await.map_err(failed)?;
        }
        let change = self.engine.change(dead, Change::Redrive, None, PAGE_MAX, self.limiter.clock().now());
        Ok(Redriven { jobs: change.await.map_err(failed)?.jobs, error })
    }

    /// Ends the workers, and reads what the file holds.
    pub(super) async fn stop(self) -> Result<JobRecords, Failure> {
        // The dashboard may look at it for a moment.
        if let Some(runner) = unshare(self.runner).await {
            runner.drain(DRAIN_WITHIN).await.map_err(failed)?;
        }
        let engine = self.engine;
        let jobs = pages(|after| engine.scan(Filter::default(), after, PAGE_MAX)).await?;
        let mut completions = Vec::new();
        for (index, stage) in STAGES.iter().enumerate() {
            let stage = Name::new(stage).map_err(failed)?;
            let results = pages(|after| engine.results(&stage, after, PAGE_MAX)).await?;
            completions.extend(results.into_iter().map(|result| (index, result)));
        }
        Ok(JobRecords { jobs, completions })
    }

    async fn scan(&self, filter: Filter) -> Result<Vec<Job>, Failure> {
        pages(|after| self.engine.scan(filter.clone(), after, PAGE_MAX)).await
    }
}

/// Every page of a list.
async fn pages<T>(read: impl Fn(Option<JobId>) -> EngineAnswer<Page<T>>) -> Result<Vec<T>, Failure> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let page = read(after).await.map_err(failed)?;
        items.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(items),
        }
    }
}

/// The limit in memory, since only this process takes from it.
fn limiter(quota: &Quota) -> Result<Limiter, Failure> {
    let limit = format!("{LIMIT}: {} requests / {} ms", quota.limit, quota.minute.as_micros() / 1_000);
    let policy = Policy::new(POLICY, [limit.as_str()]).map_err(BuildError::from)?.with_edge(quota.edge());
    Ok(Limiter::builder().with_policy(policy)?.metrics().build())
}

/// Half of the workers in each stage: what `[pipelines.*]` says in a config file.
pub(super) fn stages(workers: u64, command: &[String]) -> Result<Vec<StageConfig>, Failure> {
    let take = JobCost::new([(POLICY, "requests", 1)]).map_err(failed)?;
    let names = STAGES.map(Name::new);
    let mut stages = Vec::with_capacity(names.len());
    for (index, stage) in names.iter().enumerate() {
        let concurrency = if index == 0 { workers / 2 } else { workers - workers / 2 };
        // The worker says when it calls, so that the last check comes just before the call.
        let handler = CommandConfig { begin: true, ..CommandConfig::new(command.iter().cloned()) };
        stages.push(StageConfig {
            take: take.clone(),
            handler: Some(HandlerConfig::Command(handler)),
            concurrency: u32::try_from(concurrency).unwrap_or(u32::MAX),
            timeout: TIMEOUT,
            tries: TRIES,
            backoff: BACKOFF,
            next: names.get(index + 1).cloned().transpose().map_err(failed)?,
            ..StageConfig::new(stage.clone().map_err(failed)?)
        });
    }
    Ok(stages)
}

async fn enqueue(engine: &dyn Engine, jobs: u64, limiter: &Limiter) -> Result<(), Failure> {
    let first = Name::new(STAGES[0]).map_err(failed)?;
    let mut new = Vec::new();
    for number in 1..=jobs {
        let data = serde_json::to_string(&Document::new(number, jobs)).map_err(failed)?;
        new.push(NewJob::new(&first, &name(number), &data).map_err(failed)?);
    }
    for jobs in new.chunks(BATCH_MAX) {
        engine.enqueue(jobs.to_vec(), limiter.clock().now()).await.map_err(failed)?;
    }
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::FAILED, format!("the pipeline of the demo failed: {error}"))
}
