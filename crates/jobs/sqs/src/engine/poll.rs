//! A long poll in the background, for a queue that is empty.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tollway_core::{Name, Span, Timestamp};

use super::outlook::AHEAD_MAX;
use super::{Inner, lock};

/// The pause of a long poll after it failed.
const PAUSE: Duration = Duration::from_secs(5);

/// A queue that no runner looks at any more is not polled.
const WATCHED_FOR: Span = Span::from_secs(60);

impl Inner {
    /// Waits in the background for messages of an empty queue, and keeps them for the next claim.
    pub(super) fn watch(self: &Arc<Self>, stage: &Name) {
        if self.url.wait() == Span::ZERO || self.delivered.is_some() {
            return;
        }
        {
            let mut outlooks = lock(&self.outlooks);
            let outlook = outlooks.entry(stage.clone()).or_default();
            if std::mem::replace(&mut outlook.watched, true) {
                return;
            }
        }
        tokio::spawn(watch(Arc::downgrade(self), stage.clone(), self.url.wait()));
    }
}

async fn watch(engine: Weak<Inner>, stage: Name, wait: Span) {
    let mut now = Timestamp::EPOCH;
    loop {
        let Some(inner) = engine.upgrade() else { return };
        let Ok(queues) = inner.queues(&stage).await else { break };
        let (seen, visibility) = {
            let mut outlooks = lock(&inner.outlooks);
            let outlook = outlooks.entry(stage.clone()).or_default();
            (outlook.looked_at, outlook.visibility)
        };
        drop(inner);
        let received = queues.queue.receive(AHEAD_MAX, visibility, wait).await;
        let Some(inner) = engine.upgrade() else { return };
        match received {
            Ok(messages) => {
                let mut outlooks = lock(&inner.outlooks);
                let outlook = outlooks.entry(stage.clone()).or_default();
                // The engine reads no clock: the time of the newest call counts.
                now = outlook.looked_at.max(now);
                let idle = seen == outlook.looked_at && wait >= Span::from_secs(1) && messages.is_empty();
                if !messages.is_empty() || idle || now.since(seen) > WATCHED_FOR {
                    outlook.received(AHEAD_MAX, messages.len(), now);
                    if messages.len() >= AHEAD_MAX {
                        outlook.ready(0);
                    }
                    messages.into_iter().for_each(|message| outlook.keep(message, now));
                    outlook.watched = false;
                    drop(outlooks);
                    inner.hint();
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, stage = %stage.as_str(), "a queue cannot be polled; trying again");
                drop(inner);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    if let Some(inner) = engine.upgrade() {
        lock(&inner.outlooks).entry(stage).or_default().watched = false;
    }
}
