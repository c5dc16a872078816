//! Waiting for a permit: a place in the store's queue where it has one, else a turn in the queue of this process.

use tollway_core::{Span, Timestamp};
use tracing::Instrument;

use crate::metrics::count_waited;
use crate::pending_take::PendingTake;
use crate::{Permit, TakeError, Taken};

/// How long at most until a waiter asks again for something that another process may give back unannounced.
const ASK_AGAIN: Span = Span::from_millis(200);

/// A permit, when its time has come. Dropping the future gives back what it may have taken, unless it has an id: then the
/// place is the id's.
pub(crate) async fn wait_for_permit(take: PendingTake) -> Result<Permit, TakeError> {
    let span = tracing::debug_span!("take", policy = %take.charges.first().0.policy.name());
    let permit =
        async move { if take.may_book() { wait_in_queue(take).await } else { wait_for_turn(take).await } };
    let permit = permit.instrument(span).await;
    count_waited(&permit);
    permit
}

/// One round trip: granted for an exact time, and asleep until then.
async fn wait_in_queue(mut take: PendingTake) -> Result<Permit, TakeError> {
    let wait = take.longest_wait();
    match take.ask(wait).await? {
        // A layout that has no places to book says when to come back instead.
        Taken::Denied(denied) if denied.decision().wait() <= wait && wait > Span::ZERO => {
            wait_for_turn(take).await
        }
        Taken::Denied(denied) => Err(denied.into()),
        Taken::Granted(granted) => {
            // The permit is ours but not yet due: dropping the future now gives it back unused.
            let pending = granted.permit().into_pending();
            pending.due().await?;
            pending.into_permit()
        }
    }
}

/// In order of arrival, the first asks until it is granted or its time is up; the others wait for their turn.
async fn wait_for_turn(mut take: PendingTake) -> Result<Permit, TakeError> {
    let state = take.state().clone();
    let deadline = state.clock.now().plus(take.longest_wait());
    let Some(standing) = state.queues.join(&take.charges) else {
        return match take.ask(Span::ZERO).await? {
            Taken::Granted(granted) => Ok(granted.permit()),
            Taken::Denied(denied) => Err(denied.into()),
        };
    };
    let turn = tokio::select! {
        biased;
        turn = standing.queue.turn.lock() => Some(turn),
        slept = state.timers.sleep_until(&*state.clock, deadline) => { slept?; None }
    };
    if turn.is_none()
        && let Some(denied) = standing.queue.last_denial()
    {
        // Time is up while another take still waits in front, and nothing behind it is served.
        return Err(denied.repeated_at(state.clock.now()).into());
    }
    loop {
        take.follow_reload();
        let denied = match take.ask(Span::ZERO).await? {
            Taken::Granted(granted) => return Ok(granted.permit()),
            Taken::Denied(denied) => denied,
        };
        standing.queue.note_denial(&denied);
        let now = state.clock.now();
        let retry_at = now.plus(denied.decision().wait());
        if turn.is_none() || now >= deadline {
            return Err(denied.into());
        }
        let wake_at = wake_at(&take, now, retry_at, deadline);
        tokio::select! {
            biased;
            () = standing.queue.freed.notified() => {}
            slept = state.timers.sleep_until(&*state.clock, wake_at) => slept?,
        }
    }
}

/// When to ask again: at the time the store named, but soon where slots may come back from another process.
fn wake_at(take: &PendingTake, now: Timestamp, retry_at: Timestamp, deadline: Timestamp) -> Timestamp {
    let slots = take.charges.holds_slots();
    let soon = if slots && !take.state().in_process() { now.plus(ASK_AGAIN) } else { retry_at };
    retry_at.min(soon).min(deadline).max(now.plus(Span::from_micros(100)))
}
