//! A policy bound to the store it is enforced with, and the parts that all policies of a limiter share.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use tollway_core::{
    Answer, Clock, Cost, DecideNow, Fault, Grant, Name, Operation, Party, PermitId, Policy, Reading, Store,
    StoreError, StoreResult, Subject, Timestamp, Verb,
};
use tollway_memory::MemoryStore;

use crate::TakeError;
use crate::alarm::Alarms;
use crate::breaker::{Breaker, Led};
use crate::fallback::Fallback;
use crate::incident::Incidents;
use crate::journal::Journal;
use crate::lease::{Leases, give_back_all, sweep_in_background};
use crate::metrics::{Metrics, PolicyCounts};
use crate::probe::{first_wait, probe_in_background, settle_up_in_background};
use crate::queue::Queues;
use crate::timer::Timers;

/// What all policies of a limiter share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The store once more, if it is memory: then its time is this clock's, and most takes need no wrapping.
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
    /// Whether limits that are set in the store have no say.
    pub(crate) fixed_limits: bool,
    leases: Mutex<HashMap<Name, Arc<Leases>>>,
    /// Of the policies of the config, which are bounded.
    journals: Mutex<HashMap<Name, Arc<Journal>>>,
    pub(crate) incidents: Incidents,
    sweeping: Once,
    /// Ourselves, for what goes on in the background.
    this: Weak<Shared>,
}

