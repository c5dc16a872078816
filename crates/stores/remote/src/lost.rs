//! Returns permits of takes that were granted after the caller left or its deadline passed.

use tollway_core::{Action, Charges, Operation, Outcome};

/// The operation that returns what this outcome granted; none if it granted nothing new.
pub(crate) fn return_operation(operation: &Operation, outcome: &Outcome) -> Option<Operation> {
    // A take with an id, or a second take of `begin`, is found again when its caller repeats it.
    let ours = matches!(&operation.action, Action::Take(terms) if terms.call.is_none());
    let Outcome::Decided(decision) = outcome else { return None };
    let booking = *decision.booking()?;
    if !ours || decision.repeated {
        return None;
    }
    // Shadows that would have denied were not charged.
    let charges = operation.charges.iter().enumerate();
    let charges: Charges = charges
        .filter(|(index, _)| !decision.would_deny_of(*index))
        .map(|(_, charge)| charge.clone())
        .collect();
    let action = Action::Return { booking, remember: false };
    (!charges.is_empty()).then_some(Operation { charges, action })
}
