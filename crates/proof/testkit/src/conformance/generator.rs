//! Generates random sequences: times, policies, takes, and operations on permits.

use std::sync::Arc;

use tollway_core::{
    Action, Begun, CallId, Charge, Charges, Cost, Feedback, Limit, LimitLeft, Name, Operation, Outcome,
    Policy, RateChange, Span, Subject, TakeOutcome, Terms, Timestamp,
};

use super::lab::{Permit, at, fresh_name, fresh_permit};
use super::profile::{Placing, Profile};
use crate::Random;

/// Limits to draw from; `N` is replaced by an amount. Periods are short so that sequences cross many edges.
const LIMITS: [&str; 16] = [
    "N / second",
    "N / minute",
    "N tokens / minute",
    "N / hour",
    "N / day in America/Los_Angeles",
    "N tokens / month",
    "N / minute from first call",
    "N tokens / 10 seconds from first call",
    "N / minute sliding",
    "N tokens / 7 seconds sliding",
    "N / second bucket",
    "N tokens / 7 seconds bucket burst 9",
    "3 / minute bucket burst N",
    "7 / 13 seconds paced",
    "N concurrent expires 5s",
    "N concurrent",
];

const SUBJECTS: [&str; 3] = ["", "a", "team b"];

/// How many permits and ids a sequence remembers.
const AT_HAND: usize = 12;

/// The state of a random sequence.
pub(super) struct Generator {
    random: Random,
    /// Every policy, in the successive versions of its config.
    policies: Vec<Vec<Arc<Policy>>>,
    permits: Vec<Permit>,
    takes: Vec<Operation>,
    /// Interesting times: the sequence jumps to them, exactly or just before.
    moments: Vec<Timestamp>,
    /// Versions of learned rates that were seen.
    versions: Vec<u64>,
    profile: Profile,
}

impl Generator {
    pub(super) fn new(seed: u64, profile: Profile) -> Self {
        let mut random = Random::new(seed);
        let policies = (0..random.between(1, 3))
            .map(|_| versions(&mut random, profile).into_iter().map(Arc::new).collect())
            .collect();
        Self {
            random,
            policies,
            permits: Vec::new(),
            takes: Vec::new(),
            moments: Vec::new(),
            versions: vec![0],
            profile,
        }
    }

    /// When the sequence begins.
    pub(super) fn start(&mut self) -> Timestamp {
        // A day or two before clocks change in Los Angeles, or any time of the year.
        let secs = if self.random.percent(20) { 66 * 86_400 } else { self.random.below(300 * 86_400) };
        at(secs).plus(Span::from_micros(self.random.below(3_000_000)))
    }

    /// The next clock reading after `now`: mostly the same or a little later, sometimes much later or earlier.
    pub(super) fn next_time(&mut self, now: Timestamp) -> Timestamp {
        let random = &mut self.random;
        let later = |micros: u64| now.plus(Span::from_micros(micros));
        match random.below(100) {
            0..40 => now,
            40..50 => later(random.between(1, 1_000)),
            50..65 => later(random.between(1, 999) * 1_000),
            65..75 => later(random.between(1, 30) * 1_000_000),
            75..79 => later(random.between(1, 90) * 60_000_000),
            79..81 => later(random.between(1, 40) * 3_600_000_000),
            // The parts of a take have the time of their own accounts, which differ once the clock went back.
            81..85 if self.profile == Profile::Atomic => {
                now.minus(Span::from_micros(random.between(1, 3_000_000)))
            }
            _ if self.moments.is_empty() => now,
            _ => {
                let moment = *random.pick(&self.moments);
                let moment = if random.percent(40) { moment.minus(Span::from_micros(1)) } else { moment };
                // Jump over a wait of at most ten minutes, not over a month.
                if moment.since(now) <= Span::from_mins(10) { moment.max(now) } else { now }
            }
        }
    }

    /// The next thing to do.
    pub(super) fn next_operation(&mut self) -> Operation {
        let choice = self.random.below(100);
        if choice >= 60 && !self.permits.is_empty() {
            return self.about_a_permit(choice);
        }
        if (50..60).contains(&choice) && !self.takes.is_empty() {
            return self.repeated_take();
        }
        if (44..50).contains(&choice) {
            return self.feedback();
        }
        match choice {
            0..5 => Operation { charges: self.charges(), action: Action::Peek },
            6..9 => {
                let action = Action::Preview(self.terms(None));
                Operation { charges: self.charges(), action }
            }
            // What is settled part by part is settled where nothing was reset.
            5 if self.profile == Profile::Atomic && self.random.percent(50) => {
                Operation { charges: self.charges(), action: Action::Reset }
            }
            _ => self.take(),
        }
    }

