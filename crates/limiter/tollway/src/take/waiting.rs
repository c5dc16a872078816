//! Waiting for a permit: in the store's queue where the store can book ahead, else in the queue of this process.

use tollway_core::{Span, Timestamp};
use tracing::Instrument;

use crate::metrics::{WaitingCaller, count_waited};
use crate::take::pending_take::PendingTake;
use crate::{Denied, Permit, TakeError, Taken};

/// The longest pause between retries while another process may return slots without notice.
const RETRY_MAX: Span = Span::from_millis(200);

/// Waits until the permit is due. Dropping the future returns what it took, unless the take has an id: a repeated take
/// with that id gets the booking.
pub(crate) async fn wait_for_permit(take: PendingTake) -> Result<Permit, TakeError> {
    let span = tracing::debug_span!("take", policy = %take.charges.first().0.policy.name());
    let permit =
        async move { if take.may_book() { wait_in_queue(take).await } else { wait_for_turn(take).await } };
    let permit = permit.instrument(span).await;
    count_waited(&permit);
    permit
}

/// One round trip: the store grants for an exact time, and the caller sleeps until then.
async fn wait_in_queue(mut take: PendingTake) -> Result<Permit, TakeError> {
    let wait = take.longest_wait();
    match take.send_and_wait(wait).await? {
        // A layout that cannot book ahead says when to retry instead.
        Taken::Denied(denied) if denied.decision().wait() <= wait && wait > Span::ZERO => {
            wait_for_turn(take).await
        }
        Taken::Denied(denied) => Err(denied.into()),
        Taken::Granted(granted) => {
            // Granted but not yet due: dropping the future now returns it unused.
            let permit = granted.permit();
            let _waits = permit.waiting_caller();
            let pending = permit.into_pending();
            pending.due().await?;
            pending.into_permit()
        }
    }
}

/// In order of arrival: the first take retries until it is granted or its deadline passes; the others wait for their turn.
async fn wait_for_turn(mut take: PendingTake) -> Result<Permit, TakeError> {
    let state = take.state().clone();
    let deadline = state.clock.now().plus(take.longest_wait());
    let Some(entry) = state.queues.join(&take.charges) else {
        return match take.send_and_wait(Span::ZERO).await? {
            Taken::Granted(granted) => Ok(granted.permit()),
            Taken::Denied(denied) => Err(denied.into()),
        };
    };
    let turn = match entry.queue.turn.try_lock() {
        Ok(turn) => Some(turn),
        Err(_) => {
            let denied_by = entry.queue.last_denial();
            let bound = denied_by.as_ref().map_or(take.charges.waited_for(), Denied::bound);
            let _waits = WaitingCaller::new(bound, None);
            tokio::select! {
                biased;
                turn = entry.queue.turn.lock() => Some(turn),
                slept = state.timers.sleep_until(&*state.clock, deadline) => { slept?; None }
            }
        }
    };
    if turn.is_none()
        && let Some(denied) = entry.queue.last_denial()
    {
        // The deadline passed while an earlier take is still waiting, so this one cannot be served either.
        return Err(denied.repeated_at(state.clock.now()).into());
    }
    loop {
        take.charges.follow_reload();
        let denied = match take.send_and_wait(Span::ZERO).await? {
            Taken::Granted(granted) => return Ok(granted.permit()),
            Taken::Denied(denied) => denied,
        };
        entry.queue.note_denial(&denied);
        let now = state.clock.now();
        let retry_at = now.plus(denied.decision().wait());
        if turn.is_none() || now >= deadline {
            return Err(denied.into());
        }
        let wake_at = wake_at(&take, now, retry_at, deadline);
        // When slots come back is not known.
        let due = Some(retry_at).filter(|_| denied.limit().is_none_or(|limit| !limit.has_slots()));
        let _waits = WaitingCaller::new(denied.bound(), due);
        tokio::select! {
            biased;
            () = entry.queue.freed.notified() => {}
            slept = state.timers.sleep_until(&*state.clock, wake_at) => slept?,
        }
    }
}

/// When to retry: at the time the store named, but soon where another process may return slots.
fn wake_at(take: &PendingTake, now: Timestamp, retry_at: Timestamp, deadline: Timestamp) -> Timestamp {
    let slots = take.charges.holds_slots();
    let soon = if slots && !take.state().in_process() { now.plus(RETRY_MAX) } else { retry_at };
    retry_at.min(soon).min(deadline).max(now.plus(Span::from_micros(100)))
}
