//! What is said over the socket: a [`Call`] a line, and for each its answer or error.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tollway_core::{Name, Span, Timestamp};

use super::server::View;
use crate::engine::checks::within;
use crate::{
    Change, Claim, ClaimRequest, Conclusion, Edit, Engine, EngineError, Filter, JobId, MovedJob, NewJob,
    StageChange,
};

/// A call of an engine.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Call {
    Capabilities,
    Time { now: Timestamp },
    Enqueue { jobs: Vec<NewJob>, now: Timestamp },
    Peek { stage: Name, now: Timestamp },
    Claim { request: ClaimRequest, now: Timestamp },
    Renew { claims: Vec<Claim>, visibility: Span, now: Timestamp },
    Finish { claim: Claim, conclusion: Conclusion, now: Timestamp },
    Release { claims: Vec<Claim>, now: Timestamp },
    Abandon { worker: Option<String>, now: Timestamp },
    Counts,
    GroupCounts { group: String },
    Scan { filter: Filter, after: Option<JobId>, limit: usize },
    Matching { filter: Filter },
    Evidence { job: JobId },
    Results { stage: Name, after: Option<JobId>, limit: usize },
    Edit { job: JobId, edit: Edit, now: Timestamp },
    Change { filter: Filter, change: Change, after: Option<JobId>, limit: usize, now: Timestamp },
    MoveToStage { from: Name, to: Name, after: Option<JobId>, limit: usize, now: Timestamp },
    RunnerView,
    Stages,
    SetStage { stage: Name, change: StageChange, now: Timestamp },
    Purge { stage: Name, before: Timestamp, limit: usize },
    Record { now: Timestamp },
    Samples { since: Timestamp },
    Withdraw { filter: Filter, to: String, after: Option<JobId>, limit: usize, now: Timestamp },
    ConfirmMoved { jobs: Vec<JobId>, to: String },
    Import { jobs: Vec<MovedJob>, now: Timestamp },
    Backup { target: PathBuf },
}

/// Does what a line asks for, and answers with a line.
pub(super) async fn answer(engine: &dyn Engine, view: Option<&View>, line: &[u8]) -> Vec<u8> {
    let answer = match serde_json::from_slice(line) {
        Ok(Call::RunnerView) => encode(&Ok::<_, EngineError>(view.map(|view| view()))),
        Ok(call) => carry_out(engine, call).await,
        Err(error) => Err(EngineError::caller(format!(
            "the process that runs the pipeline does not know this call ({error}): restart it with this version"
        ))),
    };
    let answer = answer.unwrap_or_else(|error| encode(&Err::<(), _>(error)).unwrap_or_default());
    match answer.len() as u64 {
        0..tollway_socket::LINE_BYTES_MAX => answer,
        _ => encode(&Err::<(), _>(EngineError::caller("the answer is too large: ask for less")))
            .unwrap_or_default(),
    }
}

async fn carry_out(engine: &dyn Engine, call: Call) -> Result<Vec<u8>, EngineError> {
    match call {
        Call::Capabilities => encode(&Ok::<_, EngineError>(engine.capabilities())),
        Call::Time { now } => encode(&Ok::<_, EngineError>(engine.time(now))),
        Call::Enqueue { jobs, now } => {
            jobs.iter().try_for_each(NewJob::check)?;
            encode(&engine.enqueue(jobs, now).await)
        }
        Call::Peek { stage, now } => encode(&engine.peek(&stage, now).await),
        Call::Claim { request, now } => encode(&engine.claim(request, now).await),
        Call::Renew { claims, visibility, now } => encode(&engine.renew(claims, visibility, now).await),
        Call::Finish { claim, conclusion, now } => {
            if let Conclusion::Done { outputs, .. } = &conclusion {
                outputs.iter().try_for_each(crate::Output::check)?;
            }
            encode(&engine.finish(claim, conclusion, now).await)
        }
        Call::Release { claims, now } => encode(&engine.release(claims, now).await),
        Call::Abandon { worker, now } => encode(&engine.abandon(worker.as_deref(), now).await),
        Call::Counts => encode(&engine.counts().await),
        Call::GroupCounts { group } => encode(&engine.group_counts(&group).await),
        Call::Scan { filter, after, limit } => encode(&engine.scan(filter, after, limit).await),
        Call::Matching { filter } => encode(&engine.matching(filter).await),
        Call::Evidence { job } => encode(&engine.evidence(job).await),
        Call::Results { stage, after, limit } => encode(&engine.results(&stage, after, limit).await),
        Call::Edit { job, edit, now } => {
            edit.check()?;
            encode(&engine.edit(job, edit, now).await)
        }
        Call::Change { filter, change, after, limit, now } => {
            encode(&engine.change(filter, change, after, limit, now).await)
        }
        Call::MoveToStage { from, to, after, limit, now } => {
            encode(&engine.move_to_stage(&from, &to, after, limit, now).await)
        }
        Call::RunnerView => encode(&engine.runner_view().await),
        Call::Stages => encode(&engine.stages().await),
        Call::SetStage { stage, change, now } => encode(&engine.set_stage(&stage, change, now).await),
        Call::Purge { stage, before, limit } => encode(&engine.purge(&stage, before, limit).await),
        Call::Record { now } => encode(&engine.record(now).await),
        Call::Samples { since } => encode(&engine.samples(since).await),
        Call::Withdraw { filter, to, after, limit, now } => {
            encode(&engine.withdraw(filter, &to, after, limit, now).await)
        }
        Call::ConfirmMoved { jobs, to } => encode(&engine.confirm_moved(jobs, &to).await),
        Call::Import { jobs, now } => encode(&engine.import(jobs, now).await),
        Call::Backup { target } => encode(&engine.backup(&target).await),
    }
}

/// A line of JSON.
pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>, EngineError> {
    let mut line = serde_json::to_vec(value).map_err(|error| EngineError::caller(error.to_string()))?;
    within("bytes", line.len(), usize::try_from(tollway_socket::LINE_BYTES_MAX).unwrap_or(usize::MAX))?;
    line.push(b'\n');
    Ok(line)
}