    /// Remembers permits, ids and times for later operations.
    pub(super) fn learn(&mut self, operation: &Operation, outcome: &Outcome) {
        match outcome {
            Outcome::Decided(decision) | Outcome::Begun(Begun::Again(decision)) => match decision.outcome {
                TakeOutcome::Granted(booking) => {
                    self.moments.extend([booking.at, booking.good_until]);
                    if matches!(operation.action, Action::Preview(_)) {
                        return;
                    }
                    let (charges, decision) = (operation.charges.clone(), decision.clone());
                    self.permits.push(Permit { charges, booking, decision });
                }
                TakeOutcome::Denied(denial) => self.moments.push(denial.retry_at),
            },
            Outcome::Learned(learned) => {
                self.moments.extend(learned.held_until);
                self.versions.extend(learned.rate.as_ref().map(|rate| rate.version));
            }
            _ => {}
        }
        if matches!(&operation.action, Action::Take(terms) if terms.call.is_some()) {
            self.takes.push(operation.clone());
        }
        keep_newest(&mut self.permits);
        keep_newest(&mut self.takes);
        keep_newest(&mut self.moments);
        keep_newest(&mut self.versions);
    }

    /// What a vendor's answer says about one account: a hold, what is left of a limit, a new rate, or nothing.
    fn feedback(&mut self) -> Operation {
        let mut charges = self.charges();
        charges.truncate(1);
        let random = &mut self.random;
        let lengths = [0, 1, 900_000, 1_000_000, 2_000_000, 30_000_000, 3_600_000_000, 200_000_000_000];
        let hold = Span::from_micros(if random.percent(40) { *random.pick(&lengths) } else { 0 });
        let limits = charges[0].policy.limits().len();
        let left = (0..random.below(3)).map(|_| LimitLeft {
            limit: random.index(limits),
            units: random.below(6),
            lasts: Span::from_micros(*random.pick(&lengths)),
        });
        let left = left.collect();
        let rate = random.percent(60).then(|| RateChange {
            version: *random.pick(&self.versions),
            rate: *random.pick(&[1, 300_000, 999_999, 3_000_001, 7_000_000, 1_000_000_000]),
            burst: random.between(1, 4),
            cut: random.percent(30),
            left: random.percent(30).then(|| (random.below(4), Span::from_micros(*random.pick(&lengths)))),
            controller: format!("c{}", random.below(100)),
        });
        Operation { charges, action: Action::Feedback(Feedback { hold, left, rate }) }
    }

    fn take(&mut self) -> Operation {
        // Only one part knows the id, so it does not tell what else was taken under it.
        let ids = if self.profile == Profile::Undo { 1_000_000 } else { 6 };
        let call =
            self.random.percent(15).then(|| CallId::new(&format!("id-{}", self.random.below(ids))).unwrap());
        Operation { charges: self.charges(), action: Action::Take(self.terms(call)) }
    }

    /// The same id again: mostly with the same charges, sometimes reordered, sometimes at another cost.
    fn repeated_take(&mut self) -> Operation {
        let mut operation = self.random.pick(&self.takes).clone();
        let Action::Take(Terms { call, .. }) = operation.action else { return operation };
        operation.action = Action::Take(self.terms(call));
        if self.random.percent(30) {
            operation.charges.reverse();
        }
        if self.random.percent(20) && !self.profile.splits(&operation) {
            operation.charges[0].cost = Some(self.cost(&operation.charges[0].policy.clone()));
        }
        operation
    }

    fn about_a_permit(&mut self, choice: u64) -> Operation {
        let index = self.random.index(self.permits.len());
        let permit = self.permits[index].clone();
        let (charges, booking) = (permit.charges.clone(), permit.booking);
        let remember = self.random.percent(40);
        let action = match choice {
            60..70 => Action::Return { booking, remember },
            70..82 => {
                let actual = charges.iter().map(|charge| self.actual(charge)).collect();
                Action::Settle { booking, actual, remember }
            }
            82..88 => Action::Done(booking.permit),
            88..93 => Action::Renew(booking.permit),
            _ => Action::Begin(booking, self.terms(None)),
        };
        // Sometimes a permit is used twice, as by a caller that lost a response.
        if choice < 82 && self.random.percent(70) {
            self.permits.remove(index);
        }
        Operation { charges, action }
    }

    fn terms(&mut self, call: Option<CallId>) -> Terms {
        let waits = [0, 0, 1_000, 300_000, 5_000_000, 60_000_000, 3_600_000_000];
        let max_wait = Span::from_micros(*self.random.pick(&waits));
        Terms {
            permit: fresh_permit(),
            max_wait,
            call,
            readings: self.random.percent(50),
            new_accounts: tollway_core::NewAccounts::Make,
        }
    }

