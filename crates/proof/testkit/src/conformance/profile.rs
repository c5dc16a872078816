//! What a store promises about takes over several accounts, and what the suite asks of it accordingly.

use tollway_core::{
    Action, Begun, Booking, ClusterSlot, Decision, Name, Operation, Outcome, Policy, SlotConflict, Span,
    TakeOutcome,
};

use super::lab::fresh_name;

/// What a store promises about a take over several accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// It is one atomic step.
    #[default]
    Atomic,
    /// If the accounts are in different slots, it is made part by part and undone if one part denies: never over, but others may
    /// see a part of it meanwhile. It names no limit that denies together with another, and only one part keeps the caller's id.
    Undo,
}

/// Where a policy's accounts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placing {
    /// All of one subject together.
    BySubject,
    /// Each policy's accounts in a slot of their own.
    ByPolicy,
}

/// How far the time of a grant that is known by its id may be before its first answer's.
const REPEATED_EARLIER: Span = Span::from_secs(1);

impl Profile {
    /// How policies are placed to ask all of it: a store that keeps what it takes together has one way.
    pub(super) fn placings(self) -> &'static [Placing] {
        match self {
            Self::Atomic => &[Placing::BySubject],
            Self::Undo => &[Placing::BySubject, Placing::ByPolicy],
        }
    }

    /// Whether the store makes this operation part by part.
    pub(super) fn splits(self, operation: &Operation) -> bool {
        self == Self::Undo && SlotConflict::among(&operation.charges).is_some()
    }

    /// Whether several answers to it are right, and leave different accounts.
    pub(super) fn leaves_open(self, operation: &Operation) -> bool {
        let holds_slots = operation.charges.iter().any(|charge| charge.policy.holds_slots());
        let adapts = || {
            operation
                .charges
                .iter()
                .any(|charge| charge.policy.limits().iter().any(tollway_core::Limit::is_adaptive))
        };
        self.splits(operation)
            && match &operation.action {
                // A part whose slots are lost does not keep the others from being renewed.
                Action::Renew(_) => holds_slots,
                // Slots outlive the window that ends first only where the parts are one.
                Action::Begin(..) => holds_slots || adapts(),
                Action::Take(terms) => terms.call.is_some() && holds_slots,
                _ => false,
            }
    }

    /// The store's answer as the model would give it, if it is right in what this profile leaves open.
    pub(super) fn as_expected(self, outcome: Outcome, expected: &Outcome, operation: &Operation) -> Outcome {
        if !self.splits(operation) {
            return outcome;
        }
        let has_edges = operation.charges.iter().any(|charge| charge.policy.edge() > Span::ZERO);
        let decision = |decision, expected: &Decision| decision_as_expected(decision, expected, has_edges);
        match (outcome, expected) {
            (Outcome::Decided(decided), Outcome::Decided(expected)) => {
                Outcome::Decided(decision(decided, expected))
            }
            (Outcome::Begun(Begun::Again(again)), Outcome::Begun(Begun::Again(expected))) => {
                Outcome::Begun(Begun::Again(decision(again, expected)))
            }
            (outcome, _) => outcome,
        }
    }
}

fn decision_as_expected(mut decision: Decision, expected: &Decision, has_edges: bool) -> Decision {
    match (&mut decision.outcome, &expected.outcome) {
        (TakeOutcome::Denied(denial), TakeOutcome::Denied(expected)) => {
            (denial.charge, denial.limit, denial.held) = (expected.charge, expected.limit, expected.held);
            // With edges, a time that suits one part may be in another's edge.
            if has_edges && denial.retry_at <= expected.retry_at {
                denial.retry_at = expected.retry_at;
            }
        }
        (TakeOutcome::Granted(booking), TakeOutcome::Granted(expected)) if decision.repeated => {
            let earlier = |time: tollway_core::Timestamp| time.minus(REPEATED_EARLIER);
            let earliest =
                Booking { granted_at: earlier(expected.granted_at), at: earlier(expected.at), ..*booking };
            if *booking == earliest {
                let good_until = expected.good_until.min(booking.good_until);
                *booking = Booking { good_until, ..*expected };
            }
        }
        _ => {}
    }
    decision
}

impl Placing {
    /// The policy, placed so.
    pub(super) fn place(self, policy: Policy) -> Policy {
        match self {
            Self::BySubject => policy,
            Self::ByPolicy => {
                let name = Name::new(&fresh_name()).expect("a policy's name is a slot's");
                policy.with_cluster_slot(ClusterSlot::Named(name))
            }
        }
    }
}
