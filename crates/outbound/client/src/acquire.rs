//! Taking the permits of one attempt: the endpoint's, the api's place in the queue, and a slot.

use std::sync::Arc;
use std::time::Duration;

use tollway::config::{Api, ApiEndpoint};
use tollway::core::{Name, Policy, Subject};
use tollway::{Denied, Permit, PolicyHandle, Take, TakeError, Taken, Timestamp, Waits};

use crate::error::CallFailure;
use crate::gate::{BOOKED_AHEAD, Priority, Turn};
use crate::in_flight::Flight;
use crate::limiter::ApiState;
use crate::permits::{Permits, UnderPolicy};

/// How often a call asks for a place under a rate that other processes change.
const RATE_CHECK: Duration = Duration::from_millis(250);
/// The same while the vendor holds calls back: only an operator ends that early.
const HELD_CHECK: Duration = Duration::from_secs(1);

/// What an attempt asks for.
pub(crate) struct Wanted<'c> {
    pub(crate) api: &'c Api,
    pub(crate) endpoint: Option<&'c ApiEndpoint>,
    /// Amounts by unit; a policy that does not count a unit ignores it.
    pub(crate) cost: &'c [(Name, u64)],
    /// A policy of the caller's, and its subject there.
    pub(crate) share: Option<&'c (Name, Subject)>,
    pub(crate) priority: Priority,
    /// Until when it may wait.
    pub(crate) deadline: Timestamp,
    /// Whether it fails as soon as its time is known to be later, although that may change until then.
    pub(crate) ends_at_once: bool,
}

impl Wanted<'_> {
    /// Whether this denial ends the call: it names a time that is too late. When a slot is freed is not known.
    fn is_ended_by(&self, denied: &Denied, left: Duration) -> bool {
        let knows_time = denied.held() || denied.limit().is_some_and(|limit| !limit.has_slots());
        self.ends_at_once && knows_time && denied.retry_after() > left
    }
}

impl ApiState {
    /// Waits for the permits of an attempt, and for the moment at which it may be sent.
    pub(crate) async fn acquire(self: &Arc<Self>, wanted: &Wanted<'_>) -> Result<Permits, CallFailure> {
        let acquired = self.acquire_all(wanted).await;
        if let Err(failure) = &acquired {
            self.count_not_sent(failure);
        }
        acquired
    }

