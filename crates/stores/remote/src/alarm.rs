//! The alarm for a grant that exceeds its limit, which must never happen.

use tollway_core::{Begun, Invariant, Operation, Outcome};

/// Logs an error if the outcome is such a grant.
pub(crate) fn raise_if_over(operation: &Operation, outcome: &Outcome) {
    if grants_too_much(outcome) {
        // Subjects may be personal data and stay out of the log.
        let policies: Vec<&str> =
            operation.charges.iter().map(|charge| charge.policy.name().as_str()).collect();
        tracing::error!(?policies, invariant = Invariant::NeverOver.id(), "a grant exceeded its limit");
    }
}

fn grants_too_much(outcome: &Outcome) -> bool {
    let (Outcome::Decided(decision) | Outcome::Begun(Begun::Again(decision))) = outcome else { return false };
    decision.is_granted() && decision.over
}

#[cfg(test)]
mod tests {
    use tollway_core::{Decision, PermitId, Timestamp};

    use super::*;

    #[test]
    fn grants_above_the_limit_raise_the_alarm() {
        let grant = |over| Decision { over, ..Decision::granted_now(PermitId(1), Timestamp::from_secs(1)) };
        assert!(grants_too_much(&Outcome::Decided(grant(true))));
        assert!(grants_too_much(&Outcome::Begun(Begun::Again(grant(true)))));
        assert!(!grants_too_much(&Outcome::Decided(grant(false))));
        assert!(!grants_too_much(&Outcome::Begun(Begun::Now)));
        assert!(!grants_too_much(&Outcome::Reset));
    }
}
