//! Threads whose takes are over policies in different slots, so that the store makes them part by part: never over, and a
//! denial gives back what it took.

use std::collections::HashMap;
use std::sync::{Arc, Barrier};

use tollway_core::{
    AccountKey, Action, Booking, CallId, Charge, Charges, Operation, Outcome, Policy, Store, Subject, Terms,
};

use super::lab::{at, fresh_name, fresh_permit};
use super::profile::Placing;
use super::{Failure, Report, attempt};
use crate::{Random, Rig, wait_for};

const THREADS: u64 = 8;

/// How many takes each thread makes in a round.
const TAKES: u64 = 24;

/// How many ids all threads use.
const IDS: usize = 6;

/// The limits of the three policies of a round. The first is the scarce one, so that takes which have the others are denied.
const LIMITS: [[&str; 3]; 4] = [
    ["20 / hour", "60 / hour", "90 / day"],
    ["25 / day bucket", "50 / hour", "70 / day bucket"],
    ["15 / hour from first call", "60 / day bucket", "90 / hour"],
    ["18 / hour sliding", "40 / hour from first call", "90 / hour"],
];

/// Runs `count` rounds of threads on each set of policies. The clock stands still, so that all that is granted stays counted.
pub fn rounds_across_slots(rig: &dyn Rig, count: u64) -> Result<Report, Failure> {
    let mut report = Report::default();
    for round in 0..count {
        for limits in LIMITS {
            let name = format!("round {round} of {THREADS} threads over slots of {limits:?}");
            report.calls += attempt(&name, || Round::new(rig, limits).run(round))?;
            report.rounds += 1;
        }
    }
    Ok(report)
}

struct Round {
    store: Arc<dyn Store>,
    policies: Vec<Arc<Policy>>,
}

/// What a thread was granted and kept, and how many takes it made.
#[derive(Default)]
struct Kept {
    units: HashMap<AccountKey, u64>,
    takes: u64,
}

impl Round {
    fn new(rig: &dyn Rig, limits: [&str; 3]) -> Self {
        let policy = |limit| {
            let policy = Policy::new(&fresh_name(), [limit]).expect("the limits are right");
            Arc::new(Placing::ByPolicy.place(policy))
        };
        rig.set_time(at(0));
        Self { store: rig.store(), policies: limits.into_iter().map(policy).collect() }
    }

    /// Returns the number of takes.
    fn run(&self, round: u64) -> u64 {
        let barrier = Barrier::new(THREADS as usize);
        let hammer = |thread: u64| {
            barrier.wait();
            self.hammer(&mut Random::new(round * THREADS + thread))
        };
        let kept: Vec<Kept> = std::thread::scope(|scope| {
            let hammer = &hammer;
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || hammer(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
        });
        for policy in &self.policies {
            for subject in ["a", "b"] {
                self.check(&Charge::new(Arc::clone(policy), subject_of(subject)), &kept);
            }
        }
        kept.iter().map(|kept| kept.takes).sum()
    }

    /// Exactly what was granted and kept is counted, and no more than the limit.
    fn check(&self, charge: &Charge, kept: &[Kept]) {
        let granted: u64 = kept.iter().filter_map(|kept| kept.units.get(&charge.key())).sum();
        let Outcome::Peeked(statuses) = self.apply(Operation::one(charge.clone(), Action::Peek)) else {
            panic!("a peek is answered with readings")
        };
        let (reading, limit) = (statuses[0].readings[0], &charge.policy.limits()[0]);
        assert!(granted <= limit.capacity(), "I1: {granted} granted under {limit}");
        assert_eq!(
            reading.used, granted,
            "{limit} counts what was granted and kept, and nothing that was denied"
        );
    }

    /// One thread: takes over one to three policies, some under ids that all threads use, some returned.
    fn hammer(&self, random: &mut Random) -> Kept {
        let mut kept = Kept::default();
        for _ in 0..TAKES {
            kept.takes += 1;
            let shared_id = random.percent(25).then(|| random.index(IDS));
            let charges = shared_id.map_or_else(|| self.charges(random), |id| self.charges_from(id, 3, "a"));
            let call = shared_id.map(|id| CallId::new(&format!("id-{id}")).expect("a number is an id"));
            let Some(booking) = self.take(&charges, call) else { continue };
            if shared_id.is_none() && random.percent(20) && Self::can_be_returned(&charges) {
                let action = Action::Return { booking, remember: false };
                self.apply(Operation { charges, action });
                continue;
            }
            for charge in &charges {
                *kept.units.entry(charge.key()).or_default() += 1;
            }
        }
        kept
    }

    /// A return is exact while the clock stands still, but for the weight that a sliding window keeps.
    fn can_be_returned(charges: &[Charge]) -> bool {
        charges.iter().all(|charge| charge.policy.may_book())
    }

    /// What was granted to this take, and not to an earlier one with its id.
    fn take(&self, charges: &Charges, call: Option<CallId>) -> Option<Booking> {
        let terms = Terms { call, ..Terms::now(fresh_permit()) };
        match self.apply(Operation { charges: charges.clone(), action: Action::Take(terms) }) {
            Outcome::Decided(decision) => {
                assert!(!decision.over, "I1: the engine itself says that it is over: {decision:?}");
                decision.booking().filter(|_| !decision.repeated).copied()
            }
            other => panic!("a take is answered with {other:?}"),
        }
    }

    fn charges(&self, random: &mut Random) -> Charges {
        let (first, count) = (random.index(self.policies.len()), 1 + random.index(self.policies.len()));
        self.charges_from(first, count, if random.percent(50) { "a" } else { "b" })
    }

    /// So many policies, from one on.
    fn charges_from(&self, first: usize, count: usize, subject: &str) -> Charges {
        let chosen = (first..first + count).map(|index| &self.policies[index % self.policies.len()]);
        chosen.map(|policy| Charge::new(Arc::clone(policy), subject_of(subject))).collect()
    }

    fn apply(&self, operation: Operation) -> Outcome {
        wait_for(self.store.apply(std::slice::from_ref(&operation))).expect("the store answers").remove(0)
    }
}

fn subject_of(text: &str) -> Subject {
    Subject::new(text).expect("a letter is a subject")
}
