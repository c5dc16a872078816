//! Handlers that cannot be reached: their stages wait, and one job at a time tries whether they are back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tollway_core::{Name, Span, Timestamp};

use super::lock;

/// The pause before the first try. Each further pause is twice as long.
const PAUSE_MIN: Span = Span::from_secs(1);

/// The longest pause: a handler that is back is soon used.
const PAUSE_MAX: Span = Span::from_secs(30);

/// A handler that cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerOutage {
    /// Since when.
    pub since: Timestamp,
    /// When it is tried again.
    pub next_try_at: Timestamp,
    /// Why it could not be reached, the last time.
    pub error: String,
}

/// The outages of handlers, by stage.
#[derive(Clone, Default)]
pub(super) struct UnreachableHandlers(Arc<Mutex<BTreeMap<Name, Outage>>>);

struct Outage {
    known: HandlerOutage,
    pause: Span,
    /// A job is trying.
    probing: bool,
}

impl UnreachableHandlers {
    /// How many jobs of a stage may start now.
    pub(super) fn may_start(&self, stage: &Name, now: Timestamp) -> usize {
        match lock(&self.0).get(stage) {
            None => usize::MAX,
            Some(outage) => usize::from(!outage.probing && now >= outage.known.next_try_at),
        }
    }

    /// Whether nothing is known against its handler.
    pub(super) fn is_reachable(&self, stage: &Name) -> bool {
        !lock(&self.0).contains_key(stage)
    }

    /// A job of a stage starts. While its handler cannot be reached, no other does until this one has ended.
    pub(super) fn started(&self, stage: &Name) -> Option<Probe> {
        lock(&self.0).get_mut(stage)?.probing = true;
        Some(Probe { outages: self.clone(), stage: stage.clone() })
    }

    /// A call that began at `begun` could not reach its handler. Says so once.
    pub(super) fn failed(&self, stage: &Name, error: &str, begun: Timestamp, now: Timestamp) {
        let mut outages = lock(&self.0);
        match outages.get_mut(stage) {
            None => {
                tracing::warn!(stage = %stage.as_str(), error, "the stage waits, and no try is used: its handler is tried again");
                let known =
                    HandlerOutage { since: now, next_try_at: now.plus(PAUSE_MIN), error: error.to_owned() };
                outages.insert(stage.clone(), Outage { known, pause: PAUSE_MIN, probing: false });
            }
            Some(outage) if begun > outage.known.since => {
                outage.pause = outage.pause.times(2).min(PAUSE_MAX);
                outage.known.next_try_at = now.plus(outage.pause);
                error.clone_into(&mut outage.known.error);
            }
            // It began before the outage was known: there is nothing new in that.
            Some(_) => {}
        }
    }

    /// The handler answered a call that began then.
    pub(super) fn answered(&self, stage: &Name, begun: Timestamp, now: Timestamp) {
        let mut outages = lock(&self.0);
        if outages.get(stage).is_some_and(|outage| begun > outage.known.since)
            && let Some(outage) = outages.remove(stage)
        {
            let lasted = now.since(outage.known.since);
            tracing::info!(stage = %stage.as_str(), %lasted, "the handler can be reached again");
        }
    }

    /// All of them now.
    pub(super) fn known(&self) -> BTreeMap<Name, HandlerOutage> {
        lock(&self.0).iter().map(|(stage, outage)| (stage.clone(), outage.known.clone())).collect()
    }
}

/// A job that tries whether a handler is back. Dropped when it has ended, however that was.
pub(super) struct Probe {
    outages: UnreachableHandlers,
    stage: Name,
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(outage) = lock(&self.outages.0).get_mut(&self.stage) {
            outage.probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn at(seconds: u64) -> Timestamp {
        NOW.plus(Span::from_secs(seconds))
    }

    #[test]
    fn one_job_at_a_time_tries_with_pauses_that_double() {
        let (outages, stage) = (UnreachableHandlers::default(), Name::new("a").unwrap());
        assert!(outages.started(&stage).is_none(), "a handler that can be reached needs no probe");
        // Both began before the outage.
        outages.failed(&stage, "refused", NOW, NOW);
        outages.failed(&stage, "refused", NOW, NOW);
        let (mut now, mut pauses) = (NOW, Vec::new());
        for _ in 0..7 {
            let next = outages.known()[&stage].next_try_at;
            pauses.push(next.since(now).as_micros() / 1_000_000);
            assert_eq!(outages.may_start(&stage, next.minus(Span::from_millis(1))), 0);
            assert_eq!(outages.may_start(&stage, next), 1);
            let probe = outages.started(&stage);
            assert_eq!(outages.may_start(&stage, next), 0, "another one tries");
            outages.failed(&stage, "refused", next, next);
            drop(probe);
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(outages.known()[&stage].since, NOW);
    }

    #[test]
    fn answer_of_a_later_call_ends_the_outage() {
        let (outages, stage) = (UnreachableHandlers::default(), Name::new("a").unwrap());
        outages.failed(&stage, "refused", at(5), at(5));
        outages.answered(&stage, at(3), at(6));
        assert_eq!(outages.known().len(), 1, "that call began before");
        drop(outages.started(&stage));
        assert_eq!(outages.may_start(&stage, at(6)), 1, "a job that ended without an answer says nothing");
        outages.answered(&stage, at(6), at(7));
        assert_eq!((outages.known().len(), outages.may_start(&stage, at(7))), (0, usize::MAX));
    }
}
