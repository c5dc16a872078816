//! Denials repeated from memory, so that an exhausted account costs a call a second and not one for each take.
//!
//! A denial stays true while nothing is given back. What this process gives back ends it; what another process gives back may
//! be seen as late as a denial is kept. A repeated denial never outlives its `retry_at`.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollway_core::{
    AccountKey, Action, Charge, Decision, Denial, Limit, NewAccounts, Operation, Outcome, Policy, Reading,
    Span, Terms, Timestamp,
};

use crate::Tag;

/// The longest that a denial may be kept: what another process gives back is seen as late as that.
pub const DENIALS_MAX: Duration = Duration::from_secs(1);

/// The longest under a policy that holds slots: a call that ends elsewhere frees its slot without notice, and a waiting take
/// asks as often as that.
const SLOT_DENIALS_MAX: Duration = Duration::from_millis(200);

/// The most denials in one of two generations. One more begins a new generation: it costs a call, and no more.
const GENERATION_MAX: usize = 8_192;

/// How many counters of changes there are. Accounts share them by hash: a shared one ends a denial too early, which costs a
/// call.
const COUNTERS: usize = 1_024;

/// The denials of one store.
#[derive(Debug)]
pub(crate) struct Denials {
    kept_for: Duration,
    generations: Mutex<Generations>,
    /// What this process gave back, counted by the hash of the account.
    changes: Box<[AtomicU64]>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<AccountKey, KeptDenial>,
    old: HashMap<AccountKey, KeptDenial>,
    /// When the first entry of `young` was sent.
    since: Option<Instant>,
}

/// A denial, and the take that was denied.
#[derive(Clone, Debug)]
struct KeptDenial {
    charge: Charge,
    new_accounts: NewAccounts,
    decision: Decision,
    denial: Denial,
    /// Before the call was sent: the store decided then or later.
    sent_at: Instant,
    /// The count of changes when the call was sent.
    changes: u64,
}

impl Denials {
    pub(crate) fn new(kept_for: Duration) -> Self {
        let changes = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
        let kept_for = kept_for.min(DENIALS_MAX);
        Self { kept_for, generations: Mutex::default(), changes, hasher: RandomState::new() }
    }

    /// The kept denial of this take, if it still holds.
    pub(crate) fn repeat(&self, tag: &Tag, operation: &Operation, now: Instant) -> Option<Outcome> {
        if self.kept_for.is_zero() {
            return None;
        }
        let (charge, terms) = plain_take(operation)?;
        let generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = generations.get(tag.account())?;
        let age = now.saturating_duration_since(kept.sent_at);
        let holds = age < self.kept_for_under(&charge.policy)
            && kept.changes == self.changes(tag)
            && kept.denies(charge, terms);
        if holds { kept.at(age, terms).map(Outcome::Decided) } else { None }
    }

    /// Counts an operation that gives something back: before it is sent, and again when it was applied, because a take on
    /// another of its accounts may have been decided in between.
    pub(crate) fn note_change(&self, operation: &Operation) {
        if !self.kept_for.is_zero() && gives_back(&operation.action) {
            operation.keys().for_each(|key| {
                self.counter(&key).fetch_add(1, Ordering::AcqRel);
            });
        }
    }

    /// The changes of an account so far.
    pub(crate) fn changes(&self, tag: &Tag) -> u64 {
        self.counter(tag.account()).load(Ordering::Acquire)
    }

    /// Keeps a denial. `changes` was read before its call was sent.
    pub(crate) fn note_answer(
        &self,
        operation: &Operation,
        outcome: &Outcome,
        sent_at: Instant,
        changes: u64,
    ) {
        if self.kept_for.is_zero() {
            return;
        }
        let (Some((charge, terms)), Outcome::Decided(decision)) = (plain_take(operation), outcome) else {
            return;
        };
        let Some(denial) = decision.denial().copied() else { return };
        let kept = KeptDenial {
            charge: charge.clone(),
            new_accounts: terms.new_accounts,
            decision: decision.clone(),
            denial,
            sent_at,
            changes,
        };
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.keep(charge.key(), kept, self.kept_for);
    }

