//! Sends jobs to the engine in batches, a few at a time.

use std::collections::VecDeque;
use std::time::Duration;

use tollway::core::Retry;
use tollway_pipeline::{EngineAnswer, EngineError, Enqueued, NewJob, bounds};

use super::report::EnqueueReport;
use crate::failure::Failure;
use crate::pipeline::session::Session;

/// The most bytes of a batch: small enough that several fit into the engine's queue.
const BYTES_MAX: usize = 4 << 20;

/// How many batches may be on their way: the engine stores one while the next is read.
const ON_THE_WAY_MAX: usize = 4;

/// How often a batch is sent again after a failure that may pass. Keys make that harmless.
const TRIES: u32 = 10;

/// The pause before a batch is sent again.
const PAUSE: Duration = Duration::from_secs(1);

/// Jobs that are collected and on their way. Without a session, they are only counted.
pub(super) struct Batches<'s> {
    session: Option<&'s Session<'s>>,
    jobs: Vec<NewJob>,
    bytes: usize,
    on_the_way: VecDeque<(Vec<NewJob>, EngineAnswer<Vec<Enqueued>>)>,
}

impl<'s> Batches<'s> {
    pub(super) fn new(session: Option<&'s Session<'s>>) -> Self {
        Self { session, jobs: Vec::new(), bytes: 0, on_the_way: VecDeque::new() }
    }

    pub(super) fn add(&mut self, job: NewJob, report: &mut EnqueueReport) -> Result<(), Failure> {
        self.bytes += job.bytes();
        self.jobs.push(job);
        if self.jobs.len() >= bounds::BATCH_MAX || self.bytes >= BYTES_MAX {
            self.send(report)?;
        }
        Ok(())
    }

    /// Sends the rest, and waits for all answers.
    pub(super) fn finish(&mut self, report: &mut EnqueueReport) -> Result<(), Failure> {
        self.send(report)?;
        while !self.on_the_way.is_empty() {
            self.settle_oldest(report)?;
        }
        Ok(())
    }

    fn send(&mut self, report: &mut EnqueueReport) -> Result<(), Failure> {
        let jobs = std::mem::take(&mut self.jobs);
        self.bytes = 0;
        let Some(session) = self.session else {
            report.count_checked(jobs.len());
            return Ok(());
        };
        if jobs.is_empty() {
            return Ok(());
        }
        let answer = session.engine.enqueue(jobs.clone(), session.now());
        self.on_the_way.push_back((jobs, answer));
        if self.on_the_way.len() >= ON_THE_WAY_MAX {
            self.settle_oldest(report)?;
        }
        Ok(())
    }

    fn settle_oldest(&mut self, report: &mut EnqueueReport) -> Result<(), Failure> {
        let (Some(session), Some((jobs, answer))) = (self.session, self.on_the_way.pop_front()) else {
            return Ok(());
        };
        let mut answer = session.wait(async { Ok::<_, Failure>(answer.await) })?;
        for _ in 1..TRIES {
            match &answer {
                Err(error) if may_pass(error) => {
                    tracing::warn!(%error, "jobs could not be enqueued; trying again");
                    std::thread::sleep(PAUSE);
                    let again = session.engine.enqueue(jobs.clone(), session.now());
                    answer = session.wait(async { Ok::<_, Failure>(again.await) })?;
                }
                _ => break,
            }
        }
        let enqueued = answer.map_err(|error| report.failure(error))?;
        report.count(&enqueued);
        Ok(())
    }
}

fn may_pass(error: &EngineError) -> bool {
    error.retry != Retry::Useless
}
