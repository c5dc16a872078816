//! What does not fit is refused by a store that is there, not by one that is away: whoever probes for it may ask for
//! something that has no key here, and must not take the refusal for a sign of life.

use std::sync::Arc;

use tollway_core::{Action, Answer, Charge, Cost, Operation, Policy, Store, StoreError, Subject};

use crate::error::wrong;

/// Answers with `error` once the store has answered anything at all; else with why it did not.
pub(crate) fn refuse(store: &dyn Store, error: StoreError) -> Answer {
    let sign_of_life = look(store);
    Answer::Later(Box::pin(async move {
        sign_of_life?.await?;
        Err(error)
    }))
}

/// Peeks at an unused counter.
fn look(store: &dyn Store) -> Result<Answer, StoreError> {
    let name = "tollway.probe";
    let policy =
        Policy::new(name, ["1 / second from first call"]).map_err(|error| wrong(error.to_string()))?;
    let subject = Subject::new(name).map_err(|error| wrong(error.to_string()))?;
    let charge = Charge::new(Arc::new(policy), subject).with_cost(Cost::default());
    Ok(store.apply(&[Operation::one(charge, Action::Peek)]))
}
