//! The end of claims: done with outputs, again, or dead.

use std::collections::HashSet;

use futures_util::future::{join5, try_join, try_join3, try_join4};
use tokio_postgres::Row;
use tollway_core::Timestamp;

use super::claims::columns;
use super::enqueue::Rows;
use super::error::Failure;
use super::lane::Operation;
use super::next_claims::NextClaims;
use super::session::{BEGIN, Parameters, Session, moved};
use super::statements::Index;
use crate::bounds::{BATCH_BYTES_MAX, OUTPUTS_MAX};
use crate::engine::checks::check_output_key;
use crate::engine::counters::Kind;
use crate::engine::stored::micros;
use crate::job::transition::waiting;
use crate::{
    Attempt, Claim, ClaimRequest, Claimed, Conclusion, EngineError, Enqueued, Finished, JobId, NewJob,
    Output, State,
};

/// A call of `finish`.
pub(super) struct Finish {
    pub(super) claim: Claim,
    pub(super) conclusion: Conclusion,
    pub(super) next: Vec<ClaimRequest>,
    pub(super) now: Timestamp,
    pub(super) bytes: usize,
}

impl Finish {
    fn outputs(&self) -> &[Output] {
        match &self.conclusion {
            Conclusion::Done { outputs, .. } => outputs,
            _ => &[],
        }
    }

    fn attempt(&self) -> Option<&Attempt> {
        match &self.conclusion {
            Conclusion::Done { .. } => None,
            Conclusion::Again { attempt, .. } | Conclusion::Dead { attempt } => Some(attempt),
        }
    }

    /// The job's state afterwards, and when it is due.
    fn goes_to(&self) -> (State, Timestamp) {
        match self.conclusion {
            Conclusion::Done { .. } => (State::Done, self.now),
            Conclusion::Again { at, .. } => (waiting(at, self.now), at),
            Conclusion::Dead { .. } => (State::Dead, self.now),
        }
    }
}

impl Operation for Finish {
    type Answer = (Finished, Option<Claimed>);

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn joins(&self, others: &[&Self]) -> bool {
        let outputs: usize = others.iter().map(|other| other.outputs().len()).sum();
        let bytes: usize = others.iter().map(|other| other.bytes).sum();
        outputs + self.outputs().len() <= OUTPUTS_MAX
            && bytes + self.bytes <= BATCH_BYTES_MAX
            // A repeated call must see what the first one did.
            && others.iter().all(|other| other.claim.job != self.claim.job)
    }

    async fn run(session: &Session, calls: &[&Self]) -> Result<(Vec<Self::Answer>, bool), Failure> {
        // Stages are made before the transaction, and so may be made in vain.
        for output in calls.iter().flat_map(|call| call.outputs()) {
            session.stage_id(&output.stage).await?;
        }
        let next = NextClaims::new(session, calls).await?;
        let mut batch = Batch {
            calls,
            jobs: Vec::new(),
            stages: Vec::new(),
            numbers: Vec::new(),
            open: Vec::new(),
            next,
        };
        (batch.jobs, batch.stages, batch.numbers) =
            columns(session, calls.iter().map(|call| &call.claim)).await?;
        batch.lock(session).await?;
        if batch.is_plain() {
            if let Some(answers) = batch.conclude_at_once(session).await? {
                return Ok((answers, batch.wakes()));
            }
            batch.lock(session).await?;
        }
        let answers = batch.conclude(session).await?;
        Ok((answers, batch.wakes()))
    }
}

/// A claim that is the newest and has not ended.
struct OpenClaim {
    /// Its place in the batch.
    index: usize,
    state: i16,
    key: String,
    group: Option<String>,
    priority: i16,
}

fn open(row: &Row) -> Result<OpenClaim, Failure> {
    let place: i64 = row.try_get(0)?;
    Ok(OpenClaim {
        index: usize::try_from(place - 1).unwrap_or(0),
        state: row.try_get(1)?,
        key: row.try_get(2)?,
        group: row.try_get(3)?,
        priority: row.try_get(4)?,
    })
}

/// Calls whose open claims are locked.
struct Batch<'c> {
    calls: &'c [&'c Finish],
    jobs: Vec<i64>,
    stages: Vec<i32>,
    numbers: Vec<i64>,
    open: Vec<OpenClaim>,
    next: NextClaims,
}