    async fn acquire_all(self: &Arc<Self>, wanted: &Wanted<'_>) -> Result<Permits, CallFailure> {
        loop {
            let mut permits = Permits::new(self);
            self.acquire_into(&mut permits, wanted).await?;
            match self.begin(&mut permits, wanted).await {
                Ok(()) => return Ok(permits),
                // Lost: it expired while the store is away, or belongs to a rate that was cut. Another one is due.
                Err(CallFailure::NoPermit(error)) if is_lost(&error) && !self.left(wanted).is_zero() => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// In the order in which permits are least wasted: a slow endpoint holds up no other call, and calls that wait for a slot
    /// hold no place.
    async fn acquire_into(&self, permits: &mut Permits, wanted: &Wanted<'_>) -> Result<(), CallFailure> {
        self.wait_here(wanted).await?;
        if let Some((policy, subject)) = wanted.share {
            let handle = self.handle(policy)?;
            let permit = self.wait_for(&handle, subject, wanted).await?;
            permits.share = Some(UnderPolicy::new(permit, handle.policy()));
        }
        self.acquire_endpoint(permits, wanted).await?;
        let granted_at = self.now();
        if wanted.api.policy().is_some() || wanted.api.concurrency().is_some() {
            self.acquire_place(permits, wanted).await?;
        } else {
            permits.flight = Some(self.join_flights(wanted).await?);
        }
        // A permit of the endpoint says nothing about calls that come a second later.
        if Duration::from(self.now().since(granted_at)) > BOOKED_AHEAD {
            self.acquire_endpoint(permits, wanted).await?;
        }
        Ok(())
    }

    async fn acquire_endpoint(&self, permits: &mut Permits, wanted: &Wanted<'_>) -> Result<(), CallFailure> {
        if let Some(policy) = wanted.endpoint.and_then(ApiEndpoint::policy) {
            let handle = self.handle(policy)?;
            let permit = self.wait_for(&handle, &self.account, wanted).await?;
            permits.endpoint = Some(UnderPolicy::new(permit, handle.policy()));
        }
        Ok(())
    }

    /// A permit, in the order of the library.
    async fn wait_for(
        &self,
        handle: &PolicyHandle,
        subject: &Subject,
        wanted: &Wanted<'_>,
    ) -> Result<Permit, CallFailure> {
        if wanted.ends_at_once {
            match self.take_for(handle, subject, wanted).book().await? {
                Taken::Granted(granted) => return Ok(granted.permit().until_due().await?),
                Taken::Denied(denied) if wanted.is_ended_by(&denied, self.left(wanted)) => {
                    return Err(TakeError::from(denied).into());
                }
                // Its policy cannot be booked.
                Taken::Denied(_) => {}
            }
        }
        Ok(self.take_for(handle, subject, wanted).await?)
    }

    /// A slot and a place in the queue of the api's policy, in the order of the calls of this process.
    async fn acquire_place(&self, permits: &mut Permits, wanted: &Wanted<'_>) -> Result<(), CallFailure> {
        self.check_queue(wanted).await?;
        let waits = wanted.api.policy().map(|policy| self.handle(policy)).transpose()?;
        let waits = waits.map(|handle| handle.count_waiting());
        let turn = tokio::time::timeout(self.left(wanted), self.gate.turn(wanted.priority)).await;
        let turn = turn
            .map_err(|_| CallFailure::NoTurn { waiting: self.gate.waiting() })?
            .map_err(|_| CallFailure::TooManyWaiting)?;
        permits.flight = Some(self.join_flights(wanted).await?);
        // Takes that wait are counted by themselves.
        drop(waits);
        if let Some(policy) = wanted.api.slots_policy() {
            let handle = self.handle(policy.name())?;
            let take = handle.take().subject(self.account.as_str()).max_wait(self.left(wanted));
            permits.slot = Some(Box::new(take.await?));
        }
        if let Some(policy) = wanted.api.policy() {
            let handle = self.handle(policy)?;
            let permit = self.place(&handle, turn, wanted).await?;
            permits.place = Some(UnderPolicy::new(permit, handle.policy()));
        }
        Ok(())
    }

    /// A place among as many calls as the vendor runs at the same time.
    async fn join_flights(&self, wanted: &Wanted<'_>) -> Result<Flight, CallFailure> {
        let flight = self.flights.join(self.left(wanted)).await;
        flight.ok_or_else(|| CallFailure::NoTurn { waiting: self.gate.waiting() })
    }

    async fn begin(&self, permits: &mut Permits, wanted: &Wanted<'_>) -> Result<(), CallFailure> {
        for taken in [&mut permits.share, &mut permits.endpoint, &mut permits.place].into_iter().flatten() {
            begin_within(&mut taken.permit, self.left(wanted)).await?;
        }
        Ok(())
    }

    /// Waits for a hold that the store does not know.
    async fn wait_here(&self, wanted: &Wanted<'_>) -> Result<(), CallFailure> {
        loop {
            let held: Duration = self.held_here().into();
            if held.is_zero() {
                return Ok(());
            }
            if held > self.left(wanted) {
                return Err(CallFailure::Held(held));
            }
            tokio::time::sleep(held).await;
        }
    }

    /// A place in the queue of the api's policy. The process books at most a second ahead.
    async fn place(
        &self,
        handle: &PolicyHandle,
        turn: Turn,
        wanted: &Wanted<'_>,
    ) -> Result<Permit, CallFailure> {
        let booked = match adapts(&handle.policy()) {
            true => self.book_soon(handle, wanted).await?,
            false => self.take(handle, wanted).book().await?,
        };
        let granted = match booked {
            Taken::Granted(granted) => granted,
            Taken::Denied(denied) if wanted.is_ended_by(&denied, self.left(wanted)) => {
                return Err(TakeError::from(denied).into());
            }
            // Not before the deadline, or a policy that cannot be booked: the library waits for it, in order.
            Taken::Denied(_) => {
                turn.booked(BOOKED_AHEAD);
                return Ok(self.take(handle, wanted).await?);
            }
        };
        let permit = granted.permit();
        let delay = permit.delay();
        turn.booked(delay);
        let mut due = std::pin::pin!(permit.until_due());
        if let Some(far) = delay.checked_sub(BOOKED_AHEAD)
            && let Ok(permit) = tokio::time::timeout(far, &mut due).await
        {
            return Ok(permit?);
        }
        drop(turn);
        Ok(due.await?)
    }

    /// A place under a rate, within the next second; asked for again until there is one.
    ///
    /// What a rate allows later is not known yet. A place far ahead, such as at the end of a cap, would hold up all
    /// processes until then, although the next answer may lift the cap.
    async fn book_soon(
        &self,
        handle: &PolicyHandle,
        wanted: &Wanted<'_>,
    ) -> Result<Taken<'static>, CallFailure> {
        loop {
            let left = self.left(wanted);
            let changed = self.rate_changed.notified();
            let taken = self.take(handle, wanted).max_wait(left.min(BOOKED_AHEAD)).book().await?;
            let Taken::Denied(denied) = &taken else { return Ok(taken) };
            let (wait, is_held) = (denied.retry_after(), denied.held());
            // A rate may rise before its time; a hold and a fixed limit do not.
            let is_rate = !is_held && denied.limit().is_some_and(|limit| limit.is_adaptive());
            if left.is_zero() || (wait > left && (!is_rate || wanted.ends_at_once)) {
                return Ok(taken);
            }
            let longest = if is_held { HELD_CHECK } else { RATE_CHECK };
            let pause = wait.saturating_sub(BOOKED_AHEAD / 2).clamp(RATE_CHECK / 10, longest).min(left);
            let _waits = handle.count_waiting();
            // This process may have written another rate meanwhile.
            let _ = tokio::time::timeout(pause, changed).await;
        }
    }

    fn take<'h>(&'h self, handle: &'h PolicyHandle, wanted: &Wanted<'_>) -> Take<'h, Waits> {
        self.take_for(handle, &self.account, wanted)
    }

