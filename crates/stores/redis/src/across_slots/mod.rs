//! Operations over accounts in several slots of a Cluster, which no script can apply in one step.
//!
//! Without `across_slots=undo` they are refused, with what the config must say. With it:
//!
//! - A take looks at all parts first. If one of them would deny, that is the answer, and nothing was taken.
//! - Otherwise the parts are taken one after the other, in key order. If one denies after all, because another process was
//!   quicker, the parts before it are returned. Until then others may be denied what they hold.
//! - Only the last part is taken under the caller's id. While it is not granted, no repeated take relies on the others; once it is,
//!   they are taken. So a repeated id counts once, whatever happens between.
//! - It never waits in a store's queue, unless all other parts only shadow it.
//! - A process that dies in between leaves what it took counted: never over.
//! - Everything else is done part by part: `settle`, `return`, `done`, `renew`, `reset`, `peek`.

mod begin;
mod look;
mod merge;
mod part;
mod take;

use std::sync::Arc;

use futures_util::future::join_all;
use tollway_core::bounds::OPERATIONS_PER_BATCH_MAX;
use tollway_core::{
    Account, Action, Answer, Fault, Operation, Outcome, Outcomes, Retry, SlotConflict, Store, StoreError,
    StoreResult, Timestamp, apply,
};

use crate::refusal::refuse;
use part::Part;

/// What becomes of an operation whose accounts are in several slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WhenAcrossSlots {
    /// It is an error.
    #[default]
    Refuse,
    /// It is applied part by part, and undone if it cannot be whole.
    Undo,
}

/// Applies operations to a store that can apply only those whose accounts are in one slot.
pub(crate) struct AcrossSlots<S> {
    store: Arc<S>,
    when: WhenAcrossSlots,
}

impl<S: Store> AcrossSlots<S> {
    pub(crate) fn new(store: Arc<S>, when: WhenAcrossSlots) -> Self {
        Self { store, when }
    }

    /// Like [`Store::apply`]. Nearly every operation is in one slot, and goes to the store as it is.
    pub(crate) fn apply(&self, batch: &[Operation]) -> Answer {
        let conflict = batch.iter().find_map(|operation| SlotConflict::among(&operation.charges));
        match (conflict, self.when) {
            (None, _) => self.store.apply(batch),
            // Says so itself.
            (Some(_), _) if batch.len() > OPERATIONS_PER_BATCH_MAX => self.store.apply(batch),
            (Some(conflict), WhenAcrossSlots::Refuse) => refuse(&*self.store, refused(&conflict)),
            (Some(_), WhenAcrossSlots::Undo) => {
                let answers: Vec<Answer> = batch.iter().map(|operation| self.apply_one(operation)).collect();
                Answer::Later(Box::pin(async move { all(join_all(answers).await) }))
            }
        }
    }

    /// Answers without the store, but not in place of one that is away: an answer counts as a sign of life.
    fn answer_if_alive(&self, parts: &[Part], outcome: Outcome) -> Answer {
        let peeks: Vec<Operation> = parts.iter().map(|part| part.operation(&Action::Peek)).collect();
        let alive = self.store.apply(&peeks);
        Answer::Later(Box::pin(async move { alive.await.map(|_| Outcomes::from_buf([outcome])) }))
    }

    fn apply_one(&self, operation: &Operation) -> Answer {
        if SlotConflict::among(&operation.charges).is_none() {
            return self.store.apply(std::slice::from_ref(operation));
        }
        let parts = Part::of(&operation.charges);
        if let Some(refused) = refused_by_any_store(operation) {
            return self.answer_if_alive(&parts, refused);
        }
        match &operation.action {
            Action::Take(terms) => take::take(&self.store, parts, terms),
            Action::Preview(terms) => take::preview(&self.store, parts, terms),
            Action::Begin(booking, terms) => begin::begin(&self.store, parts, *booking, terms),
            Action::Settle { .. }
            | Action::Return { .. }
            | Action::Done(_)
            | Action::Renew(_)
            | Action::Peek
            | Action::Reset
            | Action::Feedback(_) => {
                let each: Vec<Operation> =
                    parts.iter().map(|part| part.operation(&operation.action)).collect();
                let answer = self.store.apply(&each);
                Answer::Later(Box::pin(async move {
                    let merged = merge::outcomes(&parts, answer.await?).ok_or_else(wrong_answer)?;
                    Ok(Outcomes::from_buf([merged]))
                }))
            }
        }
    }
}

/// What every store refuses whatever its accounts hold. Found before a part is applied, so that none is.
fn refused_by_any_store(operation: &Operation) -> Option<Outcome> {
    let mut accounts: Vec<Account> =
        operation.charges.iter().map(|charge| Account::new(&charge.policy)).collect();
    let outcome = apply(operation, &mut accounts, Timestamp::EPOCH).outcome;
    matches!(outcome, Outcome::Refused(_)).then_some(outcome)
}

fn refused(conflict: &SlotConflict) -> StoreError {
    let message = format!("{conflict}; {}", conflict.advice());
    StoreError { fault: Fault::Caller, retry: Retry::Useless, message }
}

fn wrong_answer() -> StoreError {
    let message = "the store answered another operation than the one it was sent".to_owned();
    StoreError { fault: Fault::Store, retry: Retry::Unclear, message }
}

/// The outcomes of all operations; if one failed, its error, and rather one of a call that may have been applied.
fn all(answers: Vec<StoreResult>) -> StoreResult {
    let mut outcomes = Outcomes::with_capacity(answers.len());
    let mut failed: Option<StoreError> = None;
    for answer in answers {
        match answer {
            Ok(one) => outcomes.extend(one),
            Err(error) if failed.as_ref().is_none_or(|known| known.retry != Retry::Unclear) => {
                failed = Some(error);
            }
            Err(_) => {}
        }
    }
    failed.map_or(Ok(outcomes), Err)
}

#[cfg(test)]
mod tests;
