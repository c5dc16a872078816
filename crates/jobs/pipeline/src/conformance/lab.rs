//! An engine under test, called from code that is not async.

use std::future::Future;

use tollway_core::{Name, Span, Timestamp};

use crate::*;

/// The visibility timeout of the scenarios.
pub(super) const VISIBILITY: Span = Span::from_mins(15);

/// An engine with its runtime.
pub(super) struct Lab {
    pub(super) engine: Box<dyn Engine>,
    runtime: tokio::runtime::Runtime,
}

/// A stage.
pub(super) fn stage(name: &str) -> Name {
    Name::new(name).unwrap()
}

/// A job with a key.
pub(super) fn new_job(at: &str, key: &str) -> NewJob {
    NewJob::new(&stage(at), key, &format!("{{\"key\": \"{key}\"}}")).unwrap()
}

/// A time in seconds.
pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + seconds)
}

/// A failed attempt.
pub(super) fn failure(error: &str) -> Attempt {
    Attempt::new(Cause::Failure, error)
}

/// Done, with these outputs for a stage.
pub(super) fn done(to: &str, data: &[&str]) -> Conclusion {
    let outputs = data.iter().map(|data| Output::new(&stage(to), data).unwrap()).collect();
    Conclusion::Done { outputs, result: None }
}

impl Lab {
    pub(super) fn new(engine: Box<dyn Engine>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { engine, runtime }
    }

    /// Waits for an answer.
    pub(super) fn wait<T>(&self, answer: impl Future<Output = Result<T, EngineError>>) -> T {
        self.runtime.block_on(answer).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits for an error.
    pub(super) fn error<T: std::fmt::Debug>(
        &self,
        answer: impl Future<Output = Result<T, EngineError>>,
    ) -> EngineError {
        self.runtime.block_on(answer).expect_err("an error was expected")
    }

    pub(super) fn enqueue(&self, jobs: Vec<NewJob>, now: Timestamp) -> Vec<Enqueued> {
        self.wait(self.engine.enqueue(jobs, now))
    }

    /// Enqueues one job and expects it to be new.
    pub(super) fn add(&self, job: NewJob, now: Timestamp) -> JobId {
        match self.enqueue(vec![job], now)[..] {
            [Enqueued::New(id)] => id,
            ref other => panic!("a new job was expected: {other:?}"),
        }
    }

    /// Claims up to `count` jobs.
    pub(super) fn claim(&self, from: &str, count: usize, now: Timestamp) -> Vec<Claimed> {
        let request = ClaimRequest::new(&stage(from), "worker", VISIBILITY).count(count);
        self.wait(self.engine.claim(request, now))
    }

    /// Claims one job and expects to get it.
    pub(super) fn claim_one(&self, from: &str, now: Timestamp) -> Claimed {
        self.claim(from, 1, now).pop().unwrap_or_else(|| panic!("stage {from} has no ready job"))
    }

    /// Enqueues a job and claims it. It must be the only ready one.
    pub(super) fn claim_one_of(&self, job: NewJob, now: Timestamp) -> Claimed {
        let (from, id) = (job.stage.clone(), self.add(job, now));
        let claimed = self.claim_one(from.as_str(), now);
        assert_eq!(claimed.job.id, id, "the job just enqueued is the only ready one");
        claimed
    }

    /// The keys of up to `count` claimed jobs, in order.
    pub(super) fn claim_keys(&self, from: &str, count: usize, now: Timestamp) -> Vec<String> {
        self.claim(from, count, now).into_iter().map(|claimed| claimed.job.key).collect()
    }

    pub(super) fn finish(&self, claimed: &Claimed, conclusion: Conclusion, now: Timestamp) -> Finished {
        self.wait(self.engine.finish(claimed.claim.clone(), conclusion, now))
    }

    /// Finishes a claim and expects it to be the newest.
    pub(super) fn commit(&self, claimed: &Claimed, conclusion: Conclusion, now: Timestamp) {
        let finished = self.finish(claimed, conclusion, now);
        assert!(matches!(finished, Finished::Committed { .. }), "{finished:?}");
    }

    /// Makes a dead letter.
    pub(super) fn kill(&self, job: NewJob, error: &str, now: Timestamp) -> JobId {
        let claimed = self.claim_one_of(job, now);
        self.commit(&claimed, Conclusion::Dead { attempt: failure(error) }, now);
        claimed.job.id
    }

    pub(super) fn job(&self, id: JobId) -> Job {
        let filter = Filter { job: Some(id), ..Filter::default() };
        self.wait(self.engine.scan(filter, None, 10)).items.pop().unwrap_or_else(|| panic!("no job {id}"))
    }

    /// Every job that matches, through small pages.
    pub(super) fn scan(&self, filter: &Filter) -> Vec<Job> {
        let (mut jobs, mut after) = (Vec::new(), None);
        loop {
            let page = self.wait(self.engine.scan(filter.clone(), after, 7));
            jobs.extend(page.items);
            after = page.next;
            if after.is_none() {
                return jobs;
            }
        }
    }

    /// The keys of all jobs that match.
    pub(super) fn keys(&self, filter: Filter) -> Vec<String> {
        self.scan(&filter).into_iter().map(|job| job.key).collect()
    }

    /// Applies a change to all jobs that match.
    pub(super) fn change(&self, filter: Filter, change: Change, now: Timestamp) -> u64 {
        self.wait(self.engine.change(filter, change, None, 1_000, now)).jobs
    }

    /// The counts of a stage.
    pub(super) fn counts(&self, of: &str) -> StageCounts {
        let counts = self.wait(self.engine.counts());
        let found = counts.into_iter().find(|counts| counts.stage.as_str() == of);
        found.unwrap_or_else(|| StageCounts::empty(stage(of)))
    }

    pub(super) fn set_stage(&self, name: &str, change: StageChange, now: Timestamp) {
        self.wait(self.engine.set_stage(&stage(name), change, now));
    }

    pub(super) fn pause(&self, name: &str, paused: bool) {
        self.set_stage(name, StageChange { paused: Some(paused), ..StageChange::default() }, at(0));
    }
}
