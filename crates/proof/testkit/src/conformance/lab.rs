//! The fixture of a scenario: a store, a clock, its own policies, and the model to compare with.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use tollway_core::{
    Action, Begun, Booking, CallId, Charge, Charges, Cost, Decision, Denial, Feedback, Learned, Operation,
    Outcome, PermitId, Policy, Reading, Refusal, Settled, Span, Store, Subject, Terms, Timestamp,
};

use super::profile::Placing;
use crate::{Model, Rig, wait_for};

/// A Thursday at midnight, the first of January 2026: the beginning of a second, a minute, an hour, a day, a month.
const START: Timestamp = Timestamp::from_secs(1_767_225_600);

/// The fixture of one scenario.
pub(super) struct Lab<'r> {
    rig: &'r dyn Rig,
    store: Arc<dyn Store>,
    placing: Placing,
    now: Cell<Timestamp>,
    model: RefCell<Model>,
}

impl<'r> Lab<'r> {
    pub(super) fn new(rig: &'r dyn Rig, placing: Placing) -> Self {
        let (store, now, model) = (rig.store(), Cell::new(START), RefCell::default());
        let lab = Self { rig, store, placing, now, model };
        lab.set(START);
        lab
    }

    /// A policy with a unique name.
    pub(super) fn policy<const N: usize>(&self, limits: [&str; N]) -> Policy {
        self.placing.place(Policy::new(&fresh_name(), limits).expect("the scenario's limits are right"))
    }

    /// Sets the clock to this many seconds after the start.
    pub(super) fn at(&self, secs: u64) {
        self.set(at(secs));
    }

    pub(super) fn set(&self, now: Timestamp) {
        self.now.set(now);
        self.rig.set_time(now);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now.get()
    }

    /// Applies the operation to the store, and compares the answer with the model's.
    pub(super) fn apply(&self, operation: &Operation) -> Outcome {
        let profile = self.rig.profile();
        let unclear = self.model.borrow().unclear(operation, self.now()) || profile.leaves_open(operation);
        let expected = self.model.borrow_mut().apply(operation, self.now());
        let answer = self.store.apply(std::slice::from_ref(operation));
        let mut outcomes = wait_for(answer).expect("the store answers");
        assert_eq!(outcomes.len(), 1, "one outcome for one operation");
        let (mut outcome, expected) = (comparable(outcomes.remove(0)), comparable(expected));
        if !unclear {
            let now = self.now();
            count_wait_from_account(&mut outcome, &expected, operation, now);
            let compared = profile.as_expected(outcome.clone(), &expected, operation);
            assert_eq!(compared, expected, "at {now:?}, left the store, right the model: {operation}");
        }
        outcome
    }

    /// Starts a take under this policy; by default one request of the shared subject, without a wait.
    pub(super) fn ask(&self, policy: &Policy) -> TakeBuilder<'_, 'r> {
        let terms = Terms {
            permit: fresh_permit(),
            max_wait: Span::ZERO,
            call: None,
            readings: true,
            new_accounts: tollway_core::NewAccounts::Make,
        };
        TakeBuilder { lab: self, charges: Charges::new(), terms }.and(policy)
    }

    /// One request, granted.
    pub(super) fn take(&self, policy: &Policy) -> Permit {
        self.ask(policy).granted()
    }

    /// How many single requests are granted before one is denied, at most `most`.
    pub(super) fn drain(&self, policy: &Policy, most: u64) -> u64 {
        (0..most).take_while(|_| self.ask(policy).decide().is_granted()).count() as u64
    }

    /// Takes `count` times with an unlimited wait.
    pub(super) fn book_permits(&self, policy: &Policy, count: usize) -> Vec<Permit> {
        (0..count).map(|_| self.ask(policy).wait(Span::MAX).granted()).collect()
    }

    /// The booking times of `count` takes with an unlimited wait.
    pub(super) fn book_times(&self, policy: &Policy, count: usize) -> Vec<Timestamp> {
        self.book_permits(policy, count).iter().map(|permit| permit.booking.at).collect()
    }

    /// Sends `count` takes in one batch. Returns which were granted.
    pub(super) fn batch(&self, policy: &Policy, count: usize) -> Vec<bool> {
        let operations: Vec<Operation> = (0..count)
            .map(|_| Operation::one(charge(policy), Action::Take(Terms::now(fresh_permit()))))
            .collect();
        let outcomes = wait_for(self.store.apply(&operations)).expect("the store answers");
        let granted =
            |outcome: &Outcome| matches!(outcome, Outcome::Decided(decision) if decision.is_granted());
        outcomes.iter().map(granted).collect()
    }

