//! Claims: to look, to claim, to renew, to give back.

use std::collections::{HashMap, HashSet};

use futures_util::future::{try_join3, try_join4};
use tokio_postgres::Row;
use tollway_core::{Name, Span, Timestamp};

use super::error::Failure;
use super::lane::Operation;
use super::rows::job;
use super::session::{BEGIN, BEGIN_FORGETTABLE, Session};
use super::statements::Index;
use crate::bounds::BATCH_MAX;
use crate::engine::stored::{micros, stored, time};
use crate::{Attempt, Claim, ClaimRequest, Claimed, JobCost, Peek};

/// A call of `peek`. All callers that look at a stage share one look.
pub(super) struct Look {
    pub(super) stage: Name,
    pub(super) now: Timestamp,
}

impl Operation for Look {
    type Answer = Peek;

    fn joins(&self, others: &[&Self]) -> bool {
        others.iter().all(|other| other.stage == self.stage)
    }

    async fn run(session: &Session, calls: &[&Self]) -> Result<(Vec<Peek>, bool), Failure> {
        let Some(stage) = session.stage(&calls[0].stage).await? else {
            return Ok((vec![Peek::default(); calls.len()], false));
        };
        let now = latest(calls.iter().map(|call| call.now));
        let (_, due, rows, _) = try_join4(
            session.begin(BEGIN_FORGETTABLE),
            session.number(Index::Due, &[&stage, &now, &true]),
            session.query(Index::Peek, &[&stage]),
            session.commit(),
        )
        .await?;
        let peek = match rows.first() {
            None => Peek::default(),
            Some(row) => Peek {
                paused: row.try_get(0)?,
                cost: row.try_get::<_, Option<String>>(1)?.map(JobCost::stored),
                next_at: row.try_get::<_, Option<i64>>(2)?.map(time),
                ready: None,
            },
        };
        Ok((vec![peek; calls.len()], due > 0))
    }
}

/// A call of `claim`. All that ask for the same stage and cost share one statement.
pub(super) struct Take {
    pub(super) request: ClaimRequest,
    pub(super) now: Timestamp,
}

impl Operation for Take {
    type Answer = Vec<Claimed>;

    fn joins(&self, others: &[&Self]) -> bool {
        let count: usize = others.iter().map(|other| other.request.count).sum();
        let same = |other: &&Self| {
            other.request.stage == self.request.stage && other.request.cost == self.request.cost
        };
        others.iter().all(same) && count + self.request.count <= BATCH_MAX
    }

    async fn run(session: &Session, calls: &[&Self]) -> Result<(Vec<Vec<Claimed>>, bool), Failure> {
        let request = &calls[0].request;
        let Some(stage) = session.stage(&request.stage).await? else {
            return Ok((calls.iter().map(|_| Vec::new()).collect(), false));
        };
        // One entry for each job that is asked for.
        let each = || calls.iter().flat_map(|call| std::iter::repeat_n(*call, call.request.count));
        let workers: Vec<&str> = each().map(|call| call.request.worker.as_str()).collect();
        let expires: Vec<i64> = each().map(|call| micros(call.now.plus(call.request.visibility))).collect();
        let now: Vec<i64> = each().map(|call| micros(call.now)).collect();
        let latest = latest(calls.iter().map(|call| call.now));
        let crash = Attempt::expired();
        let crash = crash.error();
        let claim = async {
            match &request.cost {
                None => session.query(Index::Claim, &[&stage, &workers, &expires, &now, &crash]).await,
                Some(cost) => {
                    let cost = cost.as_str();
                    session
                        .query(Index::ClaimOfCost, &[&stage, &workers, &expires, &now, &crash, &cost])
                        .await
                }
            }
        };
        let (_, _, rows) =
            try_join3(session.begin(BEGIN), session.number(Index::Due, &[&stage, &latest, &false]), claim)
                .await?;
        session.commit().await?;
        let mut claimed: Vec<Vec<Claimed>> = calls.iter().map(|_| Vec::new()).collect();
        let mut owners =
            calls.iter().enumerate().flat_map(|(index, call)| std::iter::repeat_n(index, call.request.count));
        for row in &rows {
            if let Some(owner) = owners.next() {
                claimed[owner].push(of_row(row, &request.stage)?);
            }
        }
        Ok((claimed, false))
    }
}

