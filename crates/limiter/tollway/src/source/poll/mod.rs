//! Reads one source again and again, in the background.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tollway_core::{Name, Policy, Span, Timestamp};

use super::kept::Lock;
use super::reading::SourceReading;
use super::{KeptReading, SOURCE_EVERY_MIN, SourceError, SourceToPoll};
use crate::policy::registry::Registry;

/// A source that has not answered by then has failed, this time.
const READ_DEADLINE: Duration = Duration::from_secs(3);

/// After a failure a source is read this many times as often, so that a short one is not noticed.
const READS_AFTER_FAILURE: u64 = 10;

/// The part of the pause that chance may take off: processes that started together do not read together for ever.
const JITTER_PART: u64 = 5;

/// The pause before a program checks again whether another one has read the source.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// How often it checks: a little longer than a reading may take.
const LOCK_CHECKS: u32 = 200;

/// How a source has been doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    /// The policy whose limits it is read for.
    pub policy: Name,
    /// The source's name for people.
    pub title: String,
    /// How often it is read.
    pub every: Span,
    /// When it was last read, by the limiter's clock; none before the first success.
    pub read_at: Option<Timestamp>,
    /// The last amount read for each limit. Other limits have the config's amount.
    pub amounts: Vec<(Name, u64)>,
    /// The problem of the last attempt, if it had one.
    pub problem: Option<String>,
    /// How often it was tried.
    pub tries: u64,
}

impl SourceStatus {
    pub(super) fn new(source_to_poll: &SourceToPoll) -> Self {
        Self {
            policy: source_to_poll.policy.clone(),
            title: source_to_poll.source.title(),
            every: source_to_poll.every,
            read_at: None,
            amounts: Vec::new(),
            problem: None,
            tries: 0,
        }
    }

    /// Takes over the amounts that another program has read and kept since, for a reading that does not give all of them.
    fn start_from_later(&mut self, kept: &KeptReading, policy: &Policy, now: Timestamp) {
        let mut later = self.clone();
        if kept.load(&mut later, policy).is_some()
            && later.read_at > self.read_at
            && later.read_at <= Some(now)
        {
            (self.read_at, self.amounts) = (later.read_at, later.amounts);
        }
    }

    /// Takes in a reading. Whatever it did not give stays as it was.
    fn note(&mut self, reading: SourceReading, policy: &Policy, now: Timestamp) {
        self.tries = self.tries.saturating_add(1);
        if !reading.amounts.is_empty() {
            self.read_at = Some(now);
        }
        let known = |name: &Name| policy.limits().iter().any(|limit| limit.name() == name);
        let again = |name: &Name| reading.amounts.iter().any(|(other, _)| other == name);
        self.amounts.retain(|(name, _)| known(name) && !again(name));
        self.amounts.extend(reading.amounts);
        self.amounts.sort();
        if self.problem != reading.problem {
            self.problem = reading.problem;
            self.log_change();
        }
    }

    /// Once for each change, not once for each reading.
    fn log_change(&self) {
        let (policy, source) = (&self.policy, &self.title);
        match &self.problem {
            Some(problem) if self.amounts.is_empty() => {
                tracing::warn!(%policy, %source, %problem, "a limit source cannot be used; the config's amounts are in force");
            }
            Some(problem) => {
                tracing::warn!(%policy, %source, %problem, "a limit source cannot be used; the last amounts read stay in force");
            }
            None => tracing::info!(%policy, %source, "a limit source can be read again"),
        }
    }
}

/// Reads it until the limiter is gone, or the policy.
pub(super) async fn poll_source(
    source_to_poll: SourceToPoll,
    registry: Weak<Registry>,
    status: watch::Sender<SourceStatus>,
) {
    let mut lock = None;
    if let Some(kept) = &source_to_poll.kept {
        match start_from(kept, &source_to_poll, &registry, &status).await {
            FirstStep::Pause(pause) => tokio::time::sleep(pause.into()).await,
            FirstStep::Read(held) => lock = held,
        }
    }
    while read(&source_to_poll, &registry, &status, lock.take()).await.is_some() {
        let failed = status.borrow().problem.is_some();
        tokio::time::sleep(pause(source_to_poll.every, failed).into()).await;
    }
}

/// How to go on after the kept reading.
enum FirstStep {
    /// It is in force, and no reading is due for so long.
    Pause(Span),
    /// A reading is due, under the lock if it could be had.
    Read(Option<File>),
}

