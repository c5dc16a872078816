//! What a policy does while its store does not decide.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollway_core::bounds::AMOUNT_MAX;
use tollway_core::{
    AccountKey, Action, Answer, Charge, Clock, Cost, Decision, Fault, Limit, Operation, Outcome, PermitId,
    Policy, Store, StoreError, Subject, Terms, Timestamp, WhenStoreFails,
};
use tollway_memory::MemoryStore;

/// How many lines the local meters may have.
const LOCAL_LINES: usize = 10_000;

/// Local meters, for policies that go on with a share of their limits.
pub(crate) struct Fallback {
    local: MemoryStore,
    /// What was granted by them since the store was last told, by line; no more of them than local lines.
    granted: Mutex<HashMap<AccountKey, Owed>>,
    /// Whether there is anything in it, for whoever only wants to know that.
    owing: AtomicBool,
    /// Whether somebody is telling the store already.
    settling: AtomicBool,
}

/// What was granted to one line without the store.
#[derive(Clone)]
pub(crate) struct Owed {
    pub(crate) policy: Arc<Policy>,
    pub(crate) subject: Subject,
    /// What still counts of it, and so is to be debited.
    pub(crate) spent: Cost,
    /// All that was granted.
    granted: Cost,
}

impl Fallback {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            local: MemoryStore::with_capacity(LOCAL_LINES, clock),
            granted: Mutex::default(),
            owing: AtomicBool::new(false),
            settling: AtomicBool::new(false),
        }
    }

    /// Decides in the store's place, by the strictest policy of the take.
    pub(crate) fn decide(
        &self,
        charges: &[Charge],
        terms: Terms,
        error: StoreError,
        now: Timestamp,
    ) -> FallbackOutcome {
        // A caller error says nothing about the store, and deciding elsewhere would not make it right.
        if error.fault == Fault::Caller {
            return FallbackOutcome::Failed(error);
        }
        let enforced = charges.iter().filter(|charge| !charge.policy.shadow());
        let mode =
            enforced.map(|charge| charge.policy.when_store_fails()).max().unwrap_or(WhenStoreFails::Open);
        tracing::debug!(%error, ?mode, "the store did not decide");
        match mode {
            WhenStoreFails::Open => {
                let decision = Decision::granted_now(terms.permit, now);
                FallbackOutcome::Decided(Decision { degraded: true, ..decision })
            }
            WhenStoreFails::Closed => FallbackOutcome::Failed(error),
            WhenStoreFails::Local => self.decide_locally(charges, terms, error),
        }
    }

    fn decide_locally(&self, charges: &[Charge], terms: Terms, error: StoreError) -> FallbackOutcome {
        match self.apply(charges, Action::Take(terms)) {
            Some(Outcome::Decided(decision)) => {
                if decision.is_granted() {
                    let enforced = charges.iter().filter(|charge| !charge.policy.shadow());
                    enforced.for_each(|charge| self.note_granted(charge));
                }
                FallbackOutcome::Decided(Decision { degraded: true, ..decision })
            }
            _ => FallbackOutcome::Failed(error),
        }
    }

    fn note_granted(&self, charge: &Charge) {
        let policy = &charge.policy;
        let key = charge.key();
        let mut granted = self.lock();
        if granted.len() >= LOCAL_LINES && !granted.contains_key(&key) {
            return;
        }
        let owed = granted.entry(key).or_insert_with(|| Owed {
            policy: Arc::clone(policy),
            subject: charge.subject.clone(),
            spent: cost_of(policy, |_| 0),
            granted: cost_of(policy, |_| 0),
        });
        let same_units = owed.policy.units() == policy.units();
        let before = if same_units { owed.granted.clone() } else { cost_of(policy, |_| 0) };
        owed.policy = Arc::clone(policy);
        owed.granted =
            cost_of(policy, |unit| before.of(unit).saturating_add(charge.cost().of(unit)).min(AMOUNT_MAX));
        self.owing.store(true, Ordering::Release);
    }

    /// Whether the store is owed anything.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        self.owing.load(Ordering::Acquire)
    }

    /// Whether nobody else tells the store; until [`Fallback::end_settling`] then, nobody else does.
    pub(crate) fn begin_settling(&self) -> bool {
        !self.settling.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_settling(&self) {
        self.settling.store(false, Ordering::Release);
    }

    /// What the store must be told when it is back: of what was granted without it, as much as still counts, and of a
    /// bucket at most one burst, which is the most it takes as debt.
    pub(crate) fn owed(&self) -> Vec<Owed> {
        let granted: Vec<Owed> = self.lock().values().cloned().collect();
        let (owed, over): (Vec<Owed>, Vec<Owed>) = granted
            .into_iter()
            .map(|owed| self.still_counting(owed))
            .partition(|owed| owed.spent.amounts().iter().any(|amount| *amount > 0));
        over.iter().for_each(|owed| self.settled(owed));
        owed
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountKey, Owed>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn still_counting(&self, owed: Owed) -> Owed {
        let used = self.used(&owed);
        let limits = || owed.policy.limits().iter().zip(&used);
        let spent = cost_of(&owed.policy, |unit| {
            let name = owed.policy.units().get(unit);
            let of_unit = || limits().filter(|(limit, _)| Some(limit.unit()) == name);
            let counts = of_unit().map(|(_, used)| *used).max().unwrap_or(0);
            let bursts = of_unit().filter(|(limit, _)| limit.refills());
            let most = bursts.map(|(limit, _)| limit.capacity()).min().unwrap_or(AMOUNT_MAX);
            owed.granted.of(unit).min(counts).min(most)
        });
        Owed { spent, ..owed }
    }

    /// What the local meters show, one per limit.
    fn used(&self, owed: &Owed) -> Vec<u64> {
        let Some(policy) = share_of(&owed.policy) else { return Vec::new() };
        let charge = Charge::new(Arc::new(policy), owed.subject.clone());
        match self.local.apply(&[Operation::one(charge, Action::Peek)]) {
            Answer::Now(Some(Ok(mut outcomes))) => match outcomes.pop() {
                Some(Outcome::Peeked(charges)) => {
                    charges.iter().flat_map(|charge| &charge.readings).map(|reading| reading.used).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The store was told this much; what was granted meanwhile is still owed. The local meters go on counting: a store
    /// that fails again at once gives nothing anew.
    pub(crate) fn settled(&self, told: &Owed) {
        let key = AccountKey { policy: told.policy.name().clone(), subject: told.subject.clone() };
        let mut all = self.lock();
        if let Some(owed) = all.get_mut(&key) {
            let policy = Arc::clone(&owed.policy);
            let left = |unit| owed.granted.of(unit).saturating_sub(told.granted.of(unit));
            let left = cost_of(&policy, |unit| {
                if policy.units() == told.policy.units() { left(unit) } else { owed.granted.of(unit) }
            });
            if left.amounts().iter().all(|amount| *amount == 0) {
                all.remove(&key);
            } else {
                owed.granted = left;
            }
        }
        self.owing.store(!all.is_empty(), Ordering::Release);
    }

    /// Keeps the slots that a permit holds in the local meters; whether it still held them.
    pub(crate) fn renew(&self, charges: &[Charge], permit: PermitId) -> bool {
        matches!(self.apply(charges, Action::Renew(permit)), Some(Outcome::Renewed(true)))
    }

    /// Frees the slots that a permit holds in the local meters.
    pub(crate) fn done(&self, charges: &[Charge], permit: PermitId) {
        self.apply(charges, Action::Done(permit));
    }

    fn apply(&self, charges: &[Charge], action: Action) -> Option<Outcome> {
        let local =
            |charge: &Charge| Some(Charge { policy: Arc::new(share_of(&charge.policy)?), ..charge.clone() });
        let charges = charges.iter().map(local).collect::<Option<_>>()?;
        match self.local.apply(&[Operation { charges, action }]) {
            Answer::Now(Some(Ok(mut outcomes))) => outcomes.pop(),
            _ => None,
        }
    }
}

/// What came of deciding without the store.
pub(crate) enum FallbackOutcome {
    Decided(Decision),
    Failed(StoreError),
}

/// The policy with a share of every limit and burst, rounded down, at least 1.
fn share_of(policy: &Policy) -> Option<Policy> {
    let share = |amount: u64| policy.local_share().of(amount);
    let share_of_limit =
        |limit: &Limit| limit.with_amounts(share(limit.amount()), limit.burst().map(share)).ok();
    let limits: Option<Vec<Limit>> = policy.limits().iter().map(share_of_limit).collect();
    policy.with_limits(limits?).ok()
}

/// A cost under this policy, given for each unit by its index.
pub(crate) fn cost_of(policy: &Policy, amount: impl Fn(usize) -> u64) -> Cost {
    let amounts = policy.units().iter().enumerate().map(|(index, unit)| (unit.as_str(), amount(index)));
    // The units are the policy's own and the amounts in bounds, so this is a cost.
    policy.cost(amounts).unwrap_or_else(|_| policy.default_cost().clone())
}
