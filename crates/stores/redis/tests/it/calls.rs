//! Calls of many operations, and many calls at once: what one of them leaves is what the next one finds, and one that
//! changes nothing leaves nothing. Each answer is compared with the engine's.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::sync::Arc;

use tollway_core::{
    Action, Begun, Booking, CallId, Charge, Charges, Operation, Outcome, PermitId, Policy, Span, Store,
    Subject, Terms, Timestamp,
};
use tollway_redis::{Address, RedisLink};
use tollway_remote::{Call, Link, Tag};
use tollway_testkit::servers::RedisServer;
use tollway_testkit::{ManualClock, PlainStore, Random, wait_for};

/// The versions that the limits of the first policy go through; all of them in one call.
const VERSIONS: [&[&str]; 6] = [
    &["3 / 10 seconds", "2 concurrent expires 30s"],
    &["5 / 10 seconds", "2 concurrent expires 30s", "40 tokens / minute bucket"],
    &["1 concurrent expires 1h", "2 / second"],
    &["4 / minute bucket", "6 / 5 seconds"],
    &["4 / minute sliding"],
    &["3 / 20 seconds from first call", "9 / day in Asia/Tokyo"],
];

/// The second policy of takes under two.
const OTHER: [&str; 2] = ["7 / minute", "3 concurrent expires 20s"];

#[tokio::test]
async fn operations_of_one_call_are_applied_in_order() {
    let clock = Arc::new(ManualClock::default());
    let address = Address::parse(&format!("{}?deadline=20s", RedisServer::shared().url())).unwrap();
    let link = Arc::new(RedisLink::with_test_clock(&address, clock.clone()).unwrap());
    let plain = PlainStore::new(clock.clone());
    for seed in 0..400 {
        let mut course = Course::new(seed);
        for sequence in seed * 12..seed * 12 + 11 {
            let jump = [0, 1, 999_999, 5_000_000, 61_000_000][course.random.below(5) as usize];
            course.now = course.now.plus(Span::from_micros(course.random.below(jump + 1)));
            clock.set(course.now);
            let count = course.random.between(1, 12);
            let operations: Arc<[_]> = (0..count).flat_map(|_| course.repeated_operation()).collect();
            let expected = apply_all(&plain, &operations);
            let tag = Tag::of(&operations[0]).unwrap();
            let call = Call { tag, sequence, again: false, operations };
            let answers = link.clone().send(vec![Arc::new(call.clone())]).await.remove(0).unwrap();
            for (number, operation) in call.operations.iter().enumerate() {
                assert_eq!(
                    answers[number], expected[number],
                    "seed {seed}, call {sequence}, {number}: {operation}"
                );
                course.learn(operation, &answers[number]);
            }
        }
    }
}

/// Calls that are sent together go as one command; two of them on one account are still applied in order.
#[tokio::test]
async fn calls_sent_together_are_applied_in_order() {
    let clock = Arc::new(ManualClock::default());
    let address = Address::parse(&format!("{}?deadline=20s", RedisServer::shared().url())).unwrap();
    let link = Arc::new(RedisLink::with_test_clock(&address, clock.clone()).unwrap());
    let plain = PlainStore::new(clock.clone());
    let mut random = Random::new(1);
    let mut drawn = 1 << 100;
    let mut now = Timestamp::from_secs(1_794_720_780);
    for round in 1..300 {
        now = now.plus(Span::from_micros(random.below(3_000_000)));
        clock.set(now);
        // Every call has the account of its number first, and some the last one as well, which others have first.
        let calls: Vec<Arc<Call>> = (0..random.between(2, 9))
            .map(|number| {
                let subjects = if random.percent(30) { vec![number, 9] } else { vec![number] };
                let mut takes = Vec::new();
                for _ in 0..random.between(1, 20) {
                    drawn += 1;
                    takes.push(take_of_bundle(&subjects, PermitId(drawn), random.below(2)));
                }
                let (tag, operations) = (Tag::of(&takes[0]).unwrap(), takes.into());
                Arc::new(Call { tag, sequence: 10 * round + number, again: false, operations })
            })
            .collect();
        let expected: Vec<_> = calls.iter().map(|call| apply_all(&plain, &call.operations)).collect();
        let answers = link.clone().send(calls.clone()).await;
        for (number, (answer, expected)) in answers.into_iter().zip(expected).enumerate() {
            assert_eq!(answer.unwrap().to_vec(), expected, "round {round}, call {number}");
        }
        // The same again: every one is answered as before, and nothing is taken.
        let again = link.clone().send(calls.clone()).await;
        assert!(again.iter().all(Result::is_ok), "{again:?}");
    }
}

fn take_of_bundle(subjects: &[u64], permit: PermitId, wait: u64) -> Operation {
    let policy = Policy::new("bundle", ["30 / 5 seconds", "200 / day in Asia/Tokyo"]).unwrap();
    let policy = Arc::new(policy);
    let charge = |subject: &u64| {
        Charge::new(Arc::clone(&policy), Subject::new(&format!("of-bundle-{subject}")).unwrap())
    };
    let terms = Terms {
        permit,
        max_wait: Span::from_secs(wait * 3),
        call: None,
        readings: false,
        new_accounts: tollway_core::NewAccounts::Make,
    };
    Operation { charges: subjects.iter().map(charge).collect(), action: Action::Take(terms) }
}

fn apply_all(plain: &PlainStore, operations: &[Operation]) -> Vec<Outcome> {
    wait_for(plain.apply(operations)).unwrap().into_vec()
}