    pub(super) fn peek(&self, policy: &Policy) -> Vec<Reading> {
        let Outcome::Peeked(mut charges) = self.apply(&Operation::one(charge(policy), Action::Peek)) else {
            panic!("a peek is answered with readings")
        };
        charges.remove(0).readings
    }

    /// What is used of each limit.
    pub(super) fn used(&self, policy: &Policy) -> Vec<u64> {
        self.peek(policy).iter().map(|reading| reading.used).collect()
    }

    pub(super) fn reset(&self, policy: &Policy) {
        assert_eq!(self.apply(&Operation::one(charge(policy), Action::Reset)), Outcome::Reset);
    }

    pub(super) fn begin(&self, permit: &Permit, max_wait: Span) -> Begun {
        let terms = Terms {
            permit: fresh_permit(),
            max_wait,
            call: None,
            readings: false,
            new_accounts: tollway_core::NewAccounts::Make,
        };
        match self.apply(&Operation {
            charges: permit.charges.clone(),
            action: Action::Begin(permit.booking, terms),
        }) {
            Outcome::Begun(begun) => begun,
            other => panic!("a begin is answered with {other:?}"),
        }
    }

    /// Settles to these amounts of the first charge's units; what is not named stays as it was taken.
    pub(super) fn settle<const N: usize>(&self, permit: &Permit, actual: [(&str, u64); N]) -> Settled {
        match self.try_settle(permit, actual, false) {
            Outcome::Settled(settled) => settled,
            other => panic!("a settle is answered with {other:?}"),
        }
    }

    pub(super) fn try_settle<const N: usize>(
        &self,
        permit: &Permit,
        actual: [(&str, u64); N],
        remember: bool,
    ) -> Outcome {
        let mut costs: SmallVec<[Cost; 1]> =
            permit.charges.iter().map(|charge| charge.cost().clone()).collect();
        costs[0] =
            permit.charges[0].policy.actual_cost(&costs[0], actual).expect("the units are the policy's");
        let action = Action::Settle { booking: permit.booking, actual: costs, remember };
        self.apply(&Operation { charges: permit.charges.clone(), action })
    }

    pub(super) fn give_back(&self, permit: &Permit) -> Settled {
        self.give_back_remembered(permit, false)
    }

    pub(super) fn give_back_remembered(&self, permit: &Permit, remember: bool) -> Settled {
        let action = Action::Return { booking: permit.booking, remember };
        match self.apply(&Operation { charges: permit.charges.clone(), action }) {
            Outcome::Settled(settled) => settled,
            other => panic!("a return is answered with {other:?}"),
        }
    }

    pub(super) fn feedback(&self, policy: &Policy, feedback: Feedback) -> Learned {
        match self.apply(&Operation::one(charge(policy), Action::Feedback(feedback))) {
            Outcome::Learned(learned) => learned,
            other => panic!("feedback is answered with {other:?}"),
        }
    }

    pub(super) fn refused_feedback(&self, policy: &Policy, feedback: Feedback) -> Refusal {
        match self.apply(&Operation::one(charge(policy), Action::Feedback(feedback))) {
            Outcome::Refused(refusal) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }

    pub(super) fn done(&self, permit: &Permit) -> bool {
        let action = Action::Done(permit.booking.permit);
        self.apply(&Operation { charges: permit.charges.clone(), action }) == Outcome::Done(true)
    }

    pub(super) fn renew(&self, permit: &Permit) -> bool {
        let action = Action::Renew(permit.booking.permit);
        self.apply(&Operation { charges: permit.charges.clone(), action }) == Outcome::Renewed(true)
    }
}

/// Builds a take.
#[derive(Clone)]
pub(super) struct TakeBuilder<'l, 'r> {
    lab: &'l Lab<'r>,
    charges: Charges,
    terms: Terms,
}

impl TakeBuilder<'_, '_> {
    /// Also under this policy.
    pub(super) fn and(mut self, policy: &Policy) -> Self {
        self.charges.push(charge(policy));
        self
    }

