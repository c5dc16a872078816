//! Which function answers which request of an operator. Those of workers share transactions: `lane.rs`.

use super::error::Failure;
use super::session::Session;
use super::{moving, operate, read, samples, stage_move};
use crate::{EngineReply as Reply, EngineRequest as Request};

/// Answers a request that changes nothing.
pub(super) async fn read(session: &Session, request: Request) -> Result<Reply, Failure> {
    Ok(match request {
        Request::Counts => Reply::Counts(read::counts(session).await?),
        Request::SettledCounts { .. } => Reply::SettledCounts(Some(read::counts(session).await?)),
        Request::GroupCounts { group } => Reply::GroupCounts(read::group_counts(session, group).await?),
        Request::Scan { filter, after, limit } => {
            Reply::Scan(read::scan(session, filter, after, limit).await?)
        }
        Request::Matching { filter } => Reply::Matching(read::matching(session, filter).await?),
        Request::Evidence { job } => Reply::Evidence(read::evidence(session, job).await?),
        Request::Results { stage, after, limit } => {
            Reply::Results(read::results(session, stage, after, limit).await?)
        }
        Request::Stages => Reply::Stages(read::stages(session).await?),
        Request::Samples { since } => Reply::Samples(samples::samples(session, since).await?),
        other => other.unsupported()?,
    })
}

/// Carries out a request that changes something, in a transaction of its own.
pub(super) async fn write(session: &Session, request: Request) -> Result<Reply, Failure> {
    Ok(match request {
        Request::Abandon { worker, now } => Reply::Abandon(operate::abandon(session, worker, now).await?),
        Request::Edit { job, edit, now } => Reply::Edit(operate::edit(session, job, edit, now).await?),
        Request::Change { filter, change, after, limit, now } => {
            Reply::Change(operate::change(session, filter, change, after, limit, now).await?)
        }
        Request::MoveToStage { from, to, after, limit, now } => {
            Reply::MoveToStage(stage_move::move_to_stage(session, from, to, after, limit, now).await?)
        }
        Request::SetStage { stage, change, now } => {
            Reply::SetStage(operate::set_stage(session, stage, change, now).await?)
        }
        Request::Purge { stage, before, limit } => {
            Reply::Purge(operate::purge(session, stage, before, limit).await?)
        }
        Request::Record { now } => Reply::Record(samples::record(session, now).await?),
        Request::Withdraw { filter, to, after, limit, now } => {
            Reply::Withdraw(moving::withdraw(session, filter, to, after, limit, now).await?)
        }
        Request::ConfirmMoved { jobs, to } => Reply::ConfirmMoved(moving::confirm(session, jobs, to).await?),
        Request::Import { jobs, now } => Reply::Import(moving::import(session, jobs, now).await?),
        other => other.unsupported()?,
    })
}