pub(super) fn of_row(row: &Row, stage: &Name) -> Result<Claimed, Failure> {
    let job = job(row, stage.clone())?;
    let claim = Claim { job: job.id, stage: stage.clone(), number: job.claim_number };
    Ok(Claimed { claim, expires_at: job.due_at, job })
}

/// A call of `renew`.
pub(super) struct Renewal {
    pub(super) claims: Vec<Claim>,
    pub(super) visibility: Span,
    pub(super) now: Timestamp,
}

impl Operation for Renewal {
    type Answer = Vec<bool>;

    fn joins(&self, others: &[&Self]) -> bool {
        others.iter().map(|other| other.claims.len()).sum::<usize>() + self.claims.len() <= BATCH_MAX
    }

    async fn run(session: &Session, calls: &[&Self]) -> Result<(Vec<Vec<bool>>, bool), Failure> {
        let at = |call: &Self| micros(call.now.plus(call.visibility));
        let claims: Vec<(&Claim, i64)> =
            calls.iter().flat_map(|call| call.claims.iter().map(|claim| (claim, at(call)))).collect();
        let open = fenced(session, BEGIN_FORGETTABLE, Index::Renew, &claims).await?;
        let mut answers = claims.iter().map(|(claim, _)| open.contains(*claim));
        Ok((calls.iter().map(|call| answers.by_ref().take(call.claims.len()).collect()).collect(), false))
    }
}

/// A call of `release`.
pub(super) struct Return {
    pub(super) claims: Vec<Claim>,
    pub(super) now: Timestamp,
}

impl Operation for Return {
    type Answer = Vec<bool>;

    fn joins(&self, others: &[&Self]) -> bool {
        others.iter().map(|other| other.claims.len()).sum::<usize>() + self.claims.len() <= BATCH_MAX
    }

    async fn run(session: &Session, calls: &[&Self]) -> Result<(Vec<Vec<bool>>, bool), Failure> {
        let claims: Vec<(&Claim, i64)> =
            calls.iter().flat_map(|call| call.claims.iter().map(|claim| (claim, micros(call.now)))).collect();
        let mut open = fenced(session, BEGIN, Index::Release, &claims).await?;
        let woke = !open.is_empty();
        // A claim that is named twice has ended at the second time.
        let mut answers = claims.iter().map(|(claim, _)| open.remove(*claim));
        Ok((calls.iter().map(|call| answers.by_ref().take(call.claims.len()).collect()).collect(), woke))
    }
}

/// Runs a fenced update with a time for each claim. The claims that were open.
async fn fenced<'c>(
    session: &Session,
    begin: &str,
    update: Index,
    claims: &[(&'c Claim, i64)],
) -> Result<HashSet<&'c Claim>, Failure> {
    // Each claim once, with the last of its times.
    let once: HashMap<&Claim, i64> = claims.iter().copied().collect();
    let once: Vec<(&Claim, i64)> = once.into_iter().collect();
    let (jobs, stages, numbers) = columns(session, once.iter().map(|(claim, _)| *claim)).await?;
    let at: Vec<i64> = once.iter().map(|(_, at)| *at).collect();
    let (_, rows, _) = try_join3(
        session.begin(begin),
        session.query(update, &[&jobs, &stages, &numbers, &at]),
        session.commit(),
    )
    .await
    .map_err(Failure::with_commit)?;
    let mut open = HashSet::with_capacity(rows.len());
    for row in &rows {
        let place: i64 = row.try_get(0)?;
        if let Some((claim, _)) = usize::try_from(place - 1).ok().and_then(|index| once.get(index)) {
            open.insert(*claim);
        }
    }
    Ok(open)
}

/// Claims as columns: job, stage, number. A stage that is not known has the id 0, and no job.
pub(super) async fn columns<'c>(
    session: &Session,
    claims: impl Iterator<Item = &'c Claim>,
) -> Result<(Vec<i64>, Vec<i32>, Vec<i64>), Failure> {
    let (mut jobs, mut stages, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for claim in claims {
        jobs.push(stored(claim.job.get()));
        stages.push(session.stage(&claim.stage).await?.unwrap_or(0));
        numbers.push(stored(claim.number));
    }
    Ok((jobs, stages, numbers))
}

/// Clocks of callers agree well enough: what is due for one is due for all that share its transaction.
fn latest(times: impl Iterator<Item = Timestamp>) -> i64 {
    times.map(micros).max().unwrap_or(0)
}