    fn take_for<'h>(
        &self,
        handle: &'h PolicyHandle,
        subject: &'h Subject,
        wanted: &Wanted<'_>,
    ) -> Take<'h, Waits> {
        let policy = handle.policy();
        let mut take = handle.take().subject(subject.as_str()).max_wait(self.left(wanted));
        if adapts(&policy) {
            take = take.with_readings();
        }
        for (unit, amount) in wanted.cost {
            if policy.units().contains(unit) {
                take = take.cost(unit.as_str(), *amount);
            }
        }
        take
    }

    pub(crate) fn left(&self, wanted: &Wanted<'_>) -> Duration {
        wanted.deadline.since(self.now()).into()
    }
}

/// Whether the policy has a rate.
pub(crate) fn adapts(policy: &Policy) -> bool {
    policy.limits().iter().any(|limit| limit.is_adaptive())
}

/// Whether a permit that could not begin may be taken again.
fn is_lost(error: &TakeError) -> bool {
    matches!(error, TakeError::Denied(_) | TakeError::Store(_))
}

/// A hold may have come since the grant, and may last longer than the call may take.
async fn begin_within(permit: &mut Permit, left: Duration) -> Result<(), CallFailure> {
    match tokio::time::timeout(left, permit.begin()).await {
        Ok(begun) => Ok(begun?),
        Err(_) => Err(CallFailure::Held(left)),
    }
}
