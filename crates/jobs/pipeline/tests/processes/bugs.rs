//! Five bugs that an engine or a runner could have. The checker must find each of them.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollway_core::Timestamp;
use tollway_pipeline::{
    Claim, ClaimRequest, Claimed, Conclusion, Engine, EngineAnswer, Filter, Finished, NewJob,
};

use crate::audit::die;
use crate::child::output_data;
use crate::stage;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Bug {
    /// A job is claimed, and then waits for its token: see `child.rs`.
    ClaimBeforeToken,
    /// The answer of an older claim is accepted.
    NoFence,
    /// The job is done in one transaction, and its outputs are enqueued in the next.
    HandOffInTwoTransactions,
    /// The answer does not wait for the commit.
    AnswerBeforeCommit,
    /// An output is dropped.
    LostOutput,
}

/// A call of `finish`.
pub(crate) struct Finish {
    pub(crate) claim: Claim,
    pub(crate) key: String,
    pub(crate) conclusion: Conclusion,
    pub(crate) next: Vec<ClaimRequest>,
    pub(crate) now: Timestamp,
    /// The process dies here, where the bug has one, at its worst moment.
    pub(crate) dies: bool,
}

/// How long the commit comes after its answer.
const COMMITS_AFTER: Duration = Duration::from_millis(200);

/// Finishes a job with a bug, or as it should be.
pub(crate) fn finish(
    engine: Arc<dyn Engine>,
    bug: Option<Bug>,
    call: Finish,
) -> EngineAnswer<(Finished, Option<Claimed>)> {
    let Finish { claim, mut conclusion, next, now, .. } = call;
    match (bug, &mut conclusion) {
        (Some(Bug::NoFence), _) => Box::pin(async move {
            let job = Filter { job: Some(claim.job), ..Filter::default() };
            let newest = engine.scan(job, None, 1).await?.items.first().map(|job| job.claim_number);
            let claim = Claim { number: newest.unwrap_or(claim.number), ..claim };
            engine.finish_and_claim(claim, conclusion, next, now).await
        }),
        (Some(Bug::HandOffInTwoTransactions), Conclusion::Done { outputs, .. }) if !outputs.is_empty() => {
            let outputs = std::mem::take(outputs);
            Box::pin(async move {
                let finished = engine.finish_and_claim(claim.clone(), conclusion, next, now).await?;
                if call.dies {
                    die();
                }
                let new = (0..outputs.len()).map(|index| {
                    let key = claim.output_key(&call.key, index);
                    NewJob::new(&stage("b"), &key, &output_data(&call.key, index)).unwrap()
                });
                engine.enqueue(new.collect(), now).await?;
                Ok(finished)
            })
        }
        (Some(Bug::AnswerBeforeCommit), Conclusion::Done { outputs, .. }) => {
            let finished = Finished::Committed { outputs: outputs.len(), joined: 0 };
            tokio::spawn(async move {
                tokio::time::sleep(COMMITS_AFTER).await;
                engine.finish(claim, conclusion, now).await
            });
            Box::pin(std::future::ready(Ok((finished, None))))
        }
        (Some(Bug::LostOutput), Conclusion::Done { outputs, .. }) => {
            if call.key.ends_with('5') {
                outputs.pop();
            }
            engine.finish_and_claim(claim, conclusion, next, now)
        }
        _ => engine.finish_and_claim(claim, conclusion, next, now),
    }
}