impl Shared {
    /// All there is but the clock and the store starts empty.
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
            leases: Mutex::default(),
            journals: Mutex::default(),
            incidents: Incidents::default(),
            sweeping: Once::new(),
            this: Weak::clone(this),
            clock,
        })
    }

    /// The leases of a policy that has any. They stay when its limits change.
    fn leases_of(&self, policy: &Arc<Policy>) -> Option<Arc<Leases>> {
        if self.in_process() || !policy.leases() {
            return None;
        }
        let mut all = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(all.entry(policy.name().clone()).or_insert_with(|| Arc::new(Leases::new()))))
    }

    /// What was granted lately under a policy. It stays when the policy changes.
    fn journal_of(&self, policy: &Policy) -> Arc<Journal> {
        let mut journals = self.journals.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(journals.entry(policy.name().clone()).or_default())
    }

    pub(crate) fn all_leases(&self) -> Vec<Arc<Leases>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Somebody is about to lease: from now on what is left of leases goes back.
    pub(crate) fn may_lease(&self) {
        self.sweeping.call_once(|| {
            if let Some(shared) = self.this.upgrade() {
                sweep_in_background(&shared);
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

impl Drop for Shared {
    fn drop(&mut self) {
        give_back_all(self, &self.all_leases());
    }
}

/// A policy with what it takes to enforce it.
///
/// Every handle has one of its own: threads that each hold a handle touch no counter in common.
pub(crate) struct Bound {
    pub(crate) shared: Arc<Shared>,
    pub(crate) policy: Arc<Policy>,
    /// Which configuration it comes from.
    pub(crate) generation: u64,
    /// Units taken ahead, if the policy wants that and the store is not in this process.
    pub(crate) leases: Option<Arc<Leases>>,
    /// What happens under it is counted here, if anything is.
    pub(crate) counts: Option<Arc<PolicyCounts>>,
    /// What was granted lately; not kept of policies that callers make.
    pub(crate) journal: Option<Arc<Journal>>,
}

impl Bound {
    pub(crate) fn new(shared: Arc<Shared>, policy: Arc<Policy>, generation: u64) -> Self {
        let leases = shared.leases_of(&policy);
        let counts = shared.metrics.as_ref().map(|metrics| metrics.of(&policy));
        let journal = Some(shared.journal_of(&policy));
        Self { shared, policy, generation, leases, counts, journal }
    }

    /// One whose policy is the caller's own.
    pub(crate) fn of_caller(
        shared: Arc<Shared>,
        policy: Arc<Policy>,
        generation: u64,
        counts: Option<Arc<PolicyCounts>>,
    ) -> Self {
        let leases = shared.leases_of(&policy);
        Self { shared, policy, generation, leases, counts, journal: None }
    }

    /// The same policy, with a reference count of its own.
    pub(crate) fn apart(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            policy: Arc::clone(&self.policy),
            generation: self.generation,
            leases: self.leases.clone(),
            counts: self.counts.clone(),
            journal: self.journal.clone(),
        }
    }

    /// The short way to a decision: in memory or from a lease, no slots to hold. Nothing has happened otherwise.
    #[inline(always)]
    pub(crate) fn decide_now(&self, subject: &str, cost: Option<&Cost>) -> Option<DecideNow> {
        let policy = &*self.policy;
        let cost = cost.unwrap_or(policy.default_cost());
        let decided = match &self.shared.memory {
            Some(memory) => memory.decide_now(policy, subject, cost),
            None => self.spend_lease(subject, cost),
        };
        self.count(decided.as_ref(), subject, cost);
        decided
    }

    /// The same, where the store can also tell at once what every limit shows afterwards: in memory.
    pub(crate) fn decide_and_read(
        &self,
        subject: &str,
        cost: &Cost,
        see: impl FnMut(Reading),
    ) -> Option<DecideNow> {
        let decided = self.shared.memory.as_ref()?.decide_and_read(&self.policy, subject, cost, see);
        self.count(decided.as_ref(), subject, cost);
        decided
    }

    #[inline(always)]
    fn count(&self, decided: Option<&DecideNow>, subject: &str, cost: &Cost) {
        if let (Some(counts), Some(decided)) = (&self.counts, decided) {
            match decided {
                DecideNow::Granted(_) => counts.granted(subject, cost),
                DecideNow::Denied(denied) => counts.denied(denied.limit),
            }
        }
    }

    fn spend_lease(&self, subject: &str, cost: &Cost) -> Option<DecideNow> {
        let leases = self.leases.as_ref()?;
        leases.spend(&self.policy, subject, cost, self.shared.clock.now()).map(DecideNow::Granted)
    }
}

/// A policy that a take names: lent by a handle, or its own.
pub(crate) enum BoundRef<'a> {
    Lent(&'a Arc<Bound>),
    Own(Arc<Bound>),
}

impl BoundRef<'_> {
    pub(crate) fn to_arc(&self) -> Arc<Bound> {
        match self {
            Self::Lent(bound) => Arc::clone(bound),
            Self::Own(bound) => Arc::clone(bound),
        }
    }
}

impl std::ops::Deref for BoundRef<'_> {
    type Target = Bound;

    fn deref(&self) -> &Bound {
        match self {
            Self::Lent(bound) => bound,
            Self::Own(bound) => bound,
        }
    }
}

/// Draws a permit id: 64 random bits of this thread and a count, so that no two threads or processes draw the same.
#[inline]
pub(crate) fn next_permit() -> PermitId {
    thread_local! {
        // The standard library's hasher is seeded by the operating system.
        static IDS: (u64, Cell<u64>) = (RandomState::new().hash_one(0), Cell::new(0));
    }
    IDS.with(|(random, next)| {
        let count = next.get();
        next.set(count.wrapping_add(1));
        PermitId((u128::from(*random) << 64) | u128::from(count))
    })
}

/// One policy of a take, with its subject and cost: what a permit goes on holding.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) bound: Arc<Bound>,
    pub(crate) subject: Subject,
    /// What it takes; none named: the policy's default.
    pub(crate) cost: Option<Cost>,
}

/// The asks of one take: at least one, and nearly always just that.
#[derive(Clone)]
pub(crate) enum Asks {
    One(Ask),
    Many(Vec<Ask>),
}

impl Asks {
    pub(crate) fn new(first: Ask, more: Vec<Ask>) -> Self {
        if more.is_empty() {
            Self::One(first)
        } else {
            Self::Many(std::iter::once(first).chain(more).collect())
        }
    }

    #[inline]
    pub(crate) fn first(&self) -> &Ask {
        match self {
            Self::One(ask) => ask,
            Self::Many(asks) => &asks[0],
        }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.first().bound.shared
    }

