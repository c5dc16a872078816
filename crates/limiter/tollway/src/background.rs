//! Work that outlives its caller: returning permits in the background.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tollway_core::{Action, Answer, Outcome, Settled, StoreResult};

use crate::take::bound_charges::BoundCharges;

/// Awaits an answer in the background, then wakes queued takes.
pub(crate) fn finish_in_background(charges: &BoundCharges, answer: Answer) {
    let state = charges.state();
    match answer {
        Answer::Now(Some(result)) => note_returned(charges, result),
        later => {
            let charges = charges.clone();
            state.timers.spawn(async move { note_returned(&charges, later.await) });
        }
    }
}

fn note_returned(charges: &BoundCharges, result: StoreResult) {
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
        charges.state().permits_lost.fetch_add(1, Ordering::Relaxed);
    }
    charges.state().queues.notify(charges.charges());
}

/// A pending answer. If it is dropped early, what the take is granted is returned.
pub(crate) struct InFlight {
    answer: Option<Answer>,
    charges: BoundCharges,
    /// A take under an id is repeated by its id, not given back.
    remember: bool,
}

impl InFlight {
    pub(crate) fn new(answer: Answer, charges: &BoundCharges, remember: bool) -> Self {
        Self { answer: Some(answer), charges: charges.clone(), remember }
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
        let mut charges = self.charges.clone();
        self.charges.state().timers.spawn(async move {
            let outcome = answer.await.ok().and_then(|mut outcomes| outcomes.pop());
            if let Some(Outcome::Decided(decision)) = outcome
                && let Some(booking) = decision.booking().copied()
            {
                let nothing = decision.would_deny != 0 && charges.drop_denied_shadows(&decision);
                if !nothing {
                    let answer = charges.send(Action::Return { booking, remember: false });
                    note_returned(&charges, answer.await);
                }
            }
        });
    }
}
