//! Charges with their bound policies: what a take sends to the store and its permit keeps.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tollway_core::{
    Action, Answer, Begun, Charge, Charges, Cost, Decision, Denial, NewAccounts, Operation, Outcome,
    Outcomes, Span, Subject, TakeOutcome,
};

use crate::outage::fallback::decides_by_known_usage;
use crate::state::LimiterState;
use crate::take::bound_policy::BoundPolicy;
use crate::take::subjects_max::{self, Counted};

/// When a call under a stopped policy may try again: by then the settings were read again.
const STOPPED_RETRY: Span = Span::from_secs(1);

/// The charges of one take, at least one, each with its bound policy.
#[derive(Clone)]
pub(crate) struct BoundCharges {
    charges: Charges,
    bounds: SmallVec<[Arc<BoundPolicy>; 1]>,
}

impl BoundCharges {
    pub(crate) fn one(bound: Arc<BoundPolicy>, subject: Subject, cost: Option<Cost>) -> Self {
        let charge = Charge { policy: Arc::clone(&bound.policy), subject, cost };
        Self { charges: Charges::from_buf([charge]), bounds: SmallVec::from_buf([bound]) }
    }

    /// The shared subject of a policy, at its default cost.
    pub(crate) fn shared(bound: Arc<BoundPolicy>) -> Self {
        Self::one(bound, Subject::SHARED, None)
    }

    pub(crate) fn push(&mut self, charge: Charge, bound: Arc<BoundPolicy>) {
        self.charges.push(charge);
        self.bounds.push(bound);
    }

    /// The charge added last.
    pub(crate) fn last_mut(&mut self) -> Option<&mut Charge> {
        self.charges.last_mut()
    }

    #[inline]
    pub(crate) fn state(&self) -> &Arc<LimiterState> {
        &self.bounds[0].state
    }

    #[inline]
    pub(crate) fn first(&self) -> (&Charge, &Arc<BoundPolicy>) {
        (&self.charges[0], &self.bounds[0])
    }

    /// The only charge, if there is just one.
    pub(crate) fn only(&self) -> Option<(&Charge, &Arc<BoundPolicy>)> {
        (self.charges.len() == 1).then(|| self.first())
    }

    /// The policy under which a caller of this take waits: the first one that can deny it.
    pub(crate) fn waited_for(&self) -> &Arc<BoundPolicy> {
        self.bounds.iter().find(|bound| !bound.policy.shadow()).unwrap_or(&self.bounds[0])
    }

    pub(crate) fn charges(&self) -> &[Charge] {
        &self.charges
    }

    /// The bound policy of the charge at this index.
    pub(crate) fn bound(&self, index: usize) -> &Arc<BoundPolicy> {
        self.bounds.get(index).unwrap_or(&self.bounds[0])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Charge, &Arc<BoundPolicy>)> {
        self.charges.iter().zip(&self.bounds)
    }

    pub(crate) fn holds_slots(&self) -> bool {
        self.charges.iter().any(|charge| charge.policy.holds_slots())
    }

    /// Whether a decision without the store needs to know what the store last said.
    pub(crate) fn needs_known_usage(&self) -> bool {
        !self.state().in_process() && self.charges.iter().any(decides_by_known_usage)
    }

    /// Adopts policies that a reload or a setting changed, if their units are still the same.
    pub(crate) fn follow_reload(&mut self) {
        let Some(registry) = self.state().registry.get().and_then(std::sync::Weak::upgrade) else { return };
        let generation = registry.generation();
        self.rebind(|bound| {
            let found = (bound.generation != generation)
                .then(|| registry.find(bound.policy.name().as_str()).ok())
                .flatten()?;
            (found.policy.units() == bound.policy.units()).then_some(found)
        });
    }

    /// Replaces each bound policy for which `newer` returns another one.
    fn rebind(&mut self, newer: impl Fn(&BoundPolicy) -> Option<Arc<BoundPolicy>>) {
        for (charge, bound) in self.charges.iter_mut().zip(&mut self.bounds) {
            if let Some(found) = newer(bound) {
                charge.policy = Arc::clone(&found.policy);
                *bound = found;
            }
        }
    }

