//! Reads one source again and again, in the background.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tollway_core::{Name, Policy, Span, Timestamp};

use super::reading::SourceReading;
use super::{KeptReading, SOURCE_EVERY_MIN, SourceError, SourceToPoll};
use crate::registry::Registry;

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
    for _ in 0..LOCK_CHECKS {
        if let Some(pause) = adopt(kept, source_to_poll, registry, status) {
            return FirstStep::Pause(pause);
        }
        match kept.try_lock() {
            Ok(Some(lock)) => {
                // The last holder may have saved a reading in between.
                return match adopt(kept, source_to_poll, registry, status) {
                    Some(pause) => FirstStep::Pause(pause),
                    None => FirstStep::Read(Some(lock)),
                };
            }
            Ok(None) if !status.borrow().amounts.is_empty() => {
                status.send_modify(|status| status.tries = 1);
                return FirstStep::Pause(READ_DEADLINE.into());
            }
            Ok(None) => tokio::time::sleep(LOCK_PAUSE).await,
            Err(_) => return FirstStep::Read(None),
        }
    }
    FirstStep::Read(None)
}

/// Puts the kept amounts in force. Returns the time until the next reading; none if one is due.
fn adopt(
    kept: &KeptReading,
    source_to_poll: &SourceToPoll,
    registry: &Weak<Registry>,
    status: &watch::Sender<SourceStatus>,
) -> Option<Span> {
    let registry = registry.upgrade()?;
    let policy = registry.given(&source_to_poll.policy)?;
    let mut after = status.borrow().clone();
    let tried_at = kept.load(&mut after, &policy)?;
    let now = registry.state().clock.now();
    let due = tried_at.plus(longest_pause(source_to_poll.every, after.problem.is_some()));
    // A time to come is that of a clock that was set back since.
    let fresh = tried_at <= now && now < due;
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
    status.send_replace(after);
    fresh.then(|| due.since(now))
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
    after.note(reading, &policy, now);
    // In force before the status reports it.
    registry.set_sourced(&source_to_poll.policy, &after.amounts);
    if let Some(kept) = &source_to_poll.kept {
        let lock = lock.or_else(|| kept.try_lock().ok().flatten());
        if lock.is_some() {
            kept.save(&after, now);
        }
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
mod tests {
    use super::*;

    #[test]
    fn the_pause_never_exceeds_the_configured_interval() {
        let every = Span::from_secs(300);
        for _ in 0..1_000 {
            let calm = pause(every, false);
            assert!(calm <= every && calm > Span::from_secs(239), "{calm}");
            let failed = pause(every, true);
            assert!(failed <= Span::from_secs(30) && failed > Span::from_secs(23), "{failed}");
            assert!(pause(SOURCE_EVERY_MIN, true) <= SOURCE_EVERY_MIN);
        }
    }
}
