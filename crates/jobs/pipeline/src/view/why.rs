//! All that is known of a job.

use serde::Serialize;
use serde_json::value::RawValue;
use tollway::Limiter;
use tollway_core::{Name, Timestamp};

use super::quota::waits_for;
use super::text::some_as_text;
use super::{JobView, Reason, one_line};
use crate::{
    Administration, Claim, EngineError, Evidence, Filter, Job, JobId, JobResult, PipelineConfig, StageConfig,
    StageCounts, StageSettings, State,
};

/// How many outputs are looked up.
const OUTPUTS_MAX: u64 = 10;

/// A job and what is around it.
#[derive(Clone, Debug)]
pub struct JobFacts {
    /// When they were read, in the engine's time.
    pub now: Timestamp,
    /// The job.
    pub job: Job,
    /// None: the config has no such stage any more.
    pub stage: Option<StageConfig>,
    /// No job of its stage is claimed.
    pub paused: bool,
    /// How many jobs of the stage may run.
    pub concurrency: u32,
    /// How many jobs of the stage are in which state.
    pub counts: StageCounts,
    /// The attempts that did not finish it.
    pub evidence: Vec<Evidence>,
    /// What a done job resulted in.
    pub result: Option<JobResult>,
    /// The outputs of a done job that were found by their keys.
    pub outputs: Vec<Job>,
    /// Of a held job: how many jobs its group has left in which stage.
    pub group_left: Vec<GroupLeft>,
    /// The policy that it would wait for now, and until when.
    pub quota: Option<(String, Timestamp)>,
    /// Whether a process runs the pipeline; none: unknown.
    pub runs: Option<bool>,
}

/// How many jobs a group has left in a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupLeft {
    /// The stage.
    pub stage: Name,
    /// How many.
    pub jobs: u64,
}

impl JobFacts {
    /// Reads what is around a job. Without a limiter, the quota is left out.
    pub async fn read(
        job: Job,
        engine: &dyn Administration,
        config: &PipelineConfig,
        limiter: Option<&Limiter>,
        now: Timestamp,
    ) -> Result<Self, EngineError> {
        let stage = config.stage(job.stage.as_str()).cloned();
        let settings = engine.stages().await?.into_iter().find(|known| known.stage == job.stage);
        let counts = engine.counts().await?.into_iter().find(|counts| counts.stage == job.stage);
        let set = settings.as_ref().and_then(|settings| settings.concurrency);
        let done = job.state == State::Done;
        let result = if done { result(engine, &job).await? } else { None };
        let cost = if job.cost.as_str().is_empty() {
            stage.as_ref().map(|stage| &stage.take)
        } else {
            Some(&job.cost)
        };
        let quota = match (limiter, cost) {
            (Some(limiter), Some(cost)) if job.state == State::Ready => {
                waits_for(limiter, config, cost, now).await
            }
            _ => None,
        };
        Ok(Self {
            now,
            paused: settings.as_ref().is_some_and(|settings| settings.paused),
            concurrency: set.or(stage.as_ref().map(|stage| stage.concurrency)).unwrap_or(0),
            evidence: engine.evidence(job.id).await?,
            outputs: outputs(engine, &job, result.as_ref()).await?,
            group_left: group_left(engine, &job, settings.as_ref()).await?,
            counts: counts.unwrap_or_else(|| StageCounts::empty(job.stage.clone())),
            runs: config.engine.is_run(),
            stage,
            job,
            result,
            quota,
        })
    }
}

/// A job, why it is where it is, and what to do: as it appears in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct WhyView {
    /// The job, with its data and attempts.
    #[serde(flatten)]
    pub job: JobView,
    /// Why, and what next.
    #[serde(flatten)]
    pub reason: Reason,
    /// When a delayed job is due, or a claim expires.
    #[serde(serialize_with = "some_as_text")]
    pub due_at: Option<Timestamp>,
    /// Who works on it.
    pub worker: Option<String>,
    /// No job of its stage is claimed.
    pub stage_paused: bool,
    /// When its cost may fit.
    #[serde(serialize_with = "some_as_text")]
    pub waiting_for_quota_until: Option<Timestamp>,
    /// Of a held job: how many jobs its group has left in which stage.
    pub group_left: Vec<GroupLeft>,
    /// When it was done.
    #[serde(serialize_with = "some_as_text")]
    pub finished_at: Option<Timestamp>,
    /// What it resulted in.
    pub result: Option<Box<RawValue>>,
    /// What it handed on, as far as it was found.
    pub outputs: Vec<JobView>,
}

impl WhyView {
    /// Facts and their reason.
    pub fn new(facts: &JobFacts, reason: &Reason) -> Self {
        let (job, result) = (&facts.job, facts.result.as_ref());
        Self {
            job: JobView::in_full(job, &facts.evidence),
            reason: reason.clone(),
            due_at: matches!(job.state, State::Delayed | State::Running).then_some(job.due_at),
            worker: (job.state == State::Running).then(|| job.worker.clone()),
            stage_paused: facts.paused,
            waiting_for_quota_until: facts.quota.as_ref().map(|(_, until)| *until),
            group_left: facts.group_left.clone(),
            finished_at: result.map(|result| result.finished_at),
            result: result.and_then(|result| one_line(result.result.as_deref()?)),
            outputs: facts.outputs.iter().map(JobView::new).collect(),
        }
    }
}

async fn result(engine: &dyn Administration, job: &Job) -> Result<Option<JobResult>, EngineError> {
    let before = job.id.get().checked_sub(1).map(JobId::new);
    let page = engine.results(&job.stage, before, 1).await?;
    Ok(page.items.into_iter().find(|result| result.job == job.id))
}

/// The first outputs that have a key of their own. Those that joined another job have its key, which is not known here.
async fn outputs(
    engine: &dyn Administration,
    job: &Job,
    result: Option<&JobResult>,
) -> Result<Vec<Job>, EngineError> {
    let Some(result) = result else { return Ok(Vec::new()) };
    let claim = Claim { job: job.id, stage: job.stage.clone(), number: result.number };
    let mut found = Vec::new();
    for index in 0..result.outputs.min(OUTPUTS_MAX) {
        let key = claim.output_key(&job.key, usize::try_from(index).unwrap_or(usize::MAX));
        // An older job with that key is an output of a job that was forgotten, and the other key was used.
        for key in [claim.output_key_again(&key), key] {
            let filter = Filter { key: Some(key), ..Filter::default() };
            let newer = engine.scan(filter, Some(job.id), 1).await?.items;
            if !newer.is_empty() {
                found.extend(newer);
                break;
            }
        }
    }
    Ok(found)
}

async fn group_left(
    engine: &dyn Administration,
    job: &Job,
    settings: Option<&StageSettings>,
) -> Result<Vec<GroupLeft>, EngineError> {
    let (Some(group), Some(settings), State::Held) = (&job.group, settings, job.state) else {
        return Ok(Vec::new());
    };
    let counts = engine.group_counts(group).await?.into_iter();
    let waited_for = counts.filter(|counts| settings.after.contains(&counts.stage) && counts.open() > 0);
    Ok(waited_for.map(|counts| GroupLeft { jobs: counts.open(), stage: counts.stage }).collect())
}