    /// Counts shadow denials, and reports a meter above its limit.
    pub(crate) fn count_anomalies(&self, decision: &Decision) {
        if decision.over {
            let policy = self.charges[0].policy.name();
            tracing::error!(%policy, "a meter holds more than its limit (I1)");
            self.state().metrics.iter().for_each(|metrics| {
                metrics.never_over.fetch_add(1, Ordering::Relaxed);
            });
        }
        if decision.would_deny != 0 {
            let shadows = self.bounds.iter().enumerate().filter(|(index, _)| decision.would_deny_of(*index));
            shadows.filter_map(|(_, bound)| bound.counts()).for_each(|counts| counts.would_deny());
        }
    }

    /// Drops the charges of shadow policies that would have denied: nothing was taken from them, so there is nothing to
    /// return. If no other charge is left, keeps them and returns true.
    #[cold]
    pub(crate) fn drop_denied_shadows(&mut self, decision: &Decision) -> bool {
        let kept = |index: &usize| !decision.would_deny_of(*index);
        let kept: SmallVec<[usize; 4]> = (0..self.charges.len()).filter(kept).collect();
        if kept.is_empty() {
            return true;
        }
        self.charges = kept.iter().map(|index| self.charges[*index].clone()).collect();
        self.bounds = kept.iter().map(|index| Arc::clone(&self.bounds[*index])).collect();
        false
    }

    /// Sends an action on these accounts to the store, unless the part of one of them is away.
    pub(crate) fn send(&mut self, mut action: Action) -> Answer {
        if let Some(outcome) = self.stopped(&action) {
            return Answer::now(Ok(Outcomes::from_buf([outcome])));
        }
        if self.state().in_process() {
            return self.apply(action);
        }
        if matches!(action, Action::Reset) {
            self.end_leases();
        }
        // A lease lasts a second at most, so takes that spend one come here often enough.
        self.state().activity.note();
        let state = self.state();
        if let Some(error) = state.outages.error_if_away(state, &self.charges) {
            return Answer::now(Err(error));
        }
        let part = state.store.part_of(&self.charges[0]);
        let counted = self.bound_new_accounts(&mut action);
        let answer = self.apply(action);
        let answer = crate::outage::breaker::observed(self.state(), part, answer);
        if counted.is_empty() { answer } else { subjects_max::counted(self.state(), counted, answer) }
    }

    /// Lets a take make no accounts if one of its policies has made its `subjects_max`. The counts that its answer adds to.
    fn bound_new_accounts(&self, action: &mut Action) -> Counted {
        let Action::Take(terms) = action else { return Counted::new() };
        let mut counted = Counted::new();
        for bound in &self.bounds {
            let (Some(most), Some(made)) = (bound.policy.subjects_max(), &bound.accounts_made) else {
                continue;
            };
            if made.is_used_up(&bound.policy, most, self.state().clock.now()) {
                terms.new_accounts = NewAccounts::Share;
            } else if terms.new_accounts == NewAccounts::Make {
                terms.new_accounts = NewAccounts::MakeAndCount;
            }
            counted.push((Arc::clone(made), Arc::clone(&bound.policy)));
        }
        counted
    }

    /// The answer to a call under a policy that an operator has stopped. It says to come back when the settings may have
    /// changed.
    fn stopped(&self, action: &Action) -> Option<Outcome> {
        let enforced = |(index, bound): (usize, &Arc<BoundPolicy>)| {
            (!bound.policy.shadow()).then_some(())?;
            Some((index, bound.stopped?))
        };
        let (charge, limit) = self.bounds.iter().enumerate().find_map(enforced)?;
        let now = self.state().clock.now();
        let denial = Denial { retry_at: now.plus(STOPPED_RETRY), charge, limit, held: true };
        let denied = || Decision::new(now, TakeOutcome::Denied(denial));
        match action {
            Action::Take(_) | Action::Preview(_) => Some(Outcome::Decided(denied())),
            Action::Begin(..) => Some(Outcome::Begun(Begun::Early(STOPPED_RETRY))),
            Action::Settle { .. }
            | Action::Return { .. }
            | Action::Done(_)
            | Action::Renew(_)
            | Action::Peek
            | Action::Reset
            | Action::Feedback(_) => None,
        }
    }

    /// Moves the charges into an operation for the call, and back afterwards; that saves a clone.
    fn apply(&mut self, action: Action) -> Answer {
        let operation = Operation { charges: std::mem::take(&mut self.charges), action };
        let answer = self.state().store.apply(std::slice::from_ref(&operation));
        self.charges = operation.charges;
        answer
    }

    /// A reset also ends leases taken before it.
    fn end_leases(&self) {
        for (charge, bound) in self.iter() {
            if let Some(leases) = &bound.leases {
                drop(leases.end(charge.subject.as_str()));
            }
        }
    }
}
