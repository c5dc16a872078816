//! The link: calls in, conditional writes of counts out.
//!
//! A call whose write was answered is over. One whose answer was lost is remembered ([`CallAttempts`]) until it is sent again:
//! then the item is read, and the mark in it proves that the write was applied, or, if its minute is over, that it does not
//! matter any more. While the minute lasts, the write is sent again into the same slot, whose condition lets only one of
//! the two through.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway_aws::ClockCheck;
use tollway_core::{Clock, Fault, Outcomes, Retry, StoreError, Timestamp};
use tollway_remote::{Call, Link};

use super::Layout;
use super::count_cache::{CountCache, RECENT};
use super::counter::Counter;
use super::minute_item::MinuteItem;
use super::plan::{Needs, Plan};
use super::proof::{ATTEMPTS_MAX, Mark, Number, Slot, choose, seconds};
use super::write::{Items, Update, Written};
use crate::counters::Effort;
use crate::unresolved_calls::UnresolvedCalls;

/// How often a call is decided again because others counted meanwhile. There is room for fewer and fewer, so that rarely
/// happens twice; such a call is sent again after a pause.
const RACES_MAX: usize = 32;

/// Sends calls to a table of minutes.
pub(super) struct MinuteLink {
    pub(super) layout: Layout,
    pub(super) items: Items,
    /// The id of this process among all that share the table.
    pub(super) writer: String,
    pub(super) clock: Arc<dyn Clock>,
    /// Nothing if the clock is a test's.
    pub(super) check: Option<ClockCheck>,
    pub(super) known: CountCache,
    /// The latest time that anything was decided at, in microseconds: minutes do not come back.
    pub(super) latest: AtomicU64,
    /// Calls whose last write may have been applied.
    pub(super) unresolved: UnresolvedCalls<CallAttempts>,
}

/// What was tried of one call, as far as it may have been applied.
#[derive(Clone, Debug)]
pub(super) struct CallAttempts {
    sequence: u64,
    /// The number of the next attempt.
    next_number: u64,
    unclear: Vec<UnclearWrite>,
}

/// A write whose answer was lost.
#[derive(Clone, Debug)]
struct UnclearWrite {
    number: u64,
    counter: Counter,
    slot: Slot,
    /// What it was decided on.
    count: u64,
    now: Timestamp,
}

/// What an item showed during this call.
struct Look {
    counter: Counter,
    seen: MinuteItem,
}

impl MinuteLink {
    async fn apply(&self, call: &Call) -> Result<Outcomes, StoreError> {
        let mut attempts = self.resume(call)?;
        let result = self.decide_and_write(call, &mut attempts).await;
        let Err(mut error) = result else { return result };
        // An error that would repeat is not retried.
        if !attempts.unclear.is_empty() && error.retry != Retry::Useless {
            self.unresolved.keep(call, attempts);
            // Whatever stopped it now, an earlier write may have been applied.
            error.retry = Retry::Unclear;
        }
        Err(error)
    }

    fn resume(&self, call: &Call) -> Result<CallAttempts, StoreError> {
        match self.unresolved.take(call) {
            Some(attempts) => Ok(attempts),
            None if call.again => Err(unproven()),
            None => Ok(CallAttempts { sequence: call.sequence, next_number: 0, unclear: Vec::new() }),
        }
    }

    async fn decide_and_write(
        &self,
        call: &Call,
        attempts: &mut CallAttempts,
    ) -> Result<Outcomes, StoreError> {
        let writer = format!("{}/{}", self.writer, call.tag.account().policy);
        let mut effort = Effort::new(&self.items.counters);
        let mut look = None;
        if !attempts.unclear.is_empty() {
            effort.retried();
        }
        for _ in 0..RACES_MAX {
            let now = self.now();
            let counter = Counter::at(self.layout, call.tag.account(), now);
            self.check_clock(&counter).await?;
            if let Some(outcomes) = self.prove(call, attempts, &counter, &writer, &mut look).await? {
                return Ok(outcomes);
            }
            let seen = look.as_ref().filter(|look| look.counter == counter).map(|look| &look.seen);
            let (count, age) = self.count(&counter, seen, now);
            let plan = Plan::of(&call.operations, count, counter.end(), now);
            if !plan.writes() {
                if age.is_enough_for(plan.needs) {
                    return Ok(plan.outcomes);
                }
                look = Some(self.read(counter, now).await?);
                continue;
            }
            let slot = attempts.slot_in(&counter, seen, &writer, now);
            let attempt = attempts.next(counter, slot, count, now)?;
            match self.write(&plan, &attempt, attempts, &writer).await {
                Ok(Written::Yes(after)) => {
                    self.known.note(&attempt.counter, after, now);
                    let before = plan.count_before(after);
                    return Ok(Plan::of(&call.operations, before, attempt.counter.end(), now).outcomes);
                }
                Ok(Written::No(seen)) => {
                    effort.lost();
                    effort.retried();
                    self.known.note(&attempt.counter, seen.count, now);
                    look = Some(Look { counter: attempt.counter, seen });
                }
                Err(error) => {
                    if error.retry == Retry::Unclear {
                        attempts.unclear.push(attempt);
                    }
                    return Err(error);
                }
            }
        }
        let message =
            format!("others counted in the same minute {RACES_MAX} times before this process could");
        Err(StoreError { fault: Fault::Store, retry: Retry::Safe, message })
    }

