//! The next jobs of workers whose jobs end: claims in the transaction of those ends.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use super::claims::of_row;
use super::error::Failure;
use super::finish::Finish;
use super::session::Session;
use super::statements::Index;
use crate::engine::stored::micros;
use crate::{Attempt, Claimed};

/// What the calls of a batch ask for, by their places in it. Those that ask for the same share a statement.
pub(super) struct NextClaims(BTreeMap<Vec<Wanted>, Vec<usize>>);

/// A stage that a call asks for.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    stage: i32,
    /// How long a claim of it lasts.
    visibility: i64,
    cost: Option<String>,
}

impl NextClaims {
    /// Reads what the calls ask for. A stage that is not known has no job.
    pub(super) async fn new(session: &Session, calls: &[&Finish]) -> Result<Self, Failure> {
        let mut all: BTreeMap<Vec<Wanted>, Vec<usize>> = BTreeMap::new();
        for (index, call) in calls.iter().enumerate() {
            let mut wanted = Vec::with_capacity(call.next.len());
            for request in &call.next {
                if let Some(stage) = session.stage(&request.stage).await? {
                    let visibility = i64::try_from(request.visibility.as_micros()).unwrap_or(i64::MAX);
                    let cost = request.cost.as_ref().map(|cost| cost.as_str().to_owned());
                    wanted.push(Wanted { stage, visibility, cost });
                }
            }
            if !wanted.is_empty() {
                all.entry(wanted).or_default().push(index);
            }
        }
        Ok(Self(all))
    }

    /// Claims a job for each call that asks for one and finds one.
    pub(super) async fn claim(
        &self,
        session: &Session,
        calls: &[&Finish],
    ) -> Result<Vec<Option<Claimed>>, Failure> {
        let claims = self.0.iter().map(|(wanted, indexes)| claim_same(session, calls, wanted, indexes));
        let mut next: Vec<Option<Claimed>> = calls.iter().map(|_| None).collect();
        for (index, claimed) in try_join_all(claims).await?.into_iter().flatten() {
            next[index] = Some(claimed);
        }
        Ok(next)
    }
}

/// Claims for the calls of these places, which ask for the same.
async fn claim_same(
    session: &Session,
    calls: &[&Finish],
    wanted: &[Wanted],
    indexes: &[usize],
) -> Result<Vec<(usize, Claimed)>, Failure> {
    let stages: Vec<i32> = wanted.iter().map(|wanted| wanted.stage).collect();
    let visibility: Vec<i64> = wanted.iter().map(|wanted| wanted.visibility).collect();
    let costs: Vec<Option<&str>> = wanted.iter().map(|wanted| wanted.cost.as_deref()).collect();
    let callers = || indexes.iter().map(|index| calls[*index]);
    // All requests of a call are of one worker.
    let workers: Vec<&str> =
        callers().map(|call| call.next.first().map_or("", |next| &*next.worker)).collect();
    let now: Vec<i64> = callers().map(|call| micros(call.now)).collect();
    let crash = Attempt::expired();
    let crash = crash.error();
    let rows =
        session.query(Index::ClaimNext, &[&stages, &workers, &visibility, &now, &crash, &costs]).await?;
    let mut claimed = Vec::with_capacity(rows.len());
    for (row, index) in rows.iter().zip(indexes) {
        let stage: i32 = row.try_get(16)?;
        let request = calls[*index].next.iter();
        let mut known = request.filter(|request| session.known_stage(&request.stage) == Some(stage));
        let request = known.next().ok_or_else(Failure::outrun)?;
        claimed.push((*index, of_row(row, &request.stage)?));
    }
    Ok(claimed)
}