/// A `begin` that came too late and is denied has not let go of its slot, for the next one in the call either.
#[tokio::test]
async fn a_denied_begin_keeps_its_slot() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_794_720_780)));
    let address = Address::parse(&format!("{}?deadline=20s", RedisServer::shared().url())).unwrap();
    let link = Arc::new(RedisLink::with_test_clock(&address, clock.clone()).unwrap());
    let policy = Policy::new("keeps", ["1 / 10 seconds", "2 concurrent expires 1h"]).unwrap();
    let charge = Charge::new(Arc::new(policy), Subject::SHARED);
    let terms = |permit| Terms::now(PermitId(permit));
    let send = async |sequence, actions: Vec<Action>| {
        let operation = |action| Operation::one(charge.clone(), action);
        let operations: Arc<[_]> = actions.into_iter().map(operation).collect();
        let call = Call { tag: Tag::of(&operations[0]).unwrap(), sequence, again: false, operations };
        link.clone().send(vec![Arc::new(call)]).await.remove(0).unwrap()
    };
    let answers = send(1, vec![Action::Take(terms(1))]).await;
    let Outcome::Decided(decision) = &answers[0] else { panic!("refused: {answers:?}") };
    clock.advance(Span::from_secs(11));
    let late = Action::Begin(*decision.booking().unwrap(), terms(3));
    let answers = send(2, vec![Action::Take(terms(2)), late, Action::Done(PermitId(1))]).await;
    assert!(
        matches!(&answers[1], Outcome::Begun(Begun::Again(decision)) if !decision.is_granted()),
        "{answers:?}"
    );
    assert_eq!(answers[2], Outcome::Done(true));
}

/// What happens next, and what there is to do it with.
struct Course {
    random: Random,
    name: String,
    now: Timestamp,
    permits: Vec<(Charges, Booking)>,
    drawn: u128,
}

impl Course {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let now = Timestamp::from_secs(1_794_720_780 + random.below(100_000));
        let drawn = u128::from(seed) << 64;
        Self { random, name: format!("calls-{seed}"), now, permits: Vec::new(), drawn }
    }

    /// An operation; a take is sometimes followed by some that ask the same.
    fn repeated_operation(&mut self) -> Vec<Operation> {
        let operation = self.operation();
        let Action::Take(terms) = &operation.action else { return vec![operation] };
        let (terms, times) = (terms.clone(), [0, 0, 1, 2, 5][self.random.below(5) as usize]);
        let mut all = vec![operation.clone()];
        for _ in 0..times {
            self.drawn += 1;
            let action = Action::Take(Terms { permit: PermitId(self.drawn), ..terms.clone() });
            all.push(Operation { charges: operation.charges.clone(), action });
        }
        all
    }

    fn operation(&mut self) -> Operation {
        let kind = self.random.below(100);
        if kind < 50 || self.permits.is_empty() {
            let (charges, terms) = (self.charges(), self.terms());
            let action = match kind {
                0..40 => Action::Take(terms),
                40..46 => Action::Preview(terms),
                46 => Action::Reset,
                _ => Action::Peek,
            };
            return Operation { charges, action };
        }
        let chosen = self.random.below(self.permits.len() as u64) as usize;
        let (mut charges, booking) = self.permits[chosen].clone();
        if self.random.percent(30) {
            // The policy has changed since the permit was granted.
            charges[0].policy = Arc::new(self.policy());
            charges[0].cost = None;
        }
        let remember = self.random.percent(50);
        let action = match kind {
            50..70 => Action::Begin(booking, self.terms()),
            70..78 => {
                let actual = charges.iter().map(|charge| charge.policy.default_cost().clone()).collect();
                Action::Settle { booking, actual, remember }
            }
            78..88 => Action::Return { booking, remember },
            88..93 => Action::Done(booking.permit),
            _ => Action::Renew(booking.permit),
        };
        Operation { charges, action }
    }

    /// The first policy in one of its versions, sometimes the second one as well, enforced or as a shadow.
    fn charges(&mut self) -> Charges {
        let mut policies = vec![self.policy()];
        if self.random.percent(25) {
            let other = Policy::new(&format!("{}-other", self.name), OTHER).unwrap();
            policies.push(other.with_shadow(self.random.percent(40)));
        }
        let charge = |policy: Policy| {
            let amount = [1, 1, 1, 2, 9][self.random.below(5) as usize];
            let cost = policy.cost([("requests", amount)]).unwrap();
            Charge::new(Arc::new(policy), Subject::SHARED).with_cost(cost)
        };
        policies.into_iter().map(charge).collect()
    }

    fn policy(&mut self) -> Policy {
        let version = self.random.below(VERSIONS.len() as u64) as usize;
        Policy::new(&self.name, VERSIONS[version].iter().copied()).unwrap()
    }

    fn terms(&mut self) -> Terms {
        self.drawn += 1;
        let id = self.random.below(4).to_string();
        Terms {
            permit: PermitId(self.drawn),
            max_wait: Span::from_secs(self.random.below(2) * 30),
            call: self.random.percent(25).then(|| CallId::new(&id).unwrap()),
            readings: self.random.percent(30),
            new_accounts: tollway_core::NewAccounts::Make,
        }
    }

    fn learn(&mut self, operation: &Operation, outcome: &Outcome) {
        let decision = match (&operation.action, outcome) {
            (Action::Preview(_), _) => return,
            (_, Outcome::Decided(decision) | Outcome::Begun(Begun::Again(decision))) => decision,
            _ => return,
        };
        let Some(booking) = decision.booking() else { return };
        // Nothing was taken from shadows that would have denied.
        let charges = operation.charges.iter().enumerate();
        let charges = charges.filter(|(index, _)| !decision.would_deny_of(*index));
        self.permits.push((charges.map(|(_, charge)| charge.clone()).collect(), *booking));
        if self.permits.len() > 6 {
            self.permits.remove(0);
        }
    }
}
