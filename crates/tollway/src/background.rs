//! What goes on after its caller has left: permits that find their way back.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tollway_core::{Answer, Decision, Outcome, Settled, StoreResult, Verb};

use crate::bound::Asks;

/// Sees an answer through without waiting for it, and then tells those who wait for what came back.
pub(crate) fn in_background(asks: &Asks, answer: Answer) {
    let shared = asks.shared();
    match answer {
        Answer::Now(Some(result)) => came_back(asks, result),
        later => {
            let asks = asks.clone();
            shared.timers.spawn(async move { came_back(&asks, later.await) });
        }
    }
}

fn came_back(asks: &Asks, result: StoreResult) {
    let lost = match result {
        Ok(outcomes) => {
            matches!(outcomes.first(), Some(Outcome::Settled(Settled::Partly | Settled::Dropped)))
        }
        Err(error) => {
            tracing::debug!(%error, "a permit could not be given back");
            true
        }
    };
    if lost {
        asks.shared().permits_lost.fetch_add(1, Ordering::Relaxed);
    }
    asks.shared().queues.notify(asks);
}

/// An answer under way. Whoever drops it before it has come gives back what it may turn out to have taken.
pub(crate) struct InFlight {
    answer: Option<Answer>,
    asks: Asks,
    /// A take under an id is repeated by its id, not given back.
    remember: bool,
}

impl InFlight {
    pub(crate) fn new(answer: Answer, asks: &Asks, remember: bool) -> Self {
        Self { answer: Some(answer), asks: asks.clone(), remember }
    }
}

impl Future for InFlight {
    type Output = StoreResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<StoreResult> {
        let Some(answer) = &mut self.answer else { return Poll::Pending };
        let result = std::task::ready!(Pin::new(answer).poll(context));
        self.answer = None;
        Poll::Ready(result)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(answer) = self.answer.take().filter(|_| !self.remember) else { return };
        let mut asks = self.asks.clone();
        self.asks.shared().timers.spawn(async move {
            let outcome = answer.await.ok().and_then(|mut outcomes| outcomes.pop());
            if let Some(Outcome::Decided(Decision::Granted(grant))) = outcome {
                let nothing = grant.would_deny != 0 && asks.forget_denied_shadows(grant.would_deny);
                if !nothing {
                    let booking = grant.booking();
                    came_back(&asks, asks.send(Verb::Return { booking, remember: false }).await);
                }
            }
        });
    }
}
