//! Decisions without the store, as the policy's `when_store_fails` says.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use tollway_core::bounds::AMOUNT_MAX;
use tollway_core::{
    Action, Answer, Booking, Charge, Clock, Cost, Decision, Denial, Fault, Feedback, Learned, Operation,
    Outcome, Part, PermitId, Policy, RateChange, Span, Store, StoreError, TakeOutcome, Terms, Timestamp,
    WhenStoreFails,
};
use tollway_memory::MemoryStore;

use crate::outage::known_usage::{KnownUsage, StoreReading};
use crate::outage::local_share::{Limiters, Share, local_policy};
use crate::outage::owed::{Debts, Owed};
use crate::take::bound_policy::next_permit;

/// The most accounts that the local meters hold, and of which the usage in the store is known.
pub(crate) const LOCAL_ACCOUNTS: usize = 10_000;

/// Local meters, for policies that continue with a share of their limits.
pub(crate) struct Fallback {
    clock: Arc<dyn Clock>,
    /// Shared with the task that reads settings.
    pub(crate) limiters: Limiters,
    local: MemoryStore,
    /// What the store last said is left. Locked before `debts` where both are.
    known: KnownUsage,
    /// What was granted locally and is not yet debited in the store.
    debts: Mutex<Debts>,
    /// Whether there are debts, readable without the lock.
    owing: AtomicBool,
    /// Whether the store could not be told of a hold.
    holding: AtomicBool,
    /// Whether a task is about to settle the debts.
    settling: AtomicBool,
    /// Whether the end of the limiter has waited for the store in vain.
    pub(crate) given_up: AtomicBool,
}

