//! The alarm that must never sound (I1): a store across a network has granted more than a limit holds.

use tollway_core::{Begun, Decision, Invariant, Outcome, OwnedOperation};

/// Sounds it if the outcome is such a grant.
pub(crate) fn raise_if_over(operation: &OwnedOperation, outcome: &Outcome) {
    if grants_too_much(outcome) {
        // Without their subjects, which are nobody's business.
        let policies: Vec<&str> =
            operation.parties.iter().map(|party| party.policy.name().as_str()).collect();
        tracing::error!(?policies, invariant = Invariant::NeverOver.id(), "a grant exceeded its limit");
    }
}

fn grants_too_much(outcome: &Outcome) -> bool {
    let (Outcome::Decided(decision) | Outcome::Begun(Begun::Again(decision))) = outcome else { return false };
    matches!(decision, Decision::Granted(grant) if grant.over)
}

#[cfg(test)]
mod tests {
    use tollway_core::{Grant, PermitId, Timestamp};

    use super::*;

    #[test]
    fn a_take_and_a_second_take_can_be_too_much() {
        let grant = |over| {
            let grant = Grant::at_once(PermitId(1), Timestamp::from_secs(1));
            Decision::Granted(Grant { over, ..grant })
        };
        assert!(grants_too_much(&Outcome::Decided(grant(true))));
        assert!(grants_too_much(&Outcome::Begun(Begun::Again(grant(true)))));
        assert!(!grants_too_much(&Outcome::Decided(grant(false))));
        assert!(!grants_too_much(&Outcome::Begun(Begun::Now)));
        assert!(!grants_too_much(&Outcome::Reset));
    }
}