    /// For this subject of the policy named last.
    pub(super) fn subject(mut self, subject: &str) -> Self {
        self.charges.last_mut().unwrap().subject = Subject::new(subject).unwrap();
        self
    }

    /// At this cost under the policy named last.
    pub(super) fn cost(mut self, unit: &str, amount: u64) -> Self {
        let charge = self.charges.last_mut().unwrap();
        charge.cost = Some(charge.policy.actual_cost(charge.cost(), [(unit, amount)]).unwrap());
        self
    }

    pub(super) fn wait(mut self, max_wait: Span) -> Self {
        self.terms.max_wait = max_wait;
        self
    }

    pub(super) fn id(mut self, id: &str) -> Self {
        self.terms.call = Some(CallId::new(id).unwrap());
        self
    }

    pub(super) fn outcome(self) -> Outcome {
        self.lab.apply(&Operation { charges: self.charges, action: Action::Take(self.terms) })
    }

    pub(super) fn preview(self) -> Decision {
        let preview = Operation { charges: self.charges, action: Action::Preview(self.terms) };
        match self.lab.apply(&preview) {
            Outcome::Decided(decision) => decision,
            other => panic!("a preview is answered with {other:?}"),
        }
    }

    pub(super) fn decide(self) -> Decision {
        match self.outcome() {
            Outcome::Decided(decision) => decision,
            other => panic!("a take is answered with {other:?}"),
        }
    }

    pub(super) fn granted(self) -> Permit {
        let charges = self.charges.clone();
        let decision = self.decide();
        let booking = *decision.booking().unwrap_or_else(|| panic!("denied, not granted: {decision:?}"));
        Permit { charges, booking, decision }
    }

    pub(super) fn denied(self) -> Denied {
        let decision = self.decide();
        let denial = *decision.denial().unwrap_or_else(|| panic!("granted, not denied: {decision:?}"));
        Denied { denial, decision }
    }

    pub(super) fn refused(self) -> Refusal {
        match self.outcome() {
            Outcome::Refused(refusal) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// A granted take.
#[derive(Clone, Debug)]
pub(super) struct Permit {
    pub(super) charges: Charges,
    pub(super) booking: Booking,
    pub(super) decision: Decision,
}

/// A denied take.
pub(super) struct Denied {
    denial: Denial,
    pub(super) decision: Decision,
}

impl Denied {
    pub(super) fn retry_after(&self) -> Span {
        self.decision.wait()
    }
}

impl std::ops::Deref for Denied {
    type Target = Denial;

    fn deref(&self) -> &Denial {
        &self.denial
    }
}

/// So many seconds after the start.
pub(super) fn at(secs: u64) -> Timestamp {
    START.plus(Span::from_secs(secs))
}

pub(super) fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

fn charge(policy: &Policy) -> Charge {
    Charge::new(Arc::new(policy.clone()), Subject::SHARED)
}

/// An outcome without the fields that stores may omit: the decisions of shadows are not remembered with an id.
pub(super) fn comparable(mut outcome: Outcome) -> Outcome {
    if let Outcome::Decided(decision) | Outcome::Begun(Begun::Again(decision)) = &mut outcome
        && decision.repeated
    {
        decision.would_deny = 0;
    }
    outcome
}

/// After its clock went back, a store may count the wait of a denial from the account's newest time, as the model does, or
/// from its clock. Converts the second into the first.
pub(super) fn count_wait_from_account(
    outcome: &mut Outcome,
    expected: &Outcome,
    operation: &Operation,
    clock: Timestamp,
) {
    use Outcome::{Begun as Began, Decided};
    match (outcome, expected, &operation.action) {
        (
            Decided(denied) | Began(Begun::Again(denied)),
            Decided(expected) | Began(Begun::Again(expected)),
            _,
        ) if !denied.is_granted() && denied.now == clock && clock < expected.now => denied.now = expected.now,
        (Began(Begun::Early(wait)), Began(Begun::Early(expected)), Action::Begin(booking, _))
            if *wait == booking.at.since(clock) =>
        {
            *wait = *expected;
        }
        _ => {}
    }
}

/// A policy name unique among scenarios and among runs on the same store.
pub(super) fn fresh_name() -> String {
    static RUN: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let run = RUN.get_or_init(|| RandomState::new().build_hasher().finish());
    format!("kit-{run:016x}-{:09}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A unique permit.
pub(super) fn fresh_permit() -> PermitId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    PermitId(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)))
}