    /// Mostly one charge, sometimes several, never the same twice.
    fn charges(&mut self) -> Charges {
        let count = if self.random.percent(75) { 1 } else { self.random.between(2, 3) };
        let mut charges = Charges::new();
        for _ in 0..count {
            let index = self.random.index(self.policies.len());
            let version =
                if self.random.percent(85) { 0 } else { self.random.index(self.policies[index].len()) };
            let policy = self.policies[index][version].clone();
            let subject = Subject::new(SUBJECTS[self.random.index(SUBJECTS.len())]).unwrap();
            let same = |charge: &Charge| charge.policy.name() == policy.name() && charge.subject == subject;
            if !charges.iter().any(same) {
                let cost = self.cost(&policy);
                charges.push(Charge { policy, subject, cost: Some(cost) });
            }
        }
        charges
    }

    fn cost(&mut self, policy: &Policy) -> Cost {
        let amounts: Vec<(&str, u64)> = policy
            .units()
            .iter()
            .map(|unit| {
                let most = if self.random.percent(10) { 15 } else { 3 };
                (unit.as_str(), self.random.below(most + 1))
            })
            .collect();
        if self.random.percent(40) { policy.default_cost().clone() } else { policy.cost(amounts).unwrap() }
    }

    /// The actual cost of a call: nothing, less, the same, or more.
    fn actual(&mut self, charge: &Charge) -> Cost {
        let units = charge.policy.units().iter().zip(charge.cost().amounts());
        let amounts: Vec<(&str, u64)> = units
            .map(|(unit, reserved)| {
                let actual = match self.random.below(10) {
                    0..2 => 0,
                    2..5 => self.random.below(reserved + 1),
                    5..7 => *reserved,
                    _ => reserved + self.random.between(1, 12),
                };
                (unit.as_str(), actual)
            })
            .collect();
        charge.policy.cost(amounts).unwrap()
    }
}

fn keep_newest<T>(list: &mut Vec<T>) {
    if list.len() > AT_HAND {
        list.drain(..list.len() - AT_HAND);
    }
}

/// A random policy, and later versions of its config: other amounts, one limit less, one more.
fn versions(random: &mut Random, profile: Profile) -> Vec<Policy> {
    let count = random.between(1, 3);
    let texts: Vec<&str> = (0..count).map(|_| *random.pick(&LIMITS)).collect();
    let limits = |random: &mut Random, texts: &[&str]| -> Vec<Limit> {
        texts.iter().enumerate().map(|(index, text)| limit(random, index, text)).collect()
    };
    let mut first = limits(random, &texts);
    // Last, so that no version of the config drops it: what it has learned would not be told from an expired limit's.
    if random.percent(30) {
        first.push(limit(random, 9, "N / second adaptive"));
    }
    let edge = Span::from_millis(if random.percent(20) { 250 } else { 0 });
    let max_wait = Span::from_secs(*random.pick(&[600, 30]));
    let policy = Policy::of_limits(Name::new(&fresh_name()).unwrap(), first.clone()).unwrap();
    let policy = policy.with_edge(edge).with_shadow(random.percent(12)).with_forgetting(random.percent(12));
    let policy = policy.with_max_wait(max_wait).unwrap();
    if profile == Profile::Undo {
        let placing = if random.percent(50) { Placing::ByPolicy } else { Placing::BySubject };
        // A denial that is found before anything is taken does not prolong the accounts of a lowered limit.
        return vec![placing.place(policy)];
    }
    let mut versions = vec![policy.clone()];
    let amounts: Vec<Limit> = first.iter().map(|limit| other_amount(random, limit)).collect();
    versions.push(policy.with_limits(amounts).unwrap());
    if first.len() > 1 {
        versions.push(policy.with_limits(first[1..].to_vec()).unwrap());
    }
    let mut more = first;
    let text = LIMITS[random.index(LIMITS.len())];
    more.insert(0, limit(random, 7, text));
    versions.push(policy.with_limits(more).unwrap());
    // If one config books ahead and another holds slots in the same account, `renew` has no single correct answer.
    versions.retain(|version| version.may_book() == policy.may_book());
    versions
}

fn limit(random: &mut Random, index: usize, text: &str) -> Limit {
    let amount = random.between(1, 8).to_string();
    format!("l{index}: {}", text.replace('N', &amount)).parse().unwrap()
}

/// Another amount; for a bucket another rate, another burst, or both.
fn other_amount(random: &mut Random, limit: &Limit) -> Limit {
    let amount = random.between(1, 8);
    let Some(burst) = limit.burst() else { return limit.with_amount(amount).unwrap() };
    let amount = if random.percent(70) { amount } else { limit.amount() };
    let burst = if random.percent(50) { random.between(1, 8) } else { burst };
    limit.with_amounts(amount, Some(burst)).unwrap()
}
