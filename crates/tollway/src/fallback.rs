//! Decisions without the store, as the policy's `when_store_fails` says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollway_core::bounds::AMOUNT_MAX;
use tollway_core::{
    AccountKey, Action, Answer, Charge, Clock, Cost, Decision, Fault, Limit, Operation, Outcome, PermitId,
    Policy, Store, StoreError, Subject, Terms, Timestamp, WhenStoreFails,
};
use tollway_memory::MemoryStore;

/// The most accounts that the local meters hold.
const LOCAL_ACCOUNTS: usize = 10_000;

/// Local meters, for policies that continue with a share of their limits.
pub(crate) struct Fallback {
    local: MemoryStore,
    /// What was granted locally and is not yet debited in the store; at most `LOCAL_ACCOUNTS` entries.
    granted: Mutex<HashMap<AccountKey, Owed>>,
    /// Whether `granted` has entries, readable without the lock.
    owing: AtomicBool,
    /// Whether a task is settling the debts.
    settling: AtomicBool,
}

/// What was granted to one account without the store.
#[derive(Clone)]
pub(crate) struct Owed {
    pub(crate) policy: Arc<Policy>,
    pub(crate) subject: Subject,
    /// The part that still counts and must be debited.
    pub(crate) spent: Cost,
    /// Everything that was granted.
    granted: Cost,
}

impl Fallback {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            local: MemoryStore::with_capacity(LOCAL_ACCOUNTS, clock),
            granted: Mutex::default(),
            owing: AtomicBool::new(false),
            settling: AtomicBool::new(false),
        }
    }

    /// Decides without the store, in the strictest mode among the take's policies.
    pub(crate) fn decide(
        &self,
        charges: &[Charge],
        terms: Terms,
        error: StoreError,
        now: Timestamp,
    ) -> FallbackOutcome {
        // A caller error stays an error wherever the take is decided.
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
        if granted.len() >= LOCAL_ACCOUNTS && !granted.contains_key(&key) {
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

    /// True for one task at a time, until it calls [`Fallback::end_settling`].
    pub(crate) fn begin_settling(&self) -> bool {
        !self.settling.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_settling(&self) {
        self.settling.store(false, Ordering::Release);
    }

    /// The debits for the store: what was granted without it and still counts. A bucket owes at most one burst, the
    /// largest debt it accepts.
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

    /// The local usage, one amount per limit.
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

    /// Removes what the store was debited; grants made meanwhile stay owed. The local meters keep their usage, so a store
    /// that fails again does not reset the local share.
    pub(crate) fn settled(&self, debited: &Owed) {
        let key = AccountKey { policy: debited.policy.name().clone(), subject: debited.subject.clone() };
        let mut all = self.lock();
        if let Some(owed) = all.get_mut(&key) {
            let policy = Arc::clone(&owed.policy);
            let left = |unit| owed.granted.of(unit).saturating_sub(debited.granted.of(unit));
            let left = cost_of(&policy, |unit| {
                if policy.units() == debited.policy.units() { left(unit) } else { owed.granted.of(unit) }
            });
            if left.amounts().iter().all(|amount| *amount == 0) {
                all.remove(&key);
            } else {
                owed.granted = left;
            }
        }
        self.owing.store(!all.is_empty(), Ordering::Release);
    }

    /// Renews the slots that a permit holds in the local meters. False if they had expired.
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

/// The outcome of deciding without the store.
pub(crate) enum FallbackOutcome {
    Decided(Decision),
    Failed(StoreError),
}

/// The policy with its local share of every limit and burst, rounded down, at least 1.
fn share_of(policy: &Policy) -> Option<Policy> {
    let share = |amount: u64| policy.local_share().of(amount);
    let share_of_limit =
        |limit: &Limit| limit.with_amounts(share(limit.amount()), limit.burst().map(share)).ok();
    let limits: Option<Vec<Limit>> = policy.limits().iter().map(share_of_limit).collect();
    policy.with_limits(limits?).ok()
}

/// A cost under this policy; `amount` gives the amount of each unit by index.
pub(crate) fn cost_of(policy: &Policy, amount: impl Fn(usize) -> u64) -> Cost {
    let amounts = policy.units().iter().enumerate().map(|(index, unit)| (unit.as_str(), amount(index)));
    // Cannot fail: the units are the policy's own and the amounts in bounds.
    policy.cost(amounts).unwrap_or_else(|_| policy.default_cost().clone())
}
