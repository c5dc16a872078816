//! The protocol over a store in memory: what is left when another process is quicker, or the caller goes, at each point. That a
//! Cluster does the same is shown in `tests/it`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use tollway_core::{
    CallId, Charge, ClusterSlot, Decision, Name, PermitId, Policy, Settled, Subject, Terms, Timestamp,
};
use tollway_testkit::conformance::{Effort, Profile, run_with};
use tollway_testkit::{ManualClock, PlainStore, Rig, wait_for};

use super::*;

/// A store in memory, and what happens to it before the next takes.
struct Slots {
    inner: Arc<PlainStore>,
    /// Applied one by one: each before one take arrives.
    before_takes: Mutex<Vec<Option<Operation>>>,
    /// Takes that are still answered; the next one fails like that.
    fails_after: Mutex<Option<(usize, Retry)>>,
}

impl Slots {
    fn new() -> Arc<Self> {
        let inner = PlainStore::checked(Arc::new(ManualClock::at(Timestamp::from_secs(1_767_225_600))));
        let inner = Arc::new(inner);
        Arc::new(Self { inner, before_takes: Mutex::default(), fails_after: Mutex::default() })
    }
}

impl Store for Slots {
    fn apply(&self, batch: &[Operation]) -> Answer {
        assert!(batch.iter().all(|operation| SlotConflict::among(&operation.charges).is_none()));
        if batch.iter().any(|operation| matches!(operation.action, Action::Take(_))) {
            let mut before = self.before_takes.lock().unwrap();
            if !before.is_empty()
                && let Some(operation) = before.remove(0)
            {
                wait_for(self.inner.apply(&[operation])).unwrap();
            }
            let mut fails_after = self.fails_after.lock().unwrap();
            match &mut *fails_after {
                Some((0, retry)) => {
                    let message = "the connection broke".to_owned();
                    return Answer::now(Err(StoreError { fault: Fault::Network, retry: *retry, message }));
                }
                Some((left, _)) => *left -= 1,
                None => {}
            }
            // It arrives later. One whose caller goes before that is not applied: a store across a network returns it.
            let (inner, batch) = (Arc::clone(&self.inner), batch.to_vec());
            return Answer::Later(Box::pin(async move {
                yield_once().await;
                inner.apply(&batch).await
            }));
        }
        self.inner.apply(batch)
    }
}

async fn yield_once() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

struct Test {
    slots: Arc<Slots>,
    across: AcrossSlots<Slots>,
    /// In key order; their limits are 1, 2 and 3.
    policies: [Arc<Policy>; 3],
}

impl Test {
    fn new() -> Self {
        let slots = Slots::new();
        let across = AcrossSlots::new(Arc::clone(&slots), WhenAcrossSlots::Undo);
        let policy = |(name, limit)| {
            let slot = ClusterSlot::Named(Name::new(name).unwrap());
            Arc::new(Policy::new(name, [limit]).unwrap().with_cluster_slot(slot))
        };
        let policies = [("a", "1 / day"), ("b", "2 / day"), ("c", "3 / day")].map(policy);
        Self { slots, across, policies }
    }

    fn take_of(&self, names: &str, id: Option<&str>) -> Operation {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let permit = PermitId(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into());
        let call = id.map(|id| CallId::new(id).unwrap());
        let charges = names.chars().map(|name| {
            let policy = self.policies.iter().find(|policy| policy.name().as_str().starts_with(name));
            Charge::new(Arc::clone(policy.unwrap()), Subject::SHARED)
        });
        let terms = Terms { call, readings: true, ..Terms::now(permit) };
        Operation { charges: charges.collect(), action: Action::Take(terms) }
    }

    fn take(&self, names: &str, id: Option<&str>) -> Result<Decision, StoreError> {
        match wait_for(self.across.apply(&[self.take_of(names, id)]))?.remove(0) {
            Outcome::Decided(decision) => Ok(decision),
            other => panic!("a take is answered with {other:?}"),
        }
    }

    /// What each policy counts.
    fn used(&self) -> [u64; 3] {
        self.policies.each_ref().map(|policy| {
            let peek = Operation::one(Charge::new(Arc::clone(policy), Subject::SHARED), Action::Peek);
            match wait_for(self.slots.inner.apply(&[peek])).unwrap().remove(0) {
                Outcome::Peeked(statuses) => statuses[0].readings[0].used,
                other => panic!("a peek is answered with {other:?}"),
            }
        })
    }
}

/// The looks find that one part denies: nothing is taken, and the readings are as they are.
#[test]
fn denial_takes_nothing() {
    let test = Test::new();
    assert!(test.take("cab", None).unwrap().is_granted());
    let denied = test.take("cab", None).unwrap();
    assert_eq!(denied.denial().unwrap().charge, 1);
    let used: Vec<u64> = denied.charges.iter().map(|status| status.readings[0].used).collect();
    assert_eq!((used, test.used()), (vec![1, 1, 1], [1, 1, 1]));
}

/// Another process takes the last unit after the looks: what was taken before is returned.
#[test]
fn part_that_denies_after_all_undoes_those_before() {
    for (before, used) in [
        (vec![Some("a")], [1, 0, 0]),
        (vec![None, Some("bb")], [0, 2, 0]),
        (vec![None, None, Some("ccc")], [0, 0, 3]),
    ] {
        for id in [None, Some("x")] {
            let test = Test::new();
            let others = |names: &str| {
                let charges = test.take_of(&names[..1], None).charges;
                let cost = charges[0].policy.cost([("requests", names.len() as u64)]).unwrap();
                let charge = charges[0].clone().with_cost(cost);
                Operation::one(charge, Action::Take(Terms::now(PermitId(1 << 64))))
            };
            *test.slots.before_takes.lock().unwrap() = before.iter().map(|names| names.map(others)).collect();
            let denied = test.take("abc", id).unwrap();
            assert!(!denied.is_granted() && denied.charges.len() == 3, "{denied:?}");
            assert_eq!(test.used(), used, "only what the other process took");
        }
    }
}

