//! What a call does to a counter, as the engine decides it, and for which counts that holds.

use tollway_core::{
    Account, Action, Begun, Meter, Operation, Outcome, Outcomes, Settled, State, Timestamp, Window, apply,
};

/// The decisions of a call on one counter.
#[derive(Debug)]
pub(super) struct Plan {
    /// One for each operation.
    pub(super) outcomes: Outcomes,
    /// The count that was assumed.
    before: u64,
    /// What is left of it.
    after: u64,
    /// Everything is decided in the same way for every count from this on
    pub(super) least: u64,
    /// up to this.
    pub(super) most: u64,
    /// How well the count must be known where nothing is written.
    pub(super) needs: Needs,
}

/// How well a count must be known for an answer that changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Needs {
    /// Not at all.
    Nothing,
    /// It may be a second old: a denial.
    Recent,
    /// It was read after the question came: a look.
    Fresh,
}

impl Plan {
    /// Decides all operations in order, at this count of the minute that ends at `end`.
    pub(super) fn of(operations: &[Operation], count: u64, end: Timestamp, now: Timestamp) -> Self {
        let mut plan = Self {
            outcomes: Outcomes::with_capacity(operations.len()),
            before: count,
            after: count,
            least: 0,
            most: u64::MAX,
            needs: Needs::Nothing,
        };
        for operation in operations {
            plan.decide(operation, end, now);
        }
        plan
    }

    /// By how much the count changes.
    pub(super) fn delta(&self) -> i128 {
        i128::from(self.after) - i128::from(self.before)
    }

    /// The count that was, if this is the count after it was written.
    pub(super) fn count_before(&self, after: u64) -> u64 {
        u64::try_from(i128::from(after) - self.delta()).unwrap_or(0)
    }

    /// Whether there is something to write.
    pub(super) fn writes(&self) -> bool {
        self.after != self.before
    }

    fn decide(&mut self, operation: &Operation, end: Timestamp, now: Timestamp) {
        let Some(charge) = operation.charges.first() else { return };
        let identity = charge.policy.limits().first().map_or(0, |limit| limit.identity());
        let window = State::Window(Window { end, count: self.after });
        let meters = [Meter { identity, state: window }].into_iter().collect();
        let mut accounts = [Account { expires: end, meters, ..Account::default() }];
        let outcome = apply(operation, &mut accounts, now).outcome;
        let before = std::mem::replace(&mut self.after, count_of(&accounts));
        self.narrow(operation, before, &outcome);
        self.outcomes.push(outcome);
    }

    /// Notes for which counts this operation ends in the same way.
    fn narrow(&mut self, operation: &Operation, count: u64, outcome: &Outcome) {
        let decision = match (outcome, &operation.action) {
            (Outcome::Peeked(_), _) | (Outcome::Decided(_), Action::Preview(_)) => {
                self.needs = Needs::Fresh;
                return;
            }
            (Outcome::Decided(decision) | Outcome::Begun(Begun::Again(decision)), _) => decision,
            // Given back or made new: that depends on all that was counted.
            (Outcome::Settled(Settled::Whole | Settled::Partly) | Outcome::Reset, _) => {
                (self.least, self.most) = (self.before, self.before);
                self.needs = Needs::Fresh;
                return;
            }
            _ => return,
        };
        let Some((capacity, amount)) = capacity_and_amount(operation) else { return };
        // What this call has taken before it.
        let ours = count.saturating_sub(self.before);
        if decision.is_granted() {
            self.most = self.most.min(capacity.saturating_sub(amount).saturating_sub(ours));
            return;
        }
        self.needs = self.needs.max(Needs::Recent);
        // Else it was the window's edge that denied, whatever the count.
        if count.saturating_add(amount) > capacity {
            let enough = capacity.saturating_add(1).saturating_sub(amount).saturating_sub(ours);
            self.least = self.least.max(enough);
        }
    }
}

/// What the limit holds in a minute, and what the operation takes of it.
fn capacity_and_amount(operation: &Operation) -> Option<(u64, u64)> {
    let (limit, amount) = operation.charges.first()?.amounts().next()?;
    Some((limit.amount(), amount))
}

fn count_of(accounts: &[Account]) -> u64 {
    match accounts.first().and_then(|account| account.meters.first()).map(|meter| &meter.state) {
        Some(State::Window(window)) => window.count,
        Some(State::Sliding(_) | State::Bucket(_) | State::Adaptive(_) | State::Slots(_)) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use tollway_core::{Charge, PermitId, Policy, Span, Subject, Terms};

    const END: Timestamp = Timestamp::from_secs(1_739_961_060);
    const NOW: Timestamp = Timestamp::from_secs(1_739_961_010);

    fn policy() -> Policy {
        Policy::new("p", ["10 / minute"]).unwrap()
    }

    fn takes(costs: &[u64]) -> Vec<Operation> {
        let policy = Arc::new(policy());
        let terms = Terms { readings: true, ..Terms::now(PermitId(1)) };
        let take = |cost: &u64| {
            let cost = policy.cost([("requests", *cost)]).unwrap();
            let charge = Charge::new(Arc::clone(&policy), Subject::SHARED).with_cost(cost);
            Operation::one(charge, Action::Take(terms.clone()))
        };
        costs.iter().map(take).collect()
    }

    fn granted(plan: &Plan) -> Vec<bool> {
        plan.outcomes
            .iter()
            .map(|outcome| matches!(outcome, Outcome::Decided(decision) if decision.is_granted()))
            .collect()
    }

    #[test]
    fn takes_that_fit_hold_for_every_count_with_room() {
        let plan = Plan::of(&takes(&[1, 2, 1]), 3, END, NOW);
        assert_eq!((granted(&plan), plan.delta()), (vec![true, true, true], 4));
        assert_eq!((plan.least, plan.most), (0, 6));
        assert_eq!(plan.count_before(9), 5);
    }

    #[test]
    fn fewer_than_asked_are_granted_where_not_all_fit() {
        let plan = Plan::of(&takes(&[1, 5, 1]), 6, END, NOW);
        assert_eq!((granted(&plan), plan.delta()), (vec![true, false, true], 2));
        // 5 still fits with 4 taken; 1 and 1 fit up to 8.
        assert_eq!((plan.least, plan.most), (5, 8));
    }

    /// For every count of the range the engine decides the same, and for its neighbours it does not.
    #[test]
    fn the_range_is_right_and_the_widest() {
        for costs in [&[1][..], &[3, 3, 3], &[1, 5, 1], &[4, 7, 2, 9, 1], &[10], &[10, 1]] {
            for count in 0..=12 {
                let plan = Plan::of(&takes(costs), count, END, NOW);
                let same = |count: u64| granted(&Plan::of(&takes(costs), count, END, NOW)) == granted(&plan);
                for other in 0..=14 {
                    let inside = (plan.least..=plan.most).contains(&other);
                    assert_eq!(inside, same(other), "{costs:?} at {count}, tried at {other}");
                }
            }
        }
    }

    #[test]
    fn refunds_hold_for_one_count_only() {
        let mut operations = takes(&[1]);
        let booking =
            tollway_core::Booking { permit: PermitId(1), granted_at: NOW, at: NOW, good_until: END };
        operations[0].action = Action::Return { booking, remember: false };
        let plan = Plan::of(&operations, 5, END, NOW);
        assert_eq!((plan.delta(), plan.least, plan.most), (-1, 5, 5));
        assert_eq!(plan.needs, Needs::Fresh);
        // Its minute is over: nothing to do.
        let later = Plan::of(&operations, 5, END.plus(Span::from_secs(60)), END);
        assert!(!later.writes());
    }
}
