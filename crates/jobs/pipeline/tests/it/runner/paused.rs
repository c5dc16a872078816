//! Virtual time: tokio's paused clock, which stands still while the engine's threads work.

use std::sync::Arc;

use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tollway::{Clock, Limiter, Policy};
use tollway_core::{Span, Timestamp};
use tollway_pipeline::{Capabilities, Engine, EngineAnswer, EngineReply, EngineRequest, SqliteEngine};

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

impl Engine for PausedEngine {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn hints(&self) -> Option<watch::Receiver<u64>> {
        self.0.hints()
    }

    fn call(&self, request: EngineRequest) -> EngineAnswer<EngineReply> {
        let (runtime, answer) = (Handle::current(), self.0.call(request));
        let waiting = tokio::task::spawn_blocking(move || runtime.block_on(answer));
        Box::pin(async move { waiting.await.unwrap() })
    }
}
