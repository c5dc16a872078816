//! The end of claims: done with outputs, again, or dead.

use std::collections::HashSet;

use futures_util::future::{try_join, try_join3, try_join4};
use tokio_postgres::Row;
use tollway_core::Timestamp;

use super::claims::columns;
use super::enqueue::Rows;
use super::error::Failure;
use super::lane::Operation;
use super::session::{BEGIN, Parameters, Session, moved};
use super::statements::Index;
use crate::bounds::{BATCH_BYTES_MAX, OUTPUTS_MAX};
use crate::engine::checks::check_output_key;
use crate::engine::counters::Kind;
use crate::engine::stored::micros;
use crate::job::transition::waiting;
use crate::{Attempt, Claim, Conclusion, EngineError, Enqueued, Finished, JobId, NewJob, Output, State};

/// A call of `finish`.
pub(super) struct Finish {
    pub(super) claim: Claim,
    pub(super) conclusion: Conclusion,
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
    type Answer = Finished;

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

    async fn run(session: &Session, calls: &[&Self]) -> Result<(Vec<Finished>, bool), Failure> {
        // Stages are made before the transaction, and so may be made in vain.
        for output in calls.iter().flat_map(|call| call.outputs()) {
            session.stage_id(&output.stage).await?;
        }
        let (jobs, stages, numbers) = columns(session, calls.iter().map(|call| &call.claim)).await?;
        let groups: HashSet<&str> = calls
            .iter()
            .flat_map(|call| call.outputs())
            .filter_map(|output| output.group.as_deref())
            .collect();
        let groups: Vec<&str> = groups.into_iter().collect();
        let (_, _, rows) = try_join3(
            session.begin(BEGIN),
            session.enter(&groups, &jobs),
            session.query(Index::Fence, &[&jobs, &stages, &numbers]),
        )
        .await?;
        let mut batch = Batch { calls, jobs, stages, numbers, open: Vec::new() };
        batch.open = rows.iter().map(open).collect::<Result<_, _>>()?;
        let answers = batch.conclude(session).await?;
        Ok((answers, true))
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
}

impl Batch<'_> {
    async fn conclude(&self, session: &Session) -> Result<Vec<Finished>, Failure> {
        let outputs = self.outputs()?;
        let given: Vec<(&NewJob, Timestamp)> =
            outputs.iter().map(|output| (&output.job, self.calls[output.index].now)).collect();
        let rows = Rows::new(session, &given).await?;
        let of_outputs = given.iter().filter_map(|(job, now)| Some((job.group.as_deref()?, *now)));
        let left = self.open.iter().filter(|open| self.calls[open.index].attempt().is_none());
        let of_left = left.filter_map(|open| Some((open.group.as_deref()?, self.calls[open.index].now)));
        let (groups, now) = moved(of_outputs.chain(of_left));
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
        try_join(self.count_late(session, &answers), session.commit()).await.map_err(Failure::with_commit)?;
        Ok(answers)
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