    fn kept_for_under(&self, policy: &Policy) -> Duration {
        if policy.holds_slots() { self.kept_for.min(SLOT_DENIALS_MAX) } else { self.kept_for }
    }

    fn counter(&self, key: &AccountKey) -> &AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(0);
        let index = usize::try_from(self.hasher.hash_one(key)).unwrap_or(0) % COUNTERS;
        self.changes.get(index).unwrap_or(&NONE)
    }
}

impl Generations {
    fn get(&self, key: &AccountKey) -> Option<&KeptDenial> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Keeps one. All of the generation before last are older than a denial is kept, or more than there is room for.
    fn keep(&mut self, key: AccountKey, kept: KeptDenial, kept_for: Duration) {
        let is_past = |since: Instant| kept.sent_at.saturating_duration_since(since) >= kept_for;
        if self.young.len() >= GENERATION_MAX || self.since.is_some_and(is_past) {
            self.old = std::mem::take(&mut self.young);
            self.since = None;
        }
        self.since.get_or_insert(kept.sent_at);
        self.young.insert(key, kept);
    }
}

impl KeptDenial {
    /// Whether this take is denied, too, and until the same time.
    fn denies(&self, charge: &Charge, terms: &Terms) -> bool {
        let same_policy =
            Arc::ptr_eq(&self.charge.policy, &charge.policy) || self.charge.policy == charge.policy;
        let readings = self.decision.readings_of(0);
        let amounts = || self.charge.amounts().zip(charge.amounts()).enumerate();
        same_policy
            && self.new_accounts == terms.new_accounts
            && amounts().all(|(index, ((limit, kept), (_, wanted)))| {
                wanted == kept
                    || (wanted > kept
                        && self.larger_cost_fits_at_the_same_time(limit, wanted, readings.get(index)))
            })
    }

    /// A window is empty at its end, whatever the cost is. Everything else has room for a larger cost later than for a small
    /// one, so the store says when.
    fn larger_cost_fits_at_the_same_time(
        &self,
        limit: &Limit,
        wanted: u64,
        reading: Option<&Reading>,
    ) -> bool {
        limit.is_window()
            && reading.is_some_and(|reading| {
                let fits_now = wanted <= reading.remaining;
                wanted <= reading.capacity && (fits_now || reading.resets_at <= self.denial.retry_at)
            })
    }

    /// The decision at this age; none at its `retry_at`, and none without readings that the caller asks for.
    fn at(&self, age: Duration, terms: &Terms) -> Option<Decision> {
        let now: Timestamp = self.decision.now.plus(age.into());
        let lacks_readings = terms.readings && self.decision.charges.is_empty();
        if now >= self.denial.retry_at || lacks_readings {
            return None;
        }
        let mut decision = Decision { now, ..self.decision.clone() };
        if !terms.readings {
            decision.charges.clear();
        }
        Some(decision)
    }
}

/// A take of one account that is decided now, without an id. An id that was denied here may have been granted elsewhere.
fn plain_take(operation: &Operation) -> Option<(&Charge, &Terms)> {
    match (&operation.action, operation.charges.as_slice()) {
        (Action::Take(terms), [charge]) if terms.call.is_none() && terms.max_wait == Span::ZERO => {
            Some((charge, terms))
        }
        _ => None,
    }
}

/// Whether an action may leave more than there was.
fn gives_back(action: &Action) -> bool {
    match action {
        Action::Settle { .. }
        | Action::Return { .. }
        | Action::Done(_)
        | Action::Reset
        | Action::Feedback(_) => true,
        Action::Take(_) | Action::Preview(_) | Action::Begin(..) | Action::Renew(_) | Action::Peek => false,
    }
}

#[cfg(test)]
mod tests {
    use tollway_core::{
        Action, Booking, CallId, ChargeStatus, Charges, PermitId, Store, Subject, TakeOutcome,
    };
    use tollway_testkit::{ManualClock, PlainStore, wait_for};

    use super::*;

    const NOON: Timestamp = Timestamp::from_secs(1_767_268_800);
    const MILLI: Duration = Duration::from_millis(1);

    fn policy(limits: &[&str]) -> Arc<Policy> {
        Arc::new(Policy::new("api", limits.iter().copied()).unwrap())
    }