impl Fallback {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            local: MemoryStore::with_capacity(LOCAL_ACCOUNTS, Arc::clone(&clock)),
            clock,
            limiters: Limiters::default(),
            known: KnownUsage::new(LOCAL_ACCOUNTS),
            debts: Mutex::default(),
            owing: AtomicBool::new(false),
            holding: AtomicBool::new(false),
            settling: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
        }
    }

    /// Learns what a decision of the store says is left, for policies that are decided by it without the store.
    pub(crate) fn learn(&self, charges: &[Charge], decision: &Decision, now: Timestamp) {
        let (mut known, limiters) = (self.known.lock(), self.limiters.known());
        for (index, charge) in charges.iter().enumerate().filter(|(_, charge)| decides_by_known_usage(charge))
        {
            let owed = if self.owes() { self.granted_to(charge) } else { None };
            let (readings, decided_at) = (decision.readings_of(index), decision.now);
            let share = Share::of_known(&charge.policy, limiters);
            let reading = StoreReading { charge, readings, decided_at, owed: owed.as_ref(), share };
            self.known.learn(&mut known, &reading, now);
        }
    }

    /// What was granted to the charge's account and is not yet debited in the store.
    fn granted_to(&self, charge: &Charge) -> Option<Cost> {
        let debts = self.lock();
        let owed: SmallVec<[&Owed; 2]> = debts.of(&charge.key()).collect();
        let amounts = |unit: usize| {
            let known = owed.iter().filter(|owed| owed.policy.units() == charge.policy.units());
            known.fold(0, |sum: u64, owed| sum.saturating_add(owed.granted.of(unit)).min(AMOUNT_MAX))
        };
        (!owed.is_empty()).then(|| cost_of(&charge.policy, amounts))
    }

    /// Decides without the store, in the strictest mode among the take's policies.
    pub(crate) fn decide(
        &self,
        charges: &[Charge],
        terms: Terms,
        error: StoreError,
        store: &dyn Store,
        now: Timestamp,
    ) -> FallbackOutcome {
        // A caller error stays an error wherever the take is decided.
        if error.fault == Fault::Caller {
            return FallbackOutcome::Failed(error);
        }
        let mode = mode_of(charges);
        tracing::debug!(%error, ?mode, "the store did not decide");
        match mode {
            WhenStoreFails::Open => {
                if let Some(denial) = self.held(charges) {
                    let decision = Decision::new(now, TakeOutcome::Denied(denial));
                    return FallbackOutcome::Decided(Decision { degraded: true, ..decision });
                }
                let decision = self.decide_openly(charges, terms.permit, now);
                FallbackOutcome::Decided(Decision { degraded: true, ..decision })
            }
            WhenStoreFails::Closed => FallbackOutcome::Failed(error),
            WhenStoreFails::Local => self.decide_locally(charges, terms, error, store, now),
        }
    }

    /// Grants all but what this process knows to be used up: else a caller that makes the store fail has no limit.
    fn decide_openly(&self, charges: &[Charge], permit: PermitId, now: Timestamp) -> Decision {
        // Held until the grant is counted, so that two takes do not get the same units.
        let mut known = self.known.lock();
        if let Some(denial) = known.denial(charges, self.limiters.known(), now) {
            return Decision::new(now, TakeOutcome::Denied(denial));
        }
        charges.iter().filter(|charge| !charge.policy.shadow()).for_each(|charge| known.spend(charge));
        Decision::granted_now(permit, now)
    }

    /// Grants what fits both into the share of the limits and into the share of what the store said is left of them.
    fn decide_locally(
        &self,
        charges: &[Charge],
        terms: Terms,
        error: StoreError,
        store: &dyn Store,
        now: Timestamp,
    ) -> FallbackOutcome {
        // Held until the grant is counted, so that two takes do not get the same units.
        let mut known = self.known.lock();
        if let Some(denial) = known.denial(charges, self.limiters.known(), now) {
            let decision = Decision::new(now, TakeOutcome::Denied(denial));
            return FallbackOutcome::Decided(Decision { degraded: true, ..decision });
        }
        match self.apply(charges, Action::Take(terms)) {
            Some(Outcome::Decided(decision)) => {
                if decision.is_granted() {
                    for charge in charges.iter().filter(|charge| !charge.policy.shadow()) {
                        known.spend(charge);
                        self.note_granted(charge, store.part_of(charge));
                    }
                }
                FallbackOutcome::Decided(Decision { degraded: true, ..decision })
            }
            _ => FallbackOutcome::Failed(error),
        }
    }

    fn note_granted(&self, charge: &Charge, part: Part) {
        if self.lock().note_granted(charge, part) {
            self.given_up.store(false, Ordering::Release);
            self.owing.store(true, Ordering::Release);
        }
    }

    /// Whether the store is owed anything.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        self.owing.load(Ordering::Acquire)
    }

    /// The parts of the store under whose outages there are debts.
    pub(crate) fn parts_owed(&self) -> Vec<Part> {
        self.lock().parts()
    }

    /// The part under whose outage this account has debts.
    pub(crate) fn part_owed(&self, charge: &Charge) -> Option<Part> {
        if !self.owes() {
            return None;
        }
        self.lock().of(&charge.key()).next().map(|owed| owed.part.clone())
    }

    /// True for one task at a time, until it calls [`Fallback::end_settling`].
    pub(crate) fn begin_settling(&self) -> bool {
        !self.settling.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_settling(&self) {
        self.settling.store(false, Ordering::Release);
    }

    /// The debits for accounts that were on this part: what was granted without the store and still counts. A bucket owes at most
    /// one burst, the largest debt it accepts. A settlement whose answer is missing comes before new debits of its account.
    pub(crate) fn owed(&self, part: &Part) -> Vec<Owed> {
        let (sent, granted) = self.lock().of_part(part);
        let (mut owed, over): (Vec<Owed>, Vec<Owed>) = granted
            .into_iter()
            .map(|owed| self.still_counting(owed))
            .partition(|owed| owed.spent.amounts().iter().any(|amount| *amount > 0));
        over.iter().for_each(|owed| self.settled(owed));
        owed.extend(sent);
        owed
    }

    fn lock(&self) -> MutexGuard<'_, Debts> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
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
        let Some(policy) = local_policy(&owed.policy, self.limiters.known()) else { return Vec::new() };
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

    /// Keeps a debt with the booking under which it is about to be settled. Until the answer is known, the same
    /// settlement is sent again, which counts once.
    pub(crate) fn settling_under(&self, owed: &Owed, booking: Booking) {
        self.lock().settling_under(owed, booking);
    }

    /// Removes what the store was debited; grants made meanwhile stay owed. The local meters keep their usage, so a store
    /// that fails again does not reset a fixed share.
    pub(crate) fn settled(&self, debited: &Owed) {
        self.credit_locally(debited);
        let mut debts = self.lock();
        debts.settled(debited);
        self.owing.store(!debts.is_empty(), Ordering::Release);
    }

    /// Frees the local meters of what the store has counted, where the store's next answer gives a new share. Until that
    /// answer, what is known of the account keeps the share used up; an account of which nothing is known keeps its usage.
    fn credit_locally(&self, debited: &Owed) {
        let charge = Charge::new(Arc::clone(&debited.policy), debited.subject.clone());
        let now = self.clock.now();
        let renewed = Share::of_policy(&charge.policy, self.limiters.known()).is_renewed_by_answers();
        if !renewed || !self.known.lock().knows(&charge, now) {
            return;
        }
        let nothing = cost_of(&charge.policy, |_| 0);
        let booking = Booking { permit: next_permit(), granted_at: now, at: now, good_until: Timestamp::MAX };
        let settle = Action::Settle { booking, actual: [nothing].into(), remember: false };
        self.apply(&[charge.with_cost(debited.spent.clone())], settle);
    }

    /// Takes back [`Fallback::settled`]: the settlement was not applied.
    pub(crate) fn still_owed(&self, sent: Owed) {
        self.lock().still_owed(sent);
        self.owing.store(true, Ordering::Release);
    }

    /// Renews the slots that a permit holds in the local meters. False if they had expired.
    pub(crate) fn renew(&self, charges: &[Charge], permit: PermitId) -> bool {
        matches!(self.apply(charges, Action::Renew(permit)), Some(Outcome::Renewed(true)))
    }

    /// Frees the slots that a permit holds in the local meters.
    pub(crate) fn done(&self, charges: &[Charge], permit: PermitId) {
        self.apply(charges, Action::Done(permit));
    }

    /// A vendor's hold, which takes without the store obey.
    pub(crate) fn hold(&self, charges: &[Charge], hold: Span) {
        if hold > Span::ZERO {
            self.apply(charges, Action::Feedback(Feedback { hold, ..Feedback::default() }));
            self.holding.store(true, Ordering::Release);
        }
    }

    /// Whether these charges may be decided without the store.
    pub(crate) fn decides(&self, charges: &[Charge]) -> bool {
        mode_of(charges) != WhenStoreFails::Closed
    }

    /// The end of a vendor's hold that this process knows.
    pub(crate) fn held_until(&self, charges: &[Charge]) -> Option<Timestamp> {
        self.held(charges).map(|denial| denial.retry_at)
    }

    /// The hold on one of the charges, if there is one.
    fn held(&self, charges: &[Charge]) -> Option<Denial> {
        if !self.holding.load(Ordering::Acquire) {
            return None;
        }
        charges.iter().enumerate().find_map(|(index, charge)| {
            let read = Action::Feedback(Feedback::default());
            let Some(Outcome::Learned(learned)) = self.apply(std::slice::from_ref(charge), read) else {
                return None;
            };
            learned.held_until.map(|retry_at| Denial { retry_at, charge: index, limit: 0, held: true })
        })
    }

    /// What the store has learned about a vendor's rate: the share of it that applies without the store.
    pub(crate) fn learn_rate(&self, charges: &[Charge], learned: &Learned) {
        let Some(rate) = learned.rate.as_ref().filter(|rate| rate.version > 0) else { return };
        let read = self.apply(charges, Action::Feedback(Feedback::default()));
        let (Some(Outcome::Learned(Learned { rate: Some(known), .. })), Some(charge)) =
            (read, charges.first())
        else {
            return;
        };
        let share = Share::of_policy(&charge.policy, self.limiters.known()).of(rate.rate).max(1);
        if known.version > 0 && known.rate == share {
            return;
        }
        let (version, cut, left, controller) = (known.version, false, None, String::new());
        let change = RateChange { version, rate: share, burst: 1, cut, left, controller };
        self.apply(charges, Action::Feedback(Feedback { rate: Some(change), ..Feedback::default() }));
    }

    fn apply(&self, charges: &[Charge], action: Action) -> Option<Outcome> {
        let limiters = self.limiters.known();
        let local = |charge: &Charge| {
            let policy = local_policy(&charge.policy, limiters)?;
            Some(Charge { policy: Arc::new(policy), ..charge.clone() })
        };
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

/// The strictest mode among the policies of a take.
fn mode_of(charges: &[Charge]) -> WhenStoreFails {
    let enforced = charges.iter().filter(|charge| !charge.policy.shadow());
    enforced.map(|charge| charge.policy.when_store_fails()).max().unwrap_or(WhenStoreFails::Open)
}

/// Whether a decision on the charge without the store needs to know what the store last said.
pub(crate) fn decides_by_known_usage(charge: &Charge) -> bool {
    !charge.policy.shadow() && charge.policy.when_store_fails() != WhenStoreFails::Closed
}

/// A cost under this policy; `amount` gives the amount of each unit by index.
pub(crate) fn cost_of(policy: &Policy, amount: impl Fn(usize) -> u64) -> Cost {
    let amounts = policy.units().iter().enumerate().map(|(index, unit)| (unit.as_str(), amount(index)));
    // Cannot fail: the units are the policy's own and the amounts in bounds.
    policy.cost(amounts).unwrap_or_else(|_| policy.default_cost().clone())
}