impl Batch<'_> {
    /// Begins the transaction, and locks the jobs whose claims are open.
    async fn lock(&mut self, session: &Session) -> Result<(), Failure> {
        let outputs = self.calls.iter().flat_map(|call| call.outputs());
        let groups: HashSet<&str> = outputs.filter_map(|output| output.group.as_deref()).collect();
        let groups: Vec<&str> = groups.into_iter().collect();
        let (_, _, rows) = try_join3(
            session.begin(BEGIN),
            session.enter(&groups, &self.jobs),
            session.query(Index::Fence, &[&self.jobs, &self.stages, &self.numbers]),
        )
        .await?;
        self.open = rows.iter().map(open).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Whether every claim is open and hands on new jobs only, as far as is known.
    fn is_plain(&self) -> bool {
        let joins = |call: &&Finish| call.outputs().iter().any(|output| output.join.is_some());
        self.open.len() == self.calls.len() && !self.calls.iter().any(joins)
    }

    /// Whether a job may have become ready: an output, one that is tried again, or one that was held for its group.
    fn wakes(&self) -> bool {
        let brings = |call: &&Finish| call.attempt().is_some() || !call.outputs().is_empty();
        self.calls.iter().any(brings) || self.open.iter().any(|open| open.group.is_some())
    }

    /// Concludes plain calls with the commit in the same round trip. None: an output has a key that is not new, and nothing was
    /// changed.
    async fn conclude_at_once(
        &self,
        session: &Session,
    ) -> Result<Option<Vec<(Finished, Option<Claimed>)>>, Failure> {
        let outputs = self.outputs()?;
        let given = self.given(&outputs);
        let rows = Rows::new(session, &given).await?;
        let (groups, now) = self.moved_groups(&given);
        // After an error the server refuses the statements behind it, and undoes the transaction at its end.
        let (ended, inserted, released, next, committed) = join5(
            self.end(session),
            rows.insert_all(session),
            session.release_groups(&groups, &now),
            self.next.claim(session, self.calls),
            session.commit(),
        )
        .await;
        if let (Ok(()), Ok(false)) = (&ended, &inserted) {
            return Ok(None);
        }
        let next = ended.and(inserted).and(released).and(next).map_err(Failure::with_commit)?;
        committed?;
        let answer = |(call, claimed): (&&Finish, _)| {
            (Finished::Committed { outputs: call.outputs().len(), joined: 0 }, claimed)
        };
        Ok(Some(self.calls.iter().zip(next).map(answer).collect()))
    }

    /// Concludes, and commits when all outputs are known to be new or to join a job that is there.
    async fn conclude(&self, session: &Session) -> Result<Vec<(Finished, Option<Claimed>)>, Failure> {
        let outputs = self.outputs()?;
        let given = self.given(&outputs);
        let rows = Rows::new(session, &given).await?;
        let (groups, now) = self.moved_groups(&given);
        let (late, _, inserted, _) = try_join4(
            self.late(session),
            self.end(session),
            rows.insert(session),
            session.release_groups(&groups, &now),
        )
        .await?;
        let mut answers = late;
        for open in &self.open {
            answers[open.index] = Finished::Committed { outputs: 0, joined: 0 };
        }
        let enqueued = rows.enqueued(session, inserted).await?;
        let renamed = self.insert_renamed(session, &outputs, &enqueued).await?;
        if renamed.is_some() {
            session.release_groups(&groups, &now).await?;
        }
        for (output, enqueued) in outputs.iter().zip(renamed.unwrap_or(enqueued)) {
            let Finished::Committed { outputs: new, joined } = &mut answers[output.index] else { continue };
            match enqueued.known() {
                None => *new += 1,
                Some(_) if output.joins => *joined += 1,
                // Only a caller can have taken the key. To go on would lose the output.
                Some(other) => return Err(taken(output, other).into()),
            }
        }
        let claim = self.next.claim(session, self.calls);
        let (_, next, _) = try_join3(self.count_late(session, &answers), claim, session.commit())
            .await
            .map_err(Failure::with_commit)?;
        Ok(answers.into_iter().zip(next).collect())
    }

    /// Outputs with the time of their call.
    fn given<'o>(&self, outputs: &'o [NewOutput]) -> Vec<(&'o NewJob, Timestamp)> {
        outputs.iter().map(|output| (&output.job, self.calls[output.index].now)).collect()
    }

    /// The groups that outputs enter and done jobs leave.
    fn moved_groups<'g>(&'g self, given: &[(&'g NewJob, Timestamp)]) -> (Vec<&'g str>, Vec<i64>) {
        let of_outputs = given.iter().filter_map(|(job, now)| Some((job.group.as_deref()?, *now)));
        let left = self.open.iter().filter(|open| self.calls[open.index].attempt().is_none());
        let of_left = left.filter_map(|open| Some((open.group.as_deref()?, self.calls[open.index].now)));
        moved(of_outputs.chain(of_left))
    }

    /// The outputs of all open claims.
    fn outputs(&self) -> Result<Vec<NewOutput>, EngineError> {
        let mut all = Vec::new();
        for open in &self.open {
            let call = self.calls[open.index];
            for (number, output) in call.outputs().iter().enumerate() {
                let key = output.join.clone().unwrap_or_else(|| call.claim.output_key(&open.key, number));
                check_output_key(&key, number)?;
                let job = output.job(key, open.group.as_ref(), open.priority);
                all.push(NewOutput { index: open.index, number, joins: output.join.is_some(), job });
            }
        }
        Ok(all)
    }

    /// Inserts outputs whose key an older job has under another key: the older job is an output of an earlier job of the same
    /// key, which was purged. The answers for all outputs; none if there was no such output.
    async fn insert_renamed(
        &self,
        session: &Session,
        outputs: &[NewOutput],
        enqueued: &[Enqueued],
    ) -> Result<Option<Vec<Enqueued>>, Failure> {
        let mut renamed: Vec<(usize, NewJob)> = Vec::new();
        for (place, (output, enqueued)) in outputs.iter().zip(enqueued).enumerate() {
            let claim = &self.calls[output.index].claim;
            if !output.joins && enqueued.known().is_some_and(|older| older < claim.job) {
                let key = claim.output_key_again(&output.job.key);
                check_output_key(&key, output.number)?;
                renamed.push((place, NewJob { key, ..output.job.clone() }));
            }
        }
        if renamed.is_empty() {
            return Ok(None);
        }
        let now = |place: &usize| self.calls[outputs[*place].index].now;
        let given: Vec<(&NewJob, Timestamp)> = renamed.iter().map(|(place, job)| (job, now(place))).collect();
        let rows = Rows::new(session, &given).await?;
        let inserted = rows.insert(session).await?;
        let mut answers = enqueued.to_vec();
        for ((place, _), answer) in renamed.iter().zip(rows.enqueued(session, inserted).await?) {
            answers[*place] = answer;
        }
        Ok(Some(answers))
    }

    /// Ends the open claims, and writes their completions and evidence.
    async fn end(&self, session: &Session) -> Result<(), Failure> {
        if self.open.is_empty() {
            return Ok(());
        }
        let calls = || self.open.iter().map(|open| self.calls[open.index]);
        let indexes = || self.open.iter().map(|open| open.index);
        let jobs: Vec<i64> = indexes().map(|index| self.jobs[index]).collect();
        let stages: Vec<i32> = indexes().map(|index| self.stages[index]).collect();
        let numbers: Vec<i64> = indexes().map(|index| self.numbers[index]).collect();
        let came: Vec<i16> = self.open.iter().map(|open| open.state).collect();
        let went: Vec<i16> = calls().map(|call| call.goes_to().0 as i16).collect();
        let due: Vec<i64> = calls().map(|call| micros(call.goes_to().1)).collect();
        let now: Vec<i64> = calls().map(|call| micros(call.now)).collect();
        let causes: Vec<Option<&str>> = calls().map(|call| Some(call.attempt()?.cause().as_str())).collect();
        let errors: Vec<Option<&str>> = calls().map(|call| Some(call.attempt()?.error())).collect();
        let details: Vec<Option<&str>> = calls().map(|call| Some(call.attempt()?.details())).collect();
        let outputs: Vec<i32> =
            calls().map(|call| i32::try_from(call.outputs().len()).unwrap_or(i32::MAX)).collect();
        let results: Vec<Option<&str>> = calls()
            .map(|call| match &call.conclusion {
                Conclusion::Done { result, .. } => result.as_deref(),
                _ => None,
            })
            .collect();
        let ends: Parameters<'_> = &[
            &jobs, &stages, &numbers, &came, &went, &due, &now, &causes, &errors, &details, &outputs,
            &results,
        ];
        let attempted: Vec<i64> = self
            .open
            .iter()
            .filter(|open| self.calls[open.index].attempt().is_some())
            .map(|open| self.jobs[open.index])
            .collect();
        let trim = async {
            if !attempted.is_empty() {
                session.query(Index::Trim, &[&attempted]).await?;
            }
            Ok(())
        };
        try_join(session.query(Index::End, ends), trim).await.map(drop)
    }

    /// For each call: repeated or late, as if its claim had ended. Those of open claims are replaced.
    async fn late(&self, session: &Session) -> Result<Vec<Finished>, Failure> {
        let mut answers = vec![Finished::Late; self.calls.len()];
        if self.open.len() < self.calls.len() {
            let rows = session.query(Index::Repeated, &[&self.jobs, &self.stages, &self.numbers]).await?;
            for row in rows {
                let place: i64 = row.try_get(0)?;
                if let Some(answer) = usize::try_from(place - 1).ok().and_then(|index| answers.get_mut(index))
                {
                    *answer = Finished::Repeated;
                }
            }
        }
        Ok(answers)
    }

    async fn count_late(&self, session: &Session, answers: &[Finished]) -> Result<(), Failure> {
        let late = answers.iter().zip(&self.stages).filter(|(answer, _)| **answer == Finished::Late);
        let stages: Vec<i32> = late.map(|(_, stage)| *stage).filter(|stage| *stage != 0).collect();
        if !stages.is_empty() {
            let kinds = vec![i16::try_from(Kind::Late.number()).unwrap_or(i16::MAX); stages.len()];
            session.query(Index::Count, &[&stages, &kinds, &vec![1_i64; stages.len()]]).await?;
        }
        Ok(())
    }
}

/// An output as a job.
struct NewOutput {
    /// The place of its call in the batch.
    index: usize,
    /// Its place among the outputs of its job.
    number: usize,
    joins: bool,
    job: NewJob,
}

fn taken(output: &NewOutput, other: JobId) -> EngineError {
    let NewOutput { number, job, .. } = output;
    let (stage, key) = (job.stage.as_str(), &job.key);
    EngineError::caller(format!(
        "output {number} would be {key:?} in stage {stage}, which is job {other} already"
    ))
}