    fn take(policy: &Arc<Policy>, cost: u64) -> Operation {
        let charge = Charge::new(Arc::clone(policy), Subject::SHARED);
        let cost = policy.cost(policy.units().iter().map(|unit| (unit.as_str(), cost))).unwrap();
        let terms = Terms { readings: true, ..Terms::now(PermitId(7)) };
        Operation::one(charge.with_cost(cost), Action::Take(terms))
    }

    fn with_terms(operation: &Operation, change: impl FnOnce(&mut Terms)) -> Operation {
        let Action::Take(mut terms) = operation.action.clone() else { panic!("{operation}") };
        change(&mut terms);
        Operation { action: Action::Take(terms), ..operation.clone() }
    }

    fn give_back(policy: &Arc<Policy>) -> Operation {
        let booking = Booking { permit: PermitId(1), granted_at: NOON, at: NOON, good_until: Timestamp::MAX };
        let action = Action::Return { booking, remember: false };
        Operation { action, ..take(policy, 1) }
    }

    /// The denial of an account of which `used` are used, as a real store answers it, sent at `sent_at`.
    fn denied(denials: &Denials, used: u64, operation: &Operation, sent_at: Instant) {
        let store = PlainStore::new(Arc::new(ManualClock::at(NOON)));
        let policy = &operation.charges[0].policy;
        if used > 0 {
            wait_for(store.apply(&[take(policy, used)])).unwrap();
        }
        let outcome = wait_for(store.apply(std::slice::from_ref(operation))).unwrap().remove(0);
        assert!(matches!(&outcome, Outcome::Decided(decision) if !decision.is_granted()), "{outcome:?}");
        let changes = denials.changes(&tag(operation));
        denials.note_answer(operation, &outcome, sent_at, changes);
    }

    fn tag(operation: &Operation) -> Tag {
        Tag::of(operation).unwrap()
    }

    fn repeats(denials: &Denials, operation: &Operation, now: Instant) -> bool {
        denials.repeat(&tag(operation), operation, now).is_some()
    }

    #[test]
    fn a_denial_is_repeated_for_a_second_and_its_wait_grows_shorter() {
        let (denials, now) = (Denials::new(DENIALS_MAX), Instant::now());
        let ask = take(&policy(&["10 / minute"]), 1);
        denied(&denials, 10, &ask, now);
        let Some(Outcome::Decided(decision)) = denials.repeat(&tag(&ask), &ask, now + 400 * MILLI) else {
            panic!("asked again");
        };
        let TakeOutcome::Denied(denial) = decision.outcome else { panic!("{decision:?}") };
        assert_eq!(
            (decision.now, denial.retry_at),
            (NOON.plus(Span::from_millis(400)), NOON.plus(Span::from_mins(1)))
        );
        assert_eq!(decision.readings_of(0)[0].remaining, 0);
        assert!(repeats(&denials, &ask, now + 999 * MILLI) && !repeats(&denials, &ask, now + 1_000 * MILLI));
        let never = Denials::new(Duration::ZERO);
        denied(&never, 10, &ask, now);
        assert!(!repeats(&never, &ask, now));
    }

    #[test]
    fn a_denial_does_not_outlive_its_retry_time() {
        let (denials, now) = (Denials::new(DENIALS_MAX), Instant::now());
        let ask = take(&policy(&["2 / second bucket"]), 1);
        denied(&denials, 2, &ask, now);
        assert!(repeats(&denials, &ask, now + 499 * MILLI) && !repeats(&denials, &ask, now + 500 * MILLI));
    }

    #[test]
    fn slots_are_asked_for_as_often_as_waiting_takes_ask() {
        let (denials, now) = (Denials::new(DENIALS_MAX), Instant::now());
        let ask = take(&policy(&["1 concurrent"]), 1);
        denied(&denials, 1, &ask, now);
        assert!(repeats(&denials, &ask, now + 199 * MILLI) && !repeats(&denials, &ask, now + 200 * MILLI));
    }

