//! The outages of a store, one for each of its parts: a node that is away does not keep takes from the others.
//!
//! A part is kept from its first failure on, and forgotten when it works again or has no accounts any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::{Mutex as AsyncMutex, watch};
use tollway_core::{Charge, Part, StoreError, StoreResult, Timestamp};

use crate::outage::breaker::{Breaker, BreakerChange};
use crate::state::LimiterState;

/// The most parts that are kept. Failures of one more count as failures of the whole store.
const PARTS_MAX: usize = 1_024;

/// The health of the store, as the breakers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// When the first breaker opened that is open: since then decisions are made without the store, or without one of its nodes.
    pub degraded_since: Option<Timestamp>,
    /// The nodes that are away, if the store has several and others work: takes on their accounts alone are decided without it.
    pub nodes_away: Vec<NodeAway>,
    /// How many decisions were made without the store.
    pub degraded_decisions: u64,
    /// How often a breaker opened.
    pub fallbacks: u64,
    /// Why a breaker last opened.
    pub last_error: Option<String>,
    /// How many limiters share the store, as it last said; `None`: it does not count them. `local_share = "auto"` divides
    /// what is left by it.
    pub limiters: Option<std::num::NonZeroU32>,
}

/// A node of the store that is away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAway {
    /// `HOST:PORT` of a node of a Redis Cluster.
    pub name: String,
    /// When its breaker opened.
    pub since: Timestamp,
    /// Why.
    pub error: String,
}

/// One part of the store.
#[derive(Default)]
pub(crate) struct PartOutage {
    pub(crate) part: Part,
    pub(crate) breaker: Breaker,
    /// Held while its debts are debited, so that none is debited twice.
    pub(crate) debiting: AsyncMutex<()>,
}

/// All parts of the store.
#[derive(Default)]
pub(crate) struct Outages {
    whole: Arc<PartOutage>,
    /// The parts with a name that failed.
    named: RwLock<Vec<Arc<PartOutage>>>,
    /// Tells listeners that a breaker opened or closed.
    changes: watch::Sender<()>,
    fallbacks: AtomicU64,
    last_error: Mutex<Option<String>>,
    pub(crate) degraded_decisions: AtomicU64,
}

impl Outages {
    /// The error to answer with if one of these charges is on a part that is away; also one that has moved away from it, until
    /// the store is told what was granted without it.
    #[inline]
    pub(crate) fn error_if_away(&self, state: &LimiterState, charges: &[Charge]) -> Option<StoreError> {
        charges.iter().find_map(|charge| {
            let part = state.store.part_of(charge);
            self.error_of(&part).or_else(|| {
                let owed = state.fallback.part_owed(charge).filter(|owed| *owed != part)?;
                self.error_of(&owed)
            })
        })
    }

    #[inline]
    fn error_of(&self, part: &Part) -> Option<StoreError> {
        match part.name() {
            None => self.whole.breaker.error_if_open(part),
            Some(_) => self.known(part)?.breaker.error_if_open(part),
        }
    }

    /// Whether the breaker of this part is open.
    pub(crate) fn is_away(&self, part: &Part) -> bool {
        self.error_of(part).is_some()
    }

    fn known(&self, part: &Part) -> Option<Arc<PartOutage>> {
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        named.iter().find(|known| known.part == *part).cloned()
    }

    /// The state of a part, which is kept from now on.
    pub(crate) fn of(&self, part: &Part) -> Arc<PartOutage> {
        if part.name().is_none() {
            return Arc::clone(&self.whole);
        }
        if let Some(known) = self.known(part) {
            return known;
        }
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        if named.len() >= PARTS_MAX {
            named.retain(|known| is_used(known) || known.breaker.since().is_some());
        }
        if let Some(known) = named.iter().find(|known| known.part == *part) {
            return Arc::clone(known);
        }
        if named.len() >= PARTS_MAX {
            return Arc::clone(&self.whole);
        }
        let outage = Arc::new(PartOutage { part: part.clone(), ..PartOutage::default() });
        named.push(Arc::clone(&outage));
        outage
    }

    /// Feeds an answer to the breaker of its part. Returns that part if its breaker opened.
    pub(crate) fn note(&self, part: &Part, result: &StoreResult, now: Timestamp) -> Option<Arc<PartOutage>> {
        let outage = match (result, part.name()) {
            (Ok(_), Some(_)) => self.known(part)?,
            _ => self.of(part),
        };
        if outage.breaker.note(&outage.part, result, now) != BreakerChange::Opened {
            if result.is_ok() && outage.breaker.since().is_none() {
                self.forget(&outage);
            }
            return None;
        }
        let error = outage.breaker.last_error().unwrap_or_default();
        let error = outage.part.name().map_or(error.clone(), |name| format!("{name}: {error}"));
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.fallbacks.fetch_add(1, Ordering::Relaxed);
        self.changes.send_replace(());
        Some(outage)
    }

    /// Called when a probe succeeded and all debts of the part are settled. The part is forgotten, but for the only one.
    pub(crate) fn close(&self, outage: &Arc<PartOutage>) {
        outage.breaker.close(&outage.part);
        self.forget(outage);
        self.changes.send_replace(());
    }

