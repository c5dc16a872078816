//! What all policies of a limiter share.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, Weak};

use tollway_core::{Clock, Fault, Name, Policy, Store, StoreError, Timestamp};
use tollway_memory::MemoryStore;

use crate::TakeError;
use crate::alarm::Alarms;
use crate::fallback::Fallback;
use crate::incident::Incidents;
use crate::lease::{Leases, give_back_all, sweep_in_background};
use crate::metrics::Metrics;
use crate::outage::Breaker;
use crate::queue::Queues;
use crate::recent_grants::RecentGrants;
use crate::registry::Registry;
use crate::timer::Timers;

/// The store, the clock, and everything that policies of one limiter have in common.
pub(crate) struct LimiterState {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The store once more, if it is memory: then its time is this clock's, and most takes go the fast path.
    pub(crate) memory: Option<Arc<MemoryStore>>,
    pub(crate) queues: Queues,
    pub(crate) timers: Timers,
    pub(crate) fallback: Fallback,
    pub(crate) breaker: Breaker,
    pub(crate) alarms: Alarms,
    /// What is counted, if anything is.
    pub(crate) metrics: Option<Metrics>,
    /// Permits whose units could not be given back.
    pub(crate) permits_lost: AtomicU64,
    /// Whether limits that are set in the store are ignored.
    pub(crate) fixed_limits: bool,
    /// The policies in force, for takes that wait long enough to see them change.
    pub(crate) registry: OnceLock<Weak<Registry>>,
    leases: Mutex<HashMap<Name, Arc<Leases>>>,
    /// The policies of apis, whose recent grants are kept as evidence for incidents.
    api_policies: Mutex<HashSet<Name>>,
    recent_grants: Mutex<HashMap<Name, Arc<RecentGrants>>>,
    pub(crate) incidents: Incidents,
    sweeping: Once,
    /// A reference to itself, for background tasks.
    this: Weak<LimiterState>,
}

impl LimiterState {
    /// Everything but the clock and the store starts empty.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        memory: Option<Arc<MemoryStore>>,
        clock: Arc<dyn Clock>,
        fixed_limits: bool,
        metrics: Option<Metrics>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            store,
            memory,
            queues: Queues::default(),
            timers: Timers::default(),
            fallback: Fallback::new(Arc::clone(&clock)),
            breaker: Breaker::default(),
            alarms: Alarms::default(),
            metrics,
            permits_lost: AtomicU64::new(0),
            fixed_limits,
            registry: OnceLock::new(),
            leases: Mutex::default(),
            api_policies: Mutex::default(),
            recent_grants: Mutex::default(),
            incidents: Incidents::default(),
            sweeping: Once::new(),
            this: Weak::clone(this),
            clock,
        })
    }

    /// The leases of a policy that has any. They stay when its limits change.
    pub(crate) fn leases_of(&self, policy: &Policy) -> Option<Arc<Leases>> {
        if self.in_process() || !policy.leases() {
            return None;
        }
        let mut all = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(all.entry(policy.name().clone()).or_insert_with(|| Arc::new(Leases::new()))))
    }

    /// Names the policies of apis; in force for policies that are bound from now on.
    pub(crate) fn set_api_policies(&self, names: HashSet<Name>) {
        *self.api_policies.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// What was granted lately under a policy of an api. It stays when the policy changes.
    pub(crate) fn recent_grants_of(&self, policy: &Policy) -> Option<Arc<RecentGrants>> {
        let is_api = self.api_policies.lock().unwrap_or_else(PoisonError::into_inner).contains(policy.name());
        is_api.then(|| {
            let mut all = self.recent_grants.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(policy.name().clone()).or_default())
        })
    }

    pub(crate) fn all_leases(&self) -> Vec<Arc<Leases>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Starts the background sweep of leases, once, when the first lease is about to be taken.
    pub(crate) fn may_lease(&self) {
        self.sweeping.call_once(|| {
            if let Some(state) = self.this.upgrade() {
                sweep_in_background(&state);
            }
        });
    }

    /// Raises an alarm if this is throttling that lasts.
    pub(crate) fn note_throttling(&self, error: Option<&StoreError>, now: Timestamp) {
        if error.is_some_and(|error| error.fault == Fault::Throttled) {
            self.alarms.throttled(now);
        }
    }

    /// Whether the store's time is the limiter's own.
    pub(crate) fn in_process(&self) -> bool {
        self.memory.is_some()
    }

    /// Refuses to wait for a store on a thread of an async runtime; to be asked before anything is sent.
    pub(crate) fn may_block(&self) -> Result<(), TakeError> {
        let inside = !self.in_process() && tokio::runtime::Handle::try_current().is_ok();
        if inside { Err(TakeError::BlockingInAsync) } else { Ok(()) }
    }
}

impl Drop for LimiterState {
    fn drop(&mut self) {
        give_back_all(self, &self.all_leases());
    }
}
