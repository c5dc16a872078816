//! Which function answers which request.

use rusqlite::Connection;

use super::error::Failure;
use super::session::Session;
use super::writer::Durability;
use super::{evidence, finish, moving, operate, read, samples, stage_move, work};
use crate::{EngineReply as Reply, EngineRequest as Request};

/// How much durability a request needs: a claim that is lost with its machine has no worker any more.
pub(super) fn durability(request: &Request) -> Durability {
    match request {
        Request::Peek { .. }
        | Request::Claim { .. }
        | Request::Renew { .. }
        | Request::Abandon { .. }
        | Request::Record { .. } => Durability::Process,
        _ => Durability::Machine,
    }
}

/// Answers a request that changes nothing.
pub(super) fn read(connection: &Connection, request: Request) -> Result<Reply, Failure> {
    Ok(match request {
        Request::Counts => Reply::Counts(read::counts(connection)?),
        Request::SettledCounts { .. } => Reply::SettledCounts(Some(read::counts(connection)?)),
        Request::GroupCounts { group } => Reply::GroupCounts(read::group_counts(connection, &group)?),
        Request::Scan { filter, after, limit } => Reply::Scan(read::scan(connection, &filter, after, limit)?),
        Request::Matching { filter } => Reply::Matching(read::matching(connection, &filter)?),
        Request::Evidence { job } => Reply::Evidence(evidence::list(connection, job)?),
        Request::Results { stage, after, limit } => {
            Reply::Results(read::results(connection, &stage, after, limit)?)
        }
        Request::Stages => Reply::Stages(read::stages(connection)?),
        Request::Samples { since } => Reply::Samples(samples::samples(connection, since)?),
        other => other.unsupported()?,
    })
}

/// Carries out a request that changes something.
pub(super) fn write(session: &mut Session<'_>, request: Request) -> Result<Reply, Failure> {
    Ok(match request {
        Request::Enqueue { jobs, now } => Reply::Enqueue(work::enqueue(session, &jobs, now)?),
        Request::Peek { stage, now } => Reply::Peek(work::peek(session, &stage, now)?),
        Request::Claim { request, now } => Reply::Claim(work::claim(session, &request, now)?),
        Request::Renew { claims, visibility, now } => {
            Reply::Renew(work::renew(session, &claims, visibility, now)?)
        }
        Request::Finish { claim, conclusion, next, now } => {
            Reply::Finish(finish::finish_and_claim(session, &claim, conclusion, &next, now)?)
        }
        Request::Release { claims, now } => Reply::Release(work::release(session, &claims, now)?),
        Request::Abandon { worker, now } => Reply::Abandon(work::abandon(session, worker.as_deref(), now)?),
        Request::Edit { job, edit, now } => Reply::Edit(operate::edit(session, job, &edit, now)?),
        Request::Change { filter, change, after, limit, now } => {
            Reply::Change(operate::change(session, &filter, change, after, limit, now)?)
        }
        Request::MoveToStage { from, to, after, limit, now } => {
            Reply::MoveToStage(stage_move::move_to_stage(session, &from, &to, after, limit, now)?)
        }
        Request::SetStage { stage, change, now } => {
            Reply::SetStage(operate::set_stage(session, &stage, &change, now)?)
        }
        Request::Purge { stage, before, limit } => {
            Reply::Purge(operate::purge(session, &stage, before, limit)?)
        }
        Request::Record { now } => Reply::Record(samples::record(session, now)?),
        Request::Withdraw { filter, to, after, limit, now } => {
            Reply::Withdraw(moving::withdraw(session, &filter, &to, after, limit, now)?)
        }
        Request::ConfirmMoved { jobs, to } => Reply::ConfirmMoved(moving::confirm(session, &jobs, &to)?),
        Request::Import { jobs, now } => Reply::Import(moving::import(session, jobs, now)?),
        other => other.unsupported()?,
    })
}