    /// Forgets a part unless a task works with it: the list has one reference to it, the caller another.
    fn forget(&self, outage: &Arc<PartOutage>) {
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        named.retain(|known| !Arc::ptr_eq(known, outage) || Arc::strong_count(known) > 2);
    }

    pub(crate) fn status(&self) -> StoreStatus {
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        let away = |outage: &Arc<PartOutage>| {
            let (name, since) = (outage.part.name()?.to_owned(), outage.breaker.since()?);
            Some(NodeAway { name, since, error: outage.breaker.last_error().unwrap_or_default() })
        };
        let nodes_away: Vec<NodeAway> = named.iter().filter_map(away).collect();
        let since = nodes_away.iter().map(|node| node.since).chain(self.whole.breaker.since());
        StoreStatus {
            degraded_since: since.min(),
            nodes_away,
            degraded_decisions: self.degraded_decisions.load(Ordering::Relaxed),
            fallbacks: self.fallbacks.load(Ordering::Relaxed),
            last_error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            limiters: None,
        }
    }

    /// The status once a breaker has opened or closed since `seen`.
    pub(crate) async fn status_after(&self, seen: &StoreStatus) -> StoreStatus {
        let mut changes = self.changes.subscribe();
        loop {
            let status = self.status();
            let phases = |status: &StoreStatus| {
                let away: Vec<String> = status.nodes_away.iter().map(|node| node.name.clone()).collect();
                (status.fallbacks, status.degraded_since, away)
            };
            if phases(&status) != phases(seen) {
                return status;
            }
            // Cannot fail: the sender is this one's own.
            let _ = changes.changed().await;
        }
    }
}

/// Whether a task works with it.
fn is_used(outage: &Arc<PartOutage>) -> bool {
    Arc::strong_count(outage) > 1
}

#[cfg(test)]
mod tests {
    use tollway_core::{Fault, Retry};

    use super::*;

    fn failure(fault: Fault) -> StoreResult {
        Err(StoreError { fault, retry: Retry::Safe, message: "gone".to_owned() })
    }

    fn part(name: &str) -> Part {
        Part::named(Arc::from(name))
    }

    /// C7: a listener hears of an outage when the breaker opens, with the error that opened it.
    #[tokio::test]
    async fn a_listener_hears_why_the_breaker_opened() {
        let outages = Arc::new(Outages::default());
        let listener = Arc::clone(&outages);
        let heard = tokio::spawn(async move {
            let opened = listener.status_after(&StoreStatus::default()).await;
            (listener.status_after(&opened).await, opened)
        });
        tokio::task::yield_now().await;
        let opened = outages.note(&Part::WHOLE, &failure(Fault::Throttled), Timestamp::EPOCH);
        tokio::task::yield_now().await;
        outages.close(&opened.unwrap());
        let (closed, opened) = heard.await.unwrap();
        assert!(opened.last_error.is_some_and(|error| error.contains("gone")));
        assert_eq!((opened.degraded_since, closed.degraded_since), (Some(Timestamp::EPOCH), None));
        assert_eq!((opened.nodes_away.len(), closed.fallbacks), (0, 1));
    }

    /// G7: nodes fail one by one; each is named, and forgotten when it is back.
    #[test]
    fn nodes_fail_one_by_one() {
        let outages = Outages::default();
        let fail = |name, at| outages.note(&part(name), &failure(Fault::Network), Timestamp::from_secs(at));
        assert!([fail("b", 1), fail("a", 2), fail("a", 3), fail("b", 4)].iter().all(Option::is_none));
        let (a, b) = (fail("a", 5).unwrap(), fail("b", 6).unwrap());
        assert!(outages.note(&part("c"), &Ok(Default::default()), Timestamp::EPOCH).is_none());
        assert!(outages.is_away(&part("a")) && outages.is_away(&part("b")));
        assert!(!outages.is_away(&part("c")) && !outages.is_away(&Part::WHOLE));
        let status = outages.status();
        let names: Vec<&str> = status.nodes_away.iter().map(|node| &*node.name).collect();
        assert_eq!((names, status.degraded_since), (vec!["b", "a"], Some(Timestamp::from_secs(5))));
        assert!(status.last_error.is_some_and(|error| error.starts_with("b: ") && error.contains("gone")));
        outages.close(&a);
        assert!(!outages.is_away(&part("a")) && outages.is_away(&part("b")));
        outages.close(&b);
        let status = outages.status();
        assert_eq!((status.degraded_since, status.nodes_away, status.fallbacks), (None, vec![], 2));
        drop((a, b));
        assert!(outages.known(&part("a")).is_none());
    }

    /// A single failure is forgotten with the next answer.
    #[test]
    fn a_node_that_answers_is_forgotten() {
        let outages = Outages::default();
        for _ in 0..5 {
            assert!(outages.note(&part("a"), &failure(Fault::Network), Timestamp::EPOCH).is_none());
            assert!(outages.note(&part("a"), &Ok(Default::default()), Timestamp::EPOCH).is_none());
            assert!(outages.known(&part("a")).is_none());
        }
    }
}
