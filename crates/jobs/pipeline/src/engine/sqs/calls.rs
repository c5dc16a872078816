//! Which function answers which request.

use std::sync::Arc;

use super::Inner;
use crate::{EngineError, EngineReply as Reply, EngineRequest as Request, Page};

pub(super) async fn carry_out(inner: Arc<Inner>, request: Request) -> Result<Reply, EngineError> {
    Ok(match request {
        Request::Enqueue { jobs, now } => Reply::Enqueue(inner.enqueue(jobs, now).await?),
        Request::Peek { stage, now } => Reply::Peek(inner.peek(&stage, now).await?),
        Request::Claim { request, now } => Reply::Claim(inner.claim(request, now).await?),
        Request::Renew { claims, visibility, now } => {
            Reply::Renew(inner.renew(claims, visibility, now).await?)
        }
        // A claim is a call of its own: it receives a message.
        Request::Finish { claim, conclusion, next: _, now } => {
            Reply::Finish((inner.finish(claim, conclusion, now).await?, None))
        }
        Request::Release { claims, now } => Reply::Release(inner.release(claims, now).await?),
        Request::Abandon { worker, now } => Reply::Abandon(inner.abandon(worker.as_deref(), now).await?),
        Request::ClaimName { worker, process } => {
            Reply::ClaimName(inner.claim_name(&worker, &process).await?)
        }
        Request::Tidy => Reply::Tidy(inner.tidy().await?),
        Request::Flush => Reply::Flush(inner.flush().await?),
        Request::Counts => Reply::Counts(inner.counts().await?),
        Request::SettledCounts { now } => Reply::SettledCounts(inner.settled_counts(now).await?),
        Request::GroupCounts { group } => Reply::GroupCounts(inner.group_counts(&group).await?),
        Request::Scan { filter, after, limit } => {
            let page = inner.scan(&filter, after, limit, |_| true).await?;
            let items = page.items.into_iter().map(|found| found.record.job).collect();
            Reply::Scan(Page { items, next: page.next })
        }
        Request::Matching { filter } => Reply::Matching(inner.matching(&filter).await?),
        Request::Evidence { job } => {
            Reply::Evidence(inner.find(job).await?.map(|found| found.record.evidence).unwrap_or_default())
        }
        Request::Results { stage, after, limit } => {
            Reply::Results(inner.results(&stage, after, limit).await?)
        }
        Request::Edit { job, edit, now } => Reply::Edit(inner.edit(job, edit, now).await?),
        Request::Change { filter, change, after, limit, now } => {
            Reply::Change(inner.change(&filter, change, after, limit, now).await?)
        }
        Request::MoveToStage { from, to, after, limit, now } => {
            Reply::MoveToStage(inner.move_to_stage(&from, &to, after, limit, now).await?)
        }
        Request::Stages => Reply::Stages(inner.stages().await?),
        Request::SetStage { stage, change, now } => {
            Reply::SetStage(inner.set_stage(&stage, change, now).await?)
        }
        Request::Purge { stage, before, limit } => Reply::Purge(inner.purge(&stage, before, limit).await?),
        Request::Record { now } => Reply::Record(inner.record(now).await?),
        Request::Samples { since } => Reply::Samples(inner.samples(since).await?),
        Request::Withdraw { filter, to, after, limit, now } => {
            Reply::Withdraw(inner.withdraw(&filter, &to, after, limit, now).await?)
        }
        Request::ConfirmMoved { jobs, to } => Reply::ConfirmMoved(inner.confirm_moved(jobs, &to).await?),
        Request::Import { jobs, now } => Reply::Import(inner.import(jobs, now).await?),
        other @ (Request::RunnerView | Request::Backup { .. }) => other.unsupported()?,
    })
}
