//! One request for each call of an engine, and one reply: what sockets carry, and what engines and those around them pass on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tollway_core::{Name, Span, Timestamp};

use super::checks::{check, check_stages, refuse, within};
use super::moving::check_import;
use crate::bounds::{BATCH_BYTES_MAX, BATCH_MAX, PAGE_MAX, STAGES_MAX};
use crate::run::RunnerView;
use crate::*;

/// The calls of an engine: what is asked for, and what the answer is.
macro_rules! calls {
    ($($call:ident $({ $($field:ident: $type:ty),* })? -> $answer:ty,)*) => {
        /// A call of an engine. The method of [`Engine`] with this name says what it does.
        ///
        /// Engines get requests whose bounds are checked: batches are within
        /// [`BATCH_MAX`] and [`BATCH_BYTES_MAX`], and limits of pages are at most [`PAGE_MAX`].
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "the methods of Engine say it")]
        pub enum EngineRequest {
            $($call $({ $($field: $type),* })?,)*
        }

        /// The reply to the [`EngineRequest`] of this name.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        #[allow(missing_docs, reason = "the methods of Engine say it")]
        pub enum EngineReply {
            $($call($answer),)*
        }

        impl EngineRequest {
            /// The reply to this request, from the JSON of an answer.
            pub(crate) fn read_reply(
                &self,
                json: &[u8],
            ) -> serde_json::Result<Result<EngineReply, EngineError>> {
                Ok(match self {
                    $(Self::$call { .. } => {
                        serde_json::from_slice::<Result<$answer, EngineError>>(json)?.map(EngineReply::$call)
                    })*
                })
            }
        }
    };
}

calls! {
    Enqueue { jobs: Vec<NewJob>, now: Timestamp } -> Vec<Enqueued>,
    Peek { stage: Name, now: Timestamp } -> Peek,
    Claim { request: ClaimRequest, now: Timestamp } -> Vec<Claimed>,
    Renew { claims: Vec<Claim>, visibility: Span, now: Timestamp } -> Vec<bool>,
    Finish { claim: Claim, conclusion: Conclusion, next: Vec<ClaimRequest>, now: Timestamp } -> (Finished, Option<Claimed>),
    Release { claims: Vec<Claim>, now: Timestamp } -> Vec<bool>,
    Abandon { worker: Option<String>, now: Timestamp } -> u64,
    ClaimName { worker: String, process: String } -> Option<String>,
    Tidy -> (),
    Flush -> (),
    Counts -> Vec<StageCounts>,
    SettledCounts { now: Timestamp } -> Option<Vec<StageCounts>>,
    GroupCounts { group: String } -> Vec<StageCounts>,
    Scan { filter: Filter, after: Option<JobId>, limit: usize } -> Page<Job>,
    Matching { filter: Filter } -> u64,
    Evidence { job: JobId } -> Vec<Evidence>,
    Results { stage: Name, after: Option<JobId>, limit: usize } -> Page<JobResult>,
    Edit { job: JobId, edit: Edit, now: Timestamp } -> Edited,
    Change { filter: Filter, change: Change, after: Option<JobId>, limit: usize, now: Timestamp } -> Changed,
    MoveToStage { from: Name, to: Name, after: Option<JobId>, limit: usize, now: Timestamp } -> StageMove,
    RunnerView -> Option<RunnerView>,
    Stages -> Vec<StageSettings>,
    SetStage { stage: Name, change: StageChange, now: Timestamp } -> (),
    Purge { stage: Name, before: Timestamp, limit: usize } -> u64,
    Record { now: Timestamp } -> (),
    Samples { since: Timestamp } -> Vec<Sample>,
    Withdraw { filter: Filter, to: String, after: Option<JobId>, limit: usize, now: Timestamp } -> Page<Job>,
    ConfirmMoved { jobs: Vec<JobId>, to: String } -> u64,
    Import { jobs: Vec<MovedJob>, now: Timestamp } -> Vec<Enqueued>,
    Backup { target: PathBuf } -> (),
}

/// Asks an engine, and unwraps its reply.
macro_rules! ask {
    ($engine:expr, $call:ident $({ $($fields:tt)* })?) => {{
        let answer = $crate::engine::request::send($engine, EngineRequest::$call $({ $($fields)* })?);
        Box::pin(async move {
            match answer.await? {
                EngineReply::$call(answer) => Ok(answer),
                other => Err($crate::engine::request::other_reply(&other)),
            }
        })
    }};
}
pub(super) use ask;

/// Checks a request, and hands it to the engine.
pub(super) fn send(engine: &(impl Engine + ?Sized), mut request: EngineRequest) -> EngineAnswer<EngineReply> {
    match request.check() {
        Ok(()) => engine.call(request),
        Err(error) => refuse(error),
    }
}

