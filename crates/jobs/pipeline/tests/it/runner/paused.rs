//! Virtual time: tokio's paused clock, which stands still while the engine's threads work.

use std::sync::Arc;

use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tollway::{Clock, Limiter, Policy};
use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::{
    Administration, Capabilities, Change, Changed, Claim, ClaimRequest, Claimed, Conclusion, Edit, Edited,
    Engine, EngineAnswer, Enqueued, Evidence, Filter, Finished, Job, JobId, JobResult, NewJob, Page, Peek,
    Sample, SqliteEngine, StageChange, StageCounts, StageMove, StageSettings,
};

/// The first moment of an hour.
pub(super) const START: Timestamp = Timestamp::from_secs(500_000 * 3_600);

/// Tokio's time, on top of [`START`].
pub(super) struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        START.plus(Span::from(self.0.elapsed()))
    }
}

/// A limiter and a SQLite file in virtual time.
pub(super) struct Lab {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) limiter: Limiter,
    _folder: TempDir,
}

impl Lab {
    pub(super) fn new<const N: usize>(policies: [(&str, &str); N]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = SqliteEngine::open(&folder.path().join("jobs.db")).unwrap();
        let builder = policies.into_iter().fold(Limiter::builder(), |builder, (name, limit)| {
            builder.with_policy(Policy::new(name, [limit]).unwrap()).unwrap()
        });
        let limiter = builder.clock(Arc::new(PausedClock(Instant::now()))).build();
        Self { engine: Arc::new(PausedEngine(engine)), limiter, _folder: folder }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.limiter.clock().now()
    }

    pub(super) fn elapsed(&self) -> Span {
        self.now().since(START)
    }
}

/// Awaits answers on a thread for blocking calls: while one is busy, tokio does not move its paused clock on.
struct PausedEngine(SqliteEngine);

fn wait<T: Send + 'static>(answer: EngineAnswer<T>) -> EngineAnswer<T> {
    let runtime = Handle::current();
    let waiting = tokio::task::spawn_blocking(move || runtime.block_on(answer));
    Box::pin(async move { waiting.await.unwrap() })
}

impl Engine for PausedEngine {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn enqueue(&self, jobs: Vec<NewJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        wait(self.0.enqueue(jobs, now))
    }
    fn peek(&self, stage: &Name, now: Timestamp) -> EngineAnswer<Peek> {
        wait(self.0.peek(stage, now))
    }
    fn claim(&self, request: ClaimRequest, now: Timestamp) -> EngineAnswer<Vec<Claimed>> {
        wait(self.0.claim(request, now))
    }
    fn renew(&self, claims: Vec<Claim>, visibility: Span, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        wait(self.0.renew(claims, visibility, now))
    }
    fn finish(&self, claim: Claim, conclusion: Conclusion, now: Timestamp) -> EngineAnswer<Finished> {
        wait(self.0.finish(claim, conclusion, now))
    }
    fn release(&self, claims: Vec<Claim>, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        wait(self.0.release(claims, now))
    }
    fn abandon(&self, worker: Option<&str>, now: Timestamp) -> EngineAnswer<u64> {
        wait(self.0.abandon(worker, now))
    }
    fn hints(&self) -> Option<watch::Receiver<u64>> {
        self.0.hints()
    }
}

impl Administration for PausedEngine {
    fn counts(&self) -> EngineAnswer<Vec<StageCounts>> {
        wait(self.0.counts())
    }
    fn group_counts(&self, group: &str) -> EngineAnswer<Vec<StageCounts>> {
        wait(self.0.group_counts(group))
    }
    fn scan(&self, filter: Filter, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<Job>> {
        wait(self.0.scan(filter, after, limit))
    }
    fn matching(&self, filter: Filter) -> EngineAnswer<u64> {
        wait(self.0.matching(filter))
    }
    fn evidence(&self, job: JobId) -> EngineAnswer<Vec<Evidence>> {
        wait(self.0.evidence(job))
    }
    fn results(&self, stage: &Name, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<JobResult>> {
        wait(self.0.results(stage, after, limit))
    }
    fn edit(&self, job: JobId, edit: Edit, now: Timestamp) -> EngineAnswer<Edited> {
        wait(self.0.edit(job, edit, now))
    }
    fn change(
        &self,
        filter: Filter,
        change: Change,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Changed> {
        wait(self.0.change(filter, change, after, limit, now))
    }
    fn move_to_stage(
        &self,
        from: &Name,
        to: &Name,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<StageMove> {
        wait(self.0.move_to_stage(from, to, after, limit, now))
    }
    fn stages(&self) -> EngineAnswer<Vec<StageSettings>> {
        wait(self.0.stages())
    }
    fn set_stage(&self, stage: &Name, change: StageChange, now: Timestamp) -> EngineAnswer<()> {
        wait(self.0.set_stage(stage, change, now))
    }
    fn purge(&self, stage: &Name, before: Timestamp, limit: usize) -> EngineAnswer<u64> {
        wait(self.0.purge(stage, before, limit))
    }
    fn record(&self, now: Timestamp) -> EngineAnswer<()> {
        wait(self.0.record(now))
    }
    fn samples(&self, since: Timestamp) -> EngineAnswer<Vec<Sample>> {
        wait(self.0.samples(since))
    }
}