/// Puts the kept reading in force. Of programs that start together one reads the source; the others wait for its reading
/// only if they have no earlier one.
async fn start_from(
    kept: &KeptReading,
    source_to_poll: &SourceToPoll,
    registry: &Weak<Registry>,
    status: &watch::Sender<SourceStatus>,
) -> FirstStep {
    for check in 0..LOCK_CHECKS {
        let adopted = adopt(kept, source_to_poll, registry, status);
        if let Some(Adopted::Fresh(pause)) = adopted {
            return FirstStep::Pause(pause);
        }
        let Some(now) = registry.upgrade().map(|registry| registry.state().clock.now()) else { break };
        match kept.try_lock(now) {
            Ok(Lock::Held(lock)) => {
                // The last holder may have saved a reading in between.
                return match adopt(kept, source_to_poll, registry, status) {
                    Some(Adopted::Fresh(pause)) => FirstStep::Pause(pause),
                    _ => FirstStep::Read(Some(lock)),
                };
            }
            // A holder notes the time just after it has the lock, so one check is not enough.
            Ok(Lock::Stuck) if check > 0 => break,
            Ok(Lock::Busy) if matches!(adopted, Some(Adopted::Due)) => {
                status.send_modify(|status| status.tries = 1);
                return FirstStep::Pause(READ_DEADLINE.into());
            }
            Ok(Lock::Busy | Lock::Stuck) => tokio::time::sleep(LOCK_PAUSE).await,
            Err(_) => break,
        }
    }
    FirstStep::Read(None)
}

/// A kept reading that is in force.
enum Adopted {
    /// No reading is due for so long.
    Fresh(Span),
    /// A reading is due. Until then this one will do.
    Due,
    /// A reading is due: this one has no amounts, or is older than one of the limits.
    Incomplete,
}

/// Puts the kept amounts in force. None if there are none that can be used.
fn adopt(
    kept: &KeptReading,
    source_to_poll: &SourceToPoll,
    registry: &Weak<Registry>,
    status: &watch::Sender<SourceStatus>,
) -> Option<Adopted> {
    let registry = registry.upgrade()?;
    let policy = registry.given(&source_to_poll.policy)?;
    let mut after = status.borrow().clone();
    let tried_at = kept.load(&mut after, &policy)?;
    let now = registry.state().clock.now();
    let due = tried_at.plus(longest_pause(source_to_poll.every, after.problem.is_some()));
    let has_amount = |name: &Name| after.amounts.iter().any(|(known, _)| known == name);
    // A problem says why an amount is missing. Without one, the limit was added since.
    let limit_added =
        after.problem.is_none() && !policy.limits().iter().all(|limit| has_amount(limit.name()));
    // A time to come is that of a clock that was set back since.
    let fresh = tried_at <= now && now < due && !limit_added;
    if fresh {
        after.tries = 1;
        if after.problem.is_some() {
            after.log_change();
        }
    } else {
        // The reading that is due reports its own.
        after.problem = None;
    }
    registry.set_sourced(&source_to_poll.policy, &after.amounts);
    let incomplete = after.amounts.is_empty() || limit_added;
    status.send_replace(after);
    Some(match (fresh, incomplete) {
        (true, _) => Adopted::Fresh(due.since(now)),
        (false, false) => Adopted::Due,
        (false, true) => Adopted::Incomplete,
    })
}

/// Reads it once, without blocking takes, and keeps the reading under the lock. None if the limiter or the policy is gone.
async fn read(
    source_to_poll: &SourceToPoll,
    registry: &Weak<Registry>,
    status: &watch::Sender<SourceStatus>,
    lock: Option<File>,
) -> Option<()> {
    let policy = policy_as_given(registry, &source_to_poll.policy)?;
    let names: Vec<Name> = policy.limits().iter().map(|limit| limit.name().clone()).collect();
    let read = tokio::time::timeout(READ_DEADLINE, source_to_poll.source.read(&names)).await;
    let read = read.unwrap_or_else(|_| Err(SourceError(format!("no answer within {READ_DEADLINE:?}"))));
    let registry = registry.upgrade()?;
    let reading = SourceReading::of(policy.limits(), read);
    let mut after = status.borrow().clone();
    let now = registry.state().clock.now();
    let kept = source_to_poll.kept.as_ref();
    let lock = lock.or_else(|| kept?.try_lock(now).ok()?.held());
    if let Some(kept) = kept.filter(|_| reading.problem.is_some()) {
        after.start_from_later(kept, &policy, now);
    }
    after.note(reading, &policy, now);
    // In force before the status reports it.
    registry.set_sourced(&source_to_poll.policy, &after.amounts);
    if let Some(kept) = kept.filter(|_| lock.is_some()) {
        kept.save(&after, now);
    }
    status.send_replace(after);
    Some(())
}

fn policy_as_given(registry: &Weak<Registry>, policy: &Name) -> Option<Arc<Policy>> {
    registry.upgrade()?.given(policy)
}

/// The longest pause before the next read: shorter after a failure.
fn longest_pause(every: Span, failed: bool) -> Span {
    if failed {
        Span::from_micros(every.as_micros() / READS_AFTER_FAILURE).max(SOURCE_EVERY_MIN)
    } else {
        every
    }
}

/// The pause before the next read, at most `every`.
fn pause(every: Span, failed: bool) -> Span {
    let longest = longest_pause(every, failed);
    let off = RandomState::new().hash_one(0) % (longest.as_micros() / JITTER_PART).max(1);
    Span::from_micros(longest.as_micros().saturating_sub(off))
}

#[cfg(test)]
mod tests;
