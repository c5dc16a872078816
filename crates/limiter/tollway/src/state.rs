//! The state that all policies of a limiter share.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError, Weak};

use tollway_core::{Clock, Decision, Fault, Limit, Name, Policy, Store, StoreError, Timestamp};
use tollway_memory::MemoryStore;

use crate::TakeError;
use crate::alarm::Alarms;
use crate::config::Api;
use crate::incident::Incidents;
use crate::incident::recent_grants::RecentGrants;
use crate::lease::{Leases, give_back_all, sweep_in_background};
use crate::metrics::{AllApiFigures, Metrics};
use crate::outage::fallback::Fallback;
use crate::outage::parts::Outages;
use crate::policy::registry::Registry;
use crate::policy::settings::Activity;
use crate::take::queue::Queues;
use crate::take::subjects_max::AccountsMade;
use crate::take::timer::Timers;

/// The store, the clock, and everything else that the policies of one limiter share.
pub(crate) struct LimiterState {
    pub(crate) store: Arc<dyn Store>,
    /// It goes on evenly: callers wait by it.
    pub(crate) clock: Arc<dyn Clock>,
    /// The store's clock, if it can be read here: it jumps when the machine's date is set forward.
    store_clock: Option<Arc<dyn Clock>>,
    /// The same store if it is in memory. It then uses `clock`, and most takes use the fast path.
    pub(crate) memory: Option<Arc<MemoryStore>>,
    pub(crate) queues: Queues,
    pub(crate) timers: Timers,
    pub(crate) fallback: Fallback,
    pub(crate) outages: Outages,
    pub(crate) alarms: Alarms,
    /// Present if the limiter was built with metrics.
    pub(crate) metrics: Option<Metrics>,
    /// Permits whose units could not be returned.
    pub(crate) permits_lost: AtomicU64,
    /// Whether to ignore limits set in the store.
    pub(crate) fixed_limits: bool,
    /// Shared with the task that follows limits set in the store.
    pub(crate) activity: Arc<Activity>,
    /// The policies in force, for queued takes that wait across a reload.
    pub(crate) registry: OnceLock<Weak<Registry>>,
    leases: Mutex<HashMap<Name, Arc<Leases>>>,
    /// The policies of outbound apis; their recent grants are kept as evidence for incidents.
    api_policies: Mutex<HashSet<Name>>,
    /// The outbound apis, sorted by name.
    apis: Mutex<Arc<[Arc<Api>]>>,
    /// The apis that the program brought itself, which no reload takes away.
    own_apis: OnceLock<Vec<Arc<Api>>>,
    recent_grants: Mutex<HashMap<Name, Arc<RecentGrants>>>,
    /// Of the policies with `subjects_max`.
    accounts_made: Mutex<HashMap<Name, Arc<AccountsMade>>>,
    pub(crate) incidents: Incidents,
    pub(crate) api_figures: AllApiFigures,
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
        store_clock: Option<Arc<dyn Clock>>,
        fixed_limits: bool,
        metrics: Option<Metrics>,
        incidents: Incidents,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            store,
            memory,
            queues: Queues::default(),
            timers: Timers::default(),
            fallback: Fallback::new(Arc::clone(&clock)),
            outages: Outages::default(),
            alarms: Alarms::default(),
            metrics,
            permits_lost: AtomicU64::new(0),
            fixed_limits,
            activity: Arc::default(),
            registry: OnceLock::new(),
            leases: Mutex::default(),
            api_policies: Mutex::default(),
            apis: Mutex::new(Arc::from([])),
            own_apis: OnceLock::new(),
            recent_grants: Mutex::default(),
            accounts_made: Mutex::default(),
            incidents,
            api_figures: AllApiFigures::default(),
            sweeping: Once::new(),
            this: Weak::clone(this),
            clock,
            store_clock,
        })
    }

    /// The leases of a policy, if it leases. They survive a change of its limits.
    pub(crate) fn leases_of(&self, policy: &Policy) -> Option<Arc<Leases>> {
        if self.in_process() || !policy.leases() {
            return None;
        }
        let mut all = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(all.entry(policy.name().clone()).or_insert_with(|| Arc::new(Leases::new()))))
    }

    /// Sets the policies of outbound apis; applies to policies bound afterwards.
    pub(crate) fn set_api_policies(&self, names: HashSet<Name>) {
        *self.api_policies.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Sets the outbound apis, sorted by name.
    pub(crate) fn set_apis(&self, apis: &[Arc<Api>]) {
        *self.apis.lock().unwrap_or_else(PoisonError::into_inner) = Arc::from(apis);
    }

    pub(crate) fn set_own_apis(&self, apis: Vec<Arc<Api>>) {
        let _ = self.own_apis.set(apis);
    }

    pub(crate) fn own_apis(&self) -> &[Arc<Api>] {
        self.own_apis.get().map_or(&[], Vec::as_slice)
    }

    /// The outbound apis, sorted by name.
    pub(crate) fn apis(&self) -> Arc<[Arc<Api>]> {
        Arc::clone(&self.apis.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The recent grants under the policy of an api, which is named as one or has an adaptive limit. They survive a change of
    /// the policy.
    pub(crate) fn recent_grants_of(&self, policy: &Policy) -> Option<Arc<RecentGrants>> {
        let named = self.api_policies.lock().unwrap_or_else(PoisonError::into_inner).contains(policy.name());
        (named || policy.limits().iter().any(Limit::is_adaptive)).then(|| {
            let mut all = self.recent_grants.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(policy.name().clone()).or_default())
        })
    }

    /// The accounts made of a policy with `subjects_max`. They survive a change of the policy.
    pub(crate) fn accounts_made_of(&self, policy: &Policy) -> Option<Arc<AccountsMade>> {
        self.bounds_subjects_of(policy).then(|| {
            let mut all = self.accounts_made.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(policy.name().clone()).or_default())
        })
    }

    /// Whether the policy has `subjects_max`, and the store heeds it.
    pub(crate) fn bounds_subjects_of(&self, policy: &Policy) -> bool {
        policy.subjects_max().is_some() && self.store.heeds_new_accounts()
    }

    pub(crate) fn all_leases(&self) -> Vec<Arc<Leases>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Starts the background sweep of leases; called before the first lease is taken.
    pub(crate) fn start_lease_sweep(&self) {
        self.sweeping.call_once(|| {
            if let Some(state) = self.this.upgrade() {
                sweep_in_background(&state);
            }
        });
    }

    /// Feeds a throttling error to the alarms.
    pub(crate) fn note_throttling(&self, error: Option<&StoreError>, now: Timestamp) {
        if error.is_some_and(|error| error.fault == Fault::Throttled) {
            self.alarms.throttled(now);
        }
    }

    /// The clock by which permits and leases expire: a window has ended when the store says so, also if the date was set forward.
    pub(crate) fn expiry_clock(&self) -> &dyn Clock {
        self.store_clock.as_deref().unwrap_or(&*self.clock)
    }

    /// When a grant that was asked for at `sent_at` expires, by [`expiry_clock`](Self::expiry_clock). Times of a clock that
    /// cannot be read here are converted on the safe side.
    pub(crate) fn expiry(&self, decision: &Decision, good_until: Timestamp, sent_at: Timestamp) -> Timestamp {
        match good_until {
            Timestamp::MAX => Timestamp::MAX,
            good_until if self.store_clock.is_some() => good_until,
            good_until => sent_at.plus(good_until.since(decision.now)),
        }
    }

    /// Whether the store is in this process and uses the limiter's clock.
    pub(crate) fn in_process(&self) -> bool {
        self.memory.is_some()
    }

    /// Fails on a thread of an async runtime, where waiting for a store would block the runtime. Call it before sending.
    pub(crate) fn check_may_block(&self) -> Result<(), TakeError> {
        let inside = !self.in_process() && tokio::runtime::Handle::try_current().is_ok();
        if inside { Err(TakeError::BlockingInAsync) } else { Ok(()) }
    }
}

impl Drop for LimiterState {
    fn drop(&mut self) {
        give_back_all(self, &self.all_leases());
    }
}