    /// The outcomes of an earlier attempt, if one was applied. Else those of past minutes are forgotten: they can only count
    /// in a minute that is over, and no caller was told of them.
    async fn prove(
        &self,
        call: &Call,
        attempts: &mut CallAttempts,
        counter: &Counter,
        writer: &str,
        look: &mut Option<Look>,
    ) -> Result<Option<Outcomes>, StoreError> {
        while let Some(unclear) = attempts.unclear.first().cloned() {
            if look.as_ref().is_none_or(|look| look.counter != unclear.counter) {
                *look = Some(self.read(unclear.counter.clone(), self.now()).await?);
            }
            let Some(Look { seen, .. }) = &look else { break };
            let applied = seen.mark_of(writer).and_then(|mark| mark.number.attempt_of(call.sequence));
            if let Some(attempt) = attempts.unclear.iter().find(|attempt| Some(attempt.number) == applied) {
                let UnclearWrite { count, counter, now, .. } = attempt;
                return Ok(Some(Plan::of(&call.operations, *count, counter.end(), *now).outcomes));
            }
            if seen.pushed_out >= seconds(unclear.now) {
                return Err(unproven());
            }
            if unclear.counter == *counter {
                break;
            }
            attempts.unclear.retain(|attempt| attempt.counter != unclear.counter);
        }
        Ok(None)
    }

    async fn read(&self, counter: Counter, now: Timestamp) -> Result<Look, StoreError> {
        let seen = self.items.read(&counter).await?;
        self.known.note(&counter, seen.count, now);
        Ok(Look { counter, seen })
    }

    async fn write(
        &self,
        plan: &Plan,
        attempt: &UnclearWrite,
        attempts: &CallAttempts,
        writer: &str,
    ) -> Result<Written, StoreError> {
        let number = Number::new(attempts.sequence, attempt.number);
        let mark = Mark { writer: writer.to_owned(), number, at: seconds(attempt.now) };
        let update = Update {
            counter: &attempt.counter,
            plan,
            mark: &mark,
            own_from: Number::first_of(attempts.sequence).0,
            slot: &attempt.slot,
            now: attempt.now,
        };
        self.items.write(&update).await
    }

    /// The count to decide on, and how old it is: what this call has seen, what was last seen, or nothing yet.
    fn count(&self, counter: &Counter, seen: Option<&MinuteItem>, now: Timestamp) -> (u64, Age) {
        match (seen, self.known.of(counter)) {
            (Some(seen), _) => (seen.count, Age::Fresh),
            (None, Some((count, at))) if now.since(at) <= RECENT => (count, Age::Recent),
            (None, Some((count, _))) => (count, Age::Old),
            (None, None) => (0, Age::Old),
        }
    }

    /// The clock's time, never below one that anything was decided at.
    fn now(&self) -> Timestamp {
        let now = self.clock.now().as_micros();
        Timestamp::from_micros(self.latest.fetch_max(now, Ordering::AcqRel).max(now))
    }

    /// A clock that is off decides nothing. Perhaps it was set right since: every reply tells.
    async fn check_clock(&self, counter: &Counter) -> Result<(), StoreError> {
        let Some(check) = self.check.as_ref().filter(|check| check.off().is_some()) else { return Ok(()) };
        self.items.read(counter).await?;
        match check.off() {
            None => Ok(()),
            Some(off) => {
                Err(StoreError { fault: Fault::Store, retry: Retry::Safe, message: off.to_string() })
            }
        }
    }
}

/// How old a count is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Age {
    Fresh,
    Recent,
    Old,
}

impl Age {
    fn is_enough_for(self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Recent => self != Self::Old,
            Needs::Fresh => self == Self::Fresh,
        }
    }
}

impl CallAttempts {
    /// Where the next mark goes: where an unclear one may be, if that is free, so that only one of both is applied.
    fn slot_in(&self, counter: &Counter, seen: Option<&MinuteItem>, writer: &str, now: Timestamp) -> Slot {
        let unknown = HashMap::new();
        let marks = seen.map_or(&unknown, |seen| &seen.marks);
        let earlier = self.unclear.iter().find(|attempt| attempt.counter == *counter);
        match earlier {
            Some(earlier) if !marks.contains_key(&earlier.slot.index) => earlier.slot.clone(),
            _ => choose(marks, writer, now),
        }
    }

    fn next(
        &mut self,
        counter: Counter,
        slot: Slot,
        count: u64,
        now: Timestamp,
    ) -> Result<UnclearWrite, StoreError> {
        let number = self.next_number;
        if number >= ATTEMPTS_MAX {
            return Err(unproven());
        }
        self.next_number = number.saturating_add(1);
        Ok(UnclearWrite { number, counter, slot, count, now })
    }
}

fn unproven() -> StoreError {
    let message =
        "whether a write was applied cannot be proven any more; what it took counts as spent".to_owned();
    StoreError { fault: Fault::Account, retry: Retry::Useless, message }
}

impl Link for MinuteLink {
    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        let each = calls.into_iter().map(|call| {
            let link = Arc::clone(&self);
            async move { link.apply(&call).await }
        });
        futures_util::future::join_all(each).await
    }
}
