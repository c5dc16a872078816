//! Waiting for a permit: a place in the store's line where there can be one, else a turn in the queue of this process.

use tollway_core::{Span, Timestamp};
use tracing::Instrument;

use crate::metrics::count_waited;
use crate::request::Request;
use crate::{Permit, TakeError, Taken};

/// How long at most until a waiter asks again for something that another process may give back unannounced.
const ASK_AGAIN: Span = Span::from_millis(200);

/// A permit, when its time has come. Dropping the future gives back what it may have taken, unless it has an id: then the
/// place is the id's.
pub(crate) async fn wait_for_permit(request: Request) -> Result<Permit, TakeError> {
    let asked = request.counts();
    let policy = request.asks.first().bound.policy.clone();
    let span = tracing::debug_span!("take", policy = %policy.name());
    let permit = async move {
        if request.may_book() { wait_in_line(request).await } else { wait_for_turn(request).await }
    };
    let permit = permit.instrument(span).await;
    count_waited(asked.as_deref(), &permit);
    permit
}

/// One round trip: granted for an exact time, and asleep until then.
async fn wait_in_line(request: Request) -> Result<Permit, TakeError> {
    let wait = request.longest_wait();
    match request.ask(wait).await? {
        // A layout that has no places to book says when to come back instead.
        Taken::Denied(denied) if denied.denial.retry_after() <= wait && wait > Span::ZERO => {
            wait_for_turn(request).await
        }
        Taken::Denied(denied) => Err(TakeError::Denied(denied)),
        Taken::Granted(granted) => {
            // The permit is ours but not yet due: whoever drops us now gives it back unused.
            let place = granted.permit().into_place();
            place.due().await?;
            place.into_permit()
        }
    }
}

/// In order of arrival, the first asks until it is granted or its time is up; the others wait for their turn.
async fn wait_for_turn(mut request: Request) -> Result<Permit, TakeError> {
    let shared = request.shared().clone();
    let deadline = shared.clock.now().plus(request.longest_wait());
    let Some(standing) = shared.queues.join(&request.asks) else {
        return match request.ask(Span::ZERO).await? {
            Taken::Granted(granted) => Ok(granted.permit()),
            Taken::Denied(denied) => Err(TakeError::Denied(denied)),
        };
    };
    let turn = tokio::select! {
        biased;
        turn = standing.queue.turn.lock() => Some(turn),
        slept = shared.timers.sleep_until(&*shared.clock, deadline) => { slept?; None }
    };
    if turn.is_none()
        && let Some(mut denied) = standing.queue.last_denial()
    {
        // Time is up while somebody else still waits in front: before that one, nobody is served.
        denied.denial.now = shared.clock.now().min(denied.denial.retry_at);
        return Err(TakeError::Denied(denied));
    }
    loop {
        request.follow_reload();
        let denied = match request.ask(Span::ZERO).await? {
            Taken::Granted(granted) => return Ok(granted.permit()),
            Taken::Denied(denied) => denied,
        };
        standing.queue.note_denial(&denied);
        let now = shared.clock.now();
        let retry_at = now.plus(denied.denial.retry_after());
        if turn.is_none() || now >= deadline {
            return Err(TakeError::Denied(denied));
        }
        let wake_at = wake_at(&request, now, retry_at, deadline);
        tokio::select! {
            biased;
            () = standing.queue.freed.notified() => {}
            slept = shared.timers.sleep_until(&*shared.clock, wake_at) => slept?,
        }
    }
}

/// When to ask again: at the time the store named, but soon where slots may come back from another process.
fn wake_at(request: &Request, now: Timestamp, retry_at: Timestamp, deadline: Timestamp) -> Timestamp {
    let slots = request.asks.iter().any(|ask| ask.bound.policy.holds_slots());
    let soon = if slots && !request.shared().in_process() { now.plus(ASK_AGAIN) } else { retry_at };
    retry_at.min(soon).min(deadline).max(now.plus(Span::from_micros(100)))
}