    #[test]
    fn only_plain_takes_of_the_same_policy_are_repeated() {
        let (denials, now) = (Denials::new(DENIALS_MAX), Instant::now());
        let (minute, other) = (policy(&["10 / minute"]), policy(&["11 / minute"]));
        let ask = take(&minute, 2);
        denied(&denials, 9, &ask, now);
        assert!(repeats(&denials, &take(&Arc::new((*minute).clone()), 2), now), "an equal policy");
        let two = Operation {
            charges: Charges::from_iter([ask.charges[0].clone(), ask.charges[0].clone()]),
            ..ask.clone()
        };
        for (what, asked) in [
            ("a smaller cost", take(&minute, 1)),
            ("a changed policy", take(&other, 2)),
            ("an id", with_terms(&ask, |terms| terms.call = Some(CallId::new("a").unwrap()))),
            ("a wait", with_terms(&ask, |terms| terms.max_wait = Span::from_secs(1))),
            ("another account to share", with_terms(&ask, |terms| terms.new_accounts = NewAccounts::Share)),
            ("two accounts", two),
            ("a look", Operation { action: Action::Peek, ..ask.clone() }),
        ] {
            assert!(!repeats(&denials, &asked, now), "{what}");
        }
    }

    /// I4: the time that a denial names is right for the larger cost, too.
    #[test]
    fn a_larger_cost_is_denied_from_memory_only_until_the_same_time() {
        let now = Instant::now();
        for (limits, used, repeated) in [
            (&["10 / minute"][..], 9, true),
            (&["10 / minute", "100 / hour"][..], 9, true),
            (&["10 / minute", "11 / hour"][..], 9, false),
            (&["10 / minute bucket"][..], 9, false),
            (&["10 / minute sliding"][..], 9, false),
        ] {
            let (denials, policy) = (Denials::new(DENIALS_MAX), policy(limits));
            denied(&denials, used, &take(&policy, 2), now);
            assert_eq!(repeats(&denials, &take(&policy, 3), now), repeated, "{limits:?}");
            assert!(!repeats(&denials, &take(&policy, 11), now), "{limits:?}: it never fits");
        }
    }

    #[test]
    fn what_this_process_gives_back_ends_a_denial() {
        let (denials, now) = (Denials::new(DENIALS_MAX), Instant::now());
        let policy = policy(&["10 / minute"]);
        let ask = take(&policy, 1);
        denied(&denials, 10, &ask, now);
        denials.note_change(&take(&policy, 1));
        assert!(repeats(&denials, &ask, now), "a take gives nothing back");
        for action in [give_back(&policy).action, Action::Reset, Action::Done(PermitId(1))] {
            denied(&denials, 10, &ask, now);
            denials.note_change(&Operation { action, ..ask.clone() });
            assert!(!repeats(&denials, &ask, now));
        }
        let sent_before = denials.changes(&tag(&ask));
        denials.note_change(&give_back(&policy));
        let late = Decision {
            charges: [ChargeStatus { policy: Arc::clone(&policy), readings: Vec::new(), held_until: None }]
                .into(),
            ..Decision::new(
                NOON,
                TakeOutcome::Denied(Denial { retry_at: Timestamp::MAX, charge: 0, limit: 0, held: false }),
            )
        };
        denials.note_answer(&ask, &Outcome::Decided(late), now, sent_before);
        assert!(!repeats(&denials, &ask, now), "decided before the units came back");
    }

    #[test]
    fn the_memory_is_bounded() {
        let (denials, now) = (Denials::new(DENIALS_MAX), Instant::now());
        let policy = policy(&["10 / minute"]);
        let ask = |number: usize| {
            let mut ask = take(&policy, 11);
            ask.charges[0].subject = Subject::new(&number.to_string()).unwrap();
            ask
        };
        let denial = Denial { retry_at: Timestamp::MAX, charge: 0, limit: 0, held: false };
        let outcome = Outcome::Decided(Decision::new(NOON, TakeOutcome::Denied(denial)));
        (0..3 * GENERATION_MAX).for_each(|number| denials.note_answer(&ask(number), &outcome, now, 0));
        let generations = denials.generations.lock().unwrap();
        assert_eq!((generations.young.len(), generations.old.len()), (GENERATION_MAX, GENERATION_MAX));
    }
}