pub(super) fn other_reply(reply: &EngineReply) -> EngineError {
    EngineError::caller(format!("the engine answered another call than it was asked: {reply:?}"))
}

/// An answer as the reply to its request.
pub(super) fn reply<T: Send + 'static>(
    answer: EngineAnswer<T>,
    of: fn(T) -> EngineReply,
) -> EngineAnswer<EngineReply> {
    Box::pin(async move { answer.await.map(of) })
}

impl EngineRequest {
    /// Checks its bounds, and shortens its page to what one call may have.
    fn check(&mut self) -> Result<(), EngineError> {
        match self {
            Self::Enqueue { jobs, .. } => {
                within("jobs", jobs.len(), BATCH_MAX)?;
                within("bytes", self.bytes(), BATCH_BYTES_MAX)
            }
            Self::Claim { request, .. } => within("jobs", request.count, BATCH_MAX),
            Self::Renew { claims, .. } | Self::Release { claims, .. } => {
                within("claims", claims.len(), BATCH_MAX)
            }
            Self::Finish { conclusion, next, .. } => {
                within("stages", next.len(), STAGES_MAX)?;
                check(conclusion)
            }
            Self::ConfirmMoved { jobs, .. } => within("jobs", jobs.len(), BATCH_MAX),
            Self::Import { jobs, .. } => check_import(jobs),
            Self::MoveToStage { from, to, .. } if from == to => check_stages(from, to),
            Self::Scan { limit, .. }
            | Self::Results { limit, .. }
            | Self::Change { limit, .. }
            | Self::MoveToStage { limit, .. }
            | Self::Purge { limit, .. }
            | Self::Withdraw { limit, .. } => {
                *limit = PAGE_MAX.min(*limit);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks the values in it that its caller cannot have made without a check, unless the caller is another process.
    pub(super) fn check_values(&self) -> Result<(), JobError> {
        match self {
            Self::Enqueue { jobs, .. } => jobs.iter().try_for_each(NewJob::check),
            Self::Finish { conclusion: Conclusion::Done { outputs, .. }, .. } => {
                outputs.iter().try_for_each(Output::check)
            }
            Self::Edit { edit, .. } => edit.check(),
            _ => Ok(()),
        }
    }

    /// How many bytes of jobs it brings.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Enqueue { jobs, .. } => jobs.iter().map(NewJob::bytes).sum(),
            Self::Finish { conclusion, .. } => conclusion.bytes(),
            Self::Edit { edit, .. } => edit.data.as_ref().map_or(0, String::len),
            Self::Import { jobs, .. } => jobs.iter().map(MovedJob::bytes).sum(),
            _ => 0,
        }
    }

    /// Whether it changes nothing, and no worker waits for it.
    pub(super) fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Counts
                | Self::SettledCounts { .. }
                | Self::GroupCounts { .. }
                | Self::Scan { .. }
                | Self::Matching { .. }
                | Self::Evidence { .. }
                | Self::Results { .. }
                | Self::Stages
                | Self::Samples { .. }
        )
    }

    /// The time of the call, if it brings one.
    pub fn now_mut(&mut self) -> Option<&mut Timestamp> {
        match self {
            Self::Enqueue { now, .. }
            | Self::Peek { now, .. }
            | Self::Claim { now, .. }
            | Self::Renew { now, .. }
            | Self::Finish { now, .. }
            | Self::Release { now, .. }
            | Self::Abandon { now, .. }
            | Self::SettledCounts { now }
            | Self::Edit { now, .. }
            | Self::Change { now, .. }
            | Self::MoveToStage { now, .. }
            | Self::SetStage { now, .. }
            | Self::Record { now }
            | Self::Withdraw { now, .. }
            | Self::Import { now, .. } => Some(now),
            _ => None,
        }
    }

    /// The answer of an engine that does not know this call: nothing has to be done, or it is an error.
    pub fn unsupported(&self) -> Result<EngineReply, EngineError> {
        let what = match self {
            Self::ClaimName { .. } => return Ok(EngineReply::ClaimName(None)),
            Self::Tidy => return Ok(EngineReply::Tidy(())),
            Self::Flush => return Ok(EngineReply::Flush(())),
            Self::RunnerView => return Ok(EngineReply::RunnerView(None)),
            Self::MoveToStage { .. } => "move jobs to another stage",
            Self::Withdraw { .. } | Self::ConfirmMoved { .. } => "move jobs to another one",
            Self::Import { .. } => "take jobs of another one",
            Self::Backup { .. } => "copy its jobs to a file: use the backup of its server",
            _ => "do this",
        };
        Err(EngineError::unsupported("this engine", what))
    }
}
