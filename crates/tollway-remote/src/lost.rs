//! Permits that nobody was told of: the caller left, or its time was up, and the take was granted all the same.

use tollway_core::{Decision, Outcome, OwnedOperation, OwnedVerb};

/// The operation that gives back what this outcome granted; none if it granted nothing new.
pub(crate) fn give_back(operation: &OwnedOperation, outcome: &Outcome) -> Option<OwnedOperation> {
    // A take under an id is the id's, and a second take its permit's: whoever repeats it gets the place.
    let ours = matches!(&operation.verb, OwnedVerb::Take(terms) if terms.call.is_none());
    let Outcome::Decided(Decision::Granted(grant)) = outcome else { return None };
    if !ours || grant.repeated {
        return None;
    }
    // Nothing was taken from the shadows that would have denied.
    let denied =
        |index: usize| 1u16.checked_shl(u32::try_from(index).ok()?).map(|bit| grant.would_deny & bit != 0);
    let parties = operation.parties.iter().enumerate();
    let parties: Vec<_> =
        parties.filter(|(index, _)| denied(*index) != Some(true)).map(|(_, party)| party.clone()).collect();
    let verb = OwnedVerb::Return { booking: grant.booking(), remember: false };
    (!parties.is_empty()).then_some(OwnedOperation { parties, verb })
}