/// I5: the same id again counts once, also if it comes while the first take is under way.
#[test]
fn repeated_id_counts_once() {
    let test = Test::new();
    let first = test.take("bc", Some("x")).unwrap();
    let again = test.take("cb", Some("x")).unwrap();
    assert!(again.repeated && !first.repeated);
    assert_eq!(again.booking().unwrap().permit, first.booking().unwrap().permit);
    // The same take by another process, between the parts of this one.
    let test = Test::new();
    let other = Operation { charges: test.take_of("c", None).charges, ..test.take_of("c", Some("y")) };
    *test.slots.before_takes.lock().unwrap() = vec![None, Some(other)];
    assert!(test.take("bc", Some("y")).unwrap().repeated);
    assert_eq!(test.used(), [0, 0, 1], "the part before the id's was returned");
}

/// A part that certainly was not applied undoes the others; while the part that keeps the id may have been, they stay counted.
#[test]
fn failing_part_is_never_over() {
    for (taken, retry, id, used) in [
        (0, Retry::Unclear, None, [0, 0, 0]),
        (1, Retry::Unclear, None, [0, 0, 0]),
        (1, Retry::Safe, Some("x"), [0, 0, 0]),
        (1, Retry::Unclear, Some("x"), [0, 0, 0]),
        (2, Retry::Safe, Some("x"), [0, 0, 0]),
        (2, Retry::Unclear, Some("x"), [1, 1, 0]),
    ] {
        let test = Test::new();
        *test.slots.fails_after.lock().unwrap() = Some((taken, retry));
        assert_eq!(test.take("abc", id).unwrap_err().retry, retry);
        assert_eq!(test.used(), used, "{taken} {retry:?} {id:?}");
    }
}

/// Polls the answer so many times and drops it, as a caller does that goes. Whether it was answered.
fn answered_after(polls: usize, answer: Answer) -> bool {
    let mut answer = Box::pin(answer);
    let mut poll = || answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    (0..polls).any(|_| poll())
}

/// What is taken for a caller that goes is returned. Only while the part that keeps the id is under way, the others stay: the same
/// take again may find the id.
#[test]
fn caller_that_goes_leaves_nothing_but_what_its_id_may_hold() {
    for (id, under_way) in [(None, [0, 0, 0]), (Some("x"), [1, 1, 0])] {
        let left = |polls| {
            let test = Test::new();
            let answered = answered_after(polls, test.across.apply(&[test.take_of("abc", id)]));
            (answered, test.used())
        };
        let all: Vec<_> = (0..=4).map(left).collect();
        let nothing = (false, [0, 0, 0]);
        assert_eq!(all, [nothing, nothing, nothing, (false, under_way), (true, [1, 1, 1])], "{id:?}");
    }
}

#[test]
fn settled_and_returned_part_by_part() {
    let test = Test::new();
    let granted = test.take("bc", None).unwrap();
    let charges = test.take_of("bc", None).charges;
    let booking = *granted.booking().unwrap();
    let actual = [0, 3].map(|amount| charges[0].policy.cost([("requests", amount)]).unwrap());
    let settle = Action::Settle { booking, actual: actual.into_iter().collect(), remember: true };
    let settle = Operation { charges, action: settle };
    for expected in [Settled::Whole, Settled::Repeated] {
        let outcomes = wait_for(test.across.apply(std::slice::from_ref(&settle))).unwrap();
        assert_eq!(outcomes[..], [Outcome::Settled(expected)]);
        assert_eq!(test.used(), [0, 0, 3]);
    }
}

/// Without the option it is an error that names the policies and the line to write; nothing of the batch is applied.
#[test]
fn refused_unless_undone() {
    let test = Test::new();
    let refuses = AcrossSlots::new(Arc::clone(&test.slots), WhenAcrossSlots::Refuse);
    let error = wait_for(refuses.apply(&[test.take_of("a", None), test.take_of("bc", None)])).unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Caller, Retry::Useless));
    assert!(error.message.contains("policies b and c") && error.message.contains("slot = \"b\""), "{error}");
    assert_eq!(test.used(), [0, 0, 0]);
}

/// The whole suite on the layer over memory, which tells its mistakes from those of a Cluster.
#[test]
fn conforms_to_the_profile_undo() {
    struct InMemory {
        clock: Arc<ManualClock>,
        store: Arc<Layered>,
    }
    struct Layered(AcrossSlots<PlainStore>);
    impl Store for Layered {
        fn apply(&self, batch: &[Operation]) -> Answer {
            self.0.apply(batch)
        }
    }
    impl Rig for InMemory {
        fn store(&self) -> Arc<dyn Store> {
            self.store.clone()
        }
        fn set_time(&self, now: Timestamp) {
            self.clock.set(now);
        }
        fn profile(&self) -> Profile {
            Profile::Undo
        }
    }
    let clock = Arc::new(ManualClock::default());
    let across = AcrossSlots::new(Arc::new(PlainStore::checked(clock.clone())), WhenAcrossSlots::Undo);
    let rig = InMemory { clock, store: Arc::new(Layered(across)) };
    let effort = Effort { seed: 370_000, sequences: 400, rounds: 4 };
    run_with(&rig, effort).unwrap_or_else(|failure| panic!("{failure}"));
}
