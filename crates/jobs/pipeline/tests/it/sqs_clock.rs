//! An engine whose calls set the clock of its queues: the suite invents its times, and SQS has a clock of its own.

use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::*;
use tollway_testkit::servers::QueueClock;

/// Later than any time of the suite but the last one, which does not fit a clock.
const LATEST_SECONDS: u64 = 4_000_000_000;

/// An engine on SQS, and the clock of its queues.
pub(crate) struct FollowedByQueues {
    engine: SqsEngine,
    clock: QueueClock,
}

impl FollowedByQueues {
    pub(crate) fn new(engine: SqsEngine, clock: QueueClock) -> Self {
        Self { engine, clock }
    }

    fn at(&self, now: Timestamp) -> &SqsEngine {
        let micros = now.as_micros().min(LATEST_SECONDS * 1_000_000);
        self.clock.set(micros as f64 / 1e6);
        &self.engine
    }
}

impl Engine for FollowedByQueues {
    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }
    fn enqueue(&self, jobs: Vec<NewJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        self.at(now).enqueue(jobs, now)
    }
    fn peek(&self, stage: &Name, now: Timestamp) -> EngineAnswer<Peek> {
        self.at(now).peek(stage, now)
    }
    fn claim(&self, request: ClaimRequest, now: Timestamp) -> EngineAnswer<Vec<Claimed>> {
        // Outputs are sent within half a second, together with others. The suite does not wait for that.
        let (sent, claimed) = (self.at(now).flush(), self.engine.claim(request, now));
        Box::pin(async move {
            sent.await?;
            claimed.await
        })
    }
    fn renew(&self, claims: Vec<Claim>, visibility: Span, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        self.at(now).renew(claims, visibility, now)
    }
    fn finish(&self, claim: Claim, conclusion: Conclusion, now: Timestamp) -> EngineAnswer<Finished> {
        self.at(now).finish(claim, conclusion, now)
    }
    fn release(&self, claims: Vec<Claim>, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        self.at(now).release(claims, now)
    }
    fn abandon(&self, worker: Option<&str>, now: Timestamp) -> EngineAnswer<u64> {
        self.at(now).abandon(worker, now)
    }
}

impl Administration for FollowedByQueues {
    fn counts(&self) -> EngineAnswer<Vec<StageCounts>> {
        self.engine.counts()
    }
    fn settled_counts(&self, now: Timestamp) -> EngineAnswer<Option<Vec<StageCounts>>> {
        self.engine.settled_counts(now)
    }
    fn group_counts(&self, group: &str) -> EngineAnswer<Vec<StageCounts>> {
        self.engine.group_counts(group)
    }
    fn scan(&self, filter: Filter, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<Job>> {
        self.engine.scan(filter, after, limit)
    }
    fn matching(&self, filter: Filter) -> EngineAnswer<u64> {
        self.engine.matching(filter)
    }
    fn evidence(&self, job: JobId) -> EngineAnswer<Vec<Evidence>> {
        self.engine.evidence(job)
    }
    fn results(&self, stage: &Name, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<JobResult>> {
        self.engine.results(stage, after, limit)
    }
    fn edit(&self, job: JobId, edit: Edit, now: Timestamp) -> EngineAnswer<Edited> {
        self.at(now).edit(job, edit, now)
    }
    fn change(
        &self,
        filter: Filter,
        change: Change,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Changed> {
        self.at(now).change(filter, change, after, limit, now)
    }
    fn move_to_stage(
        &self,
        from: &Name,
        to: &Name,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<StageMove> {
        self.at(now).move_to_stage(from, to, after, limit, now)
    }
    fn stages(&self) -> EngineAnswer<Vec<StageSettings>> {
        self.engine.stages()
    }
    fn set_stage(&self, stage: &Name, change: StageChange, now: Timestamp) -> EngineAnswer<()> {
        self.engine.set_stage(stage, change, now)
    }
    fn purge(&self, stage: &Name, before: Timestamp, limit: usize) -> EngineAnswer<u64> {
        self.engine.purge(stage, before, limit)
    }
    fn record(&self, now: Timestamp) -> EngineAnswer<()> {
        self.engine.record(now)
    }
    fn samples(&self, since: Timestamp) -> EngineAnswer<Vec<Sample>> {
        self.engine.samples(since)
    }
    fn withdraw(
        &self,
        filter: Filter,
        to: &str,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Page<Job>> {
        self.at(now).withdraw(filter, to, after, limit, now)
    }
    fn confirm_moved(&self, jobs: Vec<JobId>, to: &str) -> EngineAnswer<u64> {
        self.engine.confirm_moved(jobs, to)
    }
    fn import(&self, jobs: Vec<MovedJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        self.at(now).import(jobs, now)
    }
}
