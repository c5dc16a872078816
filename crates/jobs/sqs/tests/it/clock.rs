//! An engine whose calls set the clock of its queues: the suite invents its times, and SQS has a clock of its own.

use tollway_pipeline::*;
use tollway_sqs::SqsEngine;
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
}

impl Engine for FollowedByQueues {
    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn call(&self, mut request: EngineRequest) -> EngineAnswer<EngineReply> {
        if let Some(now) = request.now_mut() {
            let micros = now.as_micros().min(LATEST_SECONDS * 1_000_000);
            self.clock.set(micros as f64 / 1e6);
        }
        // Outputs are sent within half a second, together with others. The suite does not wait for that.
        let sent = matches!(request, EngineRequest::Claim { .. }).then(|| self.engine.flush());
        let answer = self.engine.call(request);
        Box::pin(async move {
            if let Some(sent) = sent {
                sent.await?;
            }
            answer.await
        })
    }
}
