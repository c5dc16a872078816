//! All that is known of a job.

use serde::Serialize;
use serde_json::value::RawValue;
use tollway::core::Name;
use tollway::{Limiter, Timestamp};
use tollway_pipeline::{
    Claim, Engine, Evidence, Filter, Job, JobId, JobResult, StageConfig, StageCounts, StageSettings, State,
};

use super::reason::Reason;
use crate::failure::Failure;
use crate::pipeline::job_view::{JobJson, raw};
use crate::pipeline::quota::waits_for;
use crate::pipeline::running::another_process_runs;
use crate::pipeline::session::Session;

/// How many outputs are looked up.
const OUTPUTS_MAX: u64 = 10;

/// A job and what is around it.
pub(super) struct Facts {
    pub(super) now: Timestamp,
    pub(super) job: Job,
    /// None: the config has no such stage any more.
    pub(super) stage: Option<StageConfig>,
    pub(super) paused: bool,
    /// How many may run, and how many jobs of the stage are in which state.
    pub(super) concurrency: u32,
    pub(super) counts: StageCounts,
    pub(super) evidence: Vec<Evidence>,
    /// What a done job resulted in.
    pub(super) result: Option<JobResult>,
    /// The outputs of a done job that were found by their keys.
    pub(super) outputs: Vec<Job>,
    /// Of a held job: how many jobs its group has left in which stage.
    pub(super) group_left: Vec<(Name, u64)>,
    /// The policy that it would wait for now, and until when.
    pub(super) quota: Option<(String, Timestamp)>,
    /// Whether a process runs the pipeline; none: unknown.
    pub(super) runs: Option<bool>,
}

impl Facts {
    pub(super) async fn read(
        job: Job,
        session: &Session<'_>,
        limiter: Option<&Limiter>,
    ) -> Result<Self, Failure> {
        let engine = &*session.engine;
        let stage = session.config.stage(job.stage.as_str()).cloned();
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
                waits_for(limiter, &session.config, cost, session.now()).await
            }
            _ => None,
        };
        Ok(Self {
            now: session.now(),
            paused: settings.as_ref().is_some_and(|settings| settings.paused),
            concurrency: set.or(stage.as_ref().map(|stage| stage.concurrency)).unwrap_or(0),
            evidence: engine.evidence(job.id).await?,
            outputs: outputs(engine, &job, result.as_ref()).await?,
            group_left: group_left(engine, &job, settings.as_ref()).await?,
            counts: counts.unwrap_or_else(|| StageCounts::empty(job.stage.clone())),
            runs: another_process_runs(&session.config),
            stage,
            job,
            result,
            quota,
        })
    }

    pub(super) fn to_json<'f>(&'f self, reason: &'f Reason) -> impl Serialize + use<'f> {
        let result = self.result.as_ref();
        FactsJson {
            job: JobJson::in_full(&self.job, &self.evidence),
            why: &reason.why,
            next: &reason.next,
            due_at: matches!(self.job.state, State::Delayed | State::Running)
                .then(|| self.job.due_at.to_string()),
            worker: (self.job.state == State::Running).then_some(self.job.worker.as_str()),
            stage_paused: self.paused,
            waiting_for_quota_until: self.quota.as_ref().map(|(_, until)| until.to_string()),
            group_left: self
                .group_left
                .iter()
                .map(|(stage, jobs)| GroupLeft { stage: stage.as_str(), jobs: *jobs })
                .collect(),
            finished_at: result.map(|result| result.finished_at.to_string()),
            result: result.and_then(|result| raw(result.result.as_deref()?)),
            outputs: self.outputs.iter().map(JobJson::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct FactsJson<'f> {
    #[serde(flatten)]
    job: JobJson<'f>,
    why: &'f [String],
    next: &'f [String],
    due_at: Option<String>,
    worker: Option<&'f str>,
    stage_paused: bool,
    waiting_for_quota_until: Option<String>,
    group_left: Vec<GroupLeft<'f>>,
    finished_at: Option<String>,
    result: Option<Box<RawValue>>,
    outputs: Vec<JobJson<'f>>,
}

#[derive(Serialize)]
struct GroupLeft<'f> {
    stage: &'f str,
    jobs: u64,
}

async fn result(engine: &dyn Engine, job: &Job) -> Result<Option<JobResult>, Failure> {
    let before = job.id.get().checked_sub(1).map(JobId::new);
    let page = engine.results(&job.stage, before, 1).await?;
    Ok(page.items.into_iter().find(|result| result.job == job.id))
}

/// The first outputs that have a key of their own. Those that joined another job have its key, which is not known here.
async fn outputs(engine: &dyn Engine, job: &Job, result: Option<&JobResult>) -> Result<Vec<Job>, Failure> {
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
    engine: &dyn Engine,
    job: &Job,
    settings: Option<&StageSettings>,
) -> Result<Vec<(Name, u64)>, Failure> {
    let (Some(group), Some(settings), State::Held) = (&job.group, settings, job.state) else {
        return Ok(Vec::new());
    };
    let counts = engine.group_counts(group).await?;
    let left = |counts: &StageCounts| -> u64 {
        State::ALL.iter().filter(|state| !state.has_left()).map(|state| counts.of(*state)).sum()
    };
    let waited_for = counts.iter().filter(|counts| settings.after.contains(&counts.stage));
    Ok(waited_for.map(|counts| (counts.stage.clone(), left(counts))).filter(|(_, jobs)| *jobs > 0).collect())
}