    /// Counts what somebody should look at: shadows that would have denied, and a meter that holds more than its limit.
    pub(crate) fn count_alarms(&self, grant: &Grant) {
        if grant.over {
            let policy = self.first().bound.policy.name();
            tracing::error!(%policy, permit = %grant.permit, "a meter holds more than its limit (I1)");
            self.shared().metrics.iter().for_each(|metrics| {
                metrics.never_over.fetch_add(1, Ordering::Relaxed);
            });
        }
        if grant.would_deny != 0 {
            let denied = |index: usize| u32::try_from(index).ok().and_then(|bit| 1u16.checked_shl(bit));
            let shadows = self.iter().enumerate();
            let shadows = shadows.filter(|(index, _)| grant.would_deny & denied(*index).unwrap_or(0) != 0);
            shadows.filter_map(|(_, ask)| ask.bound.counts.as_ref()).for_each(|counts| counts.would_deny());
        }
    }

    /// Forgets the shadows that would have denied: nothing was taken from them, so nothing is owed to them. If those are
    /// all there is, says so and leaves them.
    #[cold]
    pub(crate) fn forget_denied_shadows(&mut self, would_deny: u16) -> bool {
        let denied = |index: usize| u32::try_from(index).ok().and_then(|bit| 1u16.checked_shl(bit));
        let kept = self.iter().enumerate().filter(|(index, _)| would_deny & denied(*index).unwrap_or(0) == 0);
        let kept: Vec<Ask> = kept.map(|(_, ask)| ask.clone()).collect();
        if kept.is_empty() {
            return true;
        }
        *self = Self::Many(kept);
        false
    }

    /// Sends one operation on the lines of all of them to the store, unless that is left alone.
    pub(crate) fn send(&self, verb: Verb<'_>) -> Answer {
        let shared = self.shared();
        if shared.in_process() {
            return self.apply(verb);
        }
        if matches!(verb, Verb::Reset) {
            self.iter().for_each(Ask::end_lease);
        }
        match shared.breaker.refuses() {
            Some(error) => Answer::now(Err(error)),
            None => noted(shared, self.apply(verb)),
        }
    }

    fn apply(&self, verb: Verb<'_>) -> Answer {
        let store = &self.shared().store;
        match self {
            Self::One(ask) => store.apply(&[Operation { parties: &[ask.party()], verb }]),
            Self::Many(asks) => {
                let parties: Vec<Party<'_>> = asks.iter().map(Ask::party).collect();
                store.apply(&[Operation { parties: &parties, verb }])
            }
        }
    }
}

/// Takes note of how the store answers; one that fails again and again is probed until it answers.
fn noted(shared: &Arc<Shared>, answer: Answer) -> Answer {
    match answer {
        Answer::Now(Some(result)) => {
            note(shared, &result);
            Answer::now(result)
        }
        later => {
            let shared = Arc::clone(shared);
            Answer::Later(Box::pin(async move {
                let result = later.await;
                note(&shared, &result);
                result
            }))
        }
    }
}

fn note(shared: &Arc<Shared>, result: &StoreResult) {
    let now = shared.clock.now();
    shared.note_throttling(result.as_ref().err(), now);
    match shared.breaker.note(result, now) {
        Led::ToProbing => probe_in_background(shared, first_wait(result)),
        // A failure here and there opens nothing, and leaves something owed all the same.
        Led::Nowhere if result.is_ok() && shared.fallback.owes() => settle_up_in_background(shared),
        Led::Nowhere => {}
    }
}

impl std::ops::DerefMut for Asks {
    fn deref_mut(&mut self) -> &mut [Ask] {
        match self {
            Self::One(ask) => std::slice::from_mut(ask),
            Self::Many(asks) => asks,
        }
    }
}

impl std::ops::Deref for Asks {
    type Target = [Ask];

    #[inline]
    fn deref(&self) -> &[Ask] {
        match self {
            Self::One(ask) => std::slice::from_ref(ask),
            Self::Many(asks) => asks,
        }
    }
}

impl Ask {
    #[inline(always)]
    pub(crate) fn new(bound: Arc<Bound>) -> Self {
        Self { bound, subject: Subject::SHARED, cost: None }
    }

    #[inline]
    pub(crate) fn cost(&self) -> &Cost {
        self.cost.as_ref().unwrap_or(self.bound.policy.default_cost())
    }

    /// Its meters are about to be new, and what is left of a lease from before with them.
    fn end_lease(&self) {
        if let Some(leases) = &self.bound.leases {
            drop(leases.end(self.subject.as_str()));
        }
    }

    #[inline]
    pub(crate) fn party(&self) -> Party<'_> {
        Party { policy: &self.bound.policy, subject: &self.subject, cost: self.cost() }
    }
}
