//! The look at all parts of a take before one of them is taken: most denials are found here, and cost others nothing.

use std::sync::Arc;

use tollway_core::{
    Action, Answer, ChargeStatus, Decision, Operation, Outcome, Refusal, Span, Store, StoreError, Terms,
    Timestamp,
};

use super::part::Part;
use super::wrong_answer;

/// What was seen of each part, in their order.
pub(super) struct Looks(pub(super) Vec<Look>);

/// What was seen of one part.
pub(super) struct Look {
    /// What a take would be answered.
    pub(super) decision: Decision,
    /// The accounts as they are.
    pub(super) statuses: Vec<ChargeStatus>,
}

/// The terms of one part of a take. One part keeps the caller's id. It may wait in a queue only if no other part could deny
/// when its time has come.
pub(super) fn terms_of_part(parts: &[Part], index: usize, terms: &Terms) -> Terms {
    let is_keeper = index == keeper(parts);
    let is_alone = parts.iter().filter(|part| part.may_deny()).count() == 1;
    let call = terms.call.clone().filter(|_| is_keeper);
    let max_wait = if is_keeper && is_alone { terms.max_wait } else { Span::ZERO };
    Terms { max_wait, call, ..terms.clone() }
}

/// The part that keeps the caller's id: the last that can deny, so that all that could be undone is taken before it.
pub(super) fn keeper(parts: &[Part]) -> usize {
    parts.iter().rposition(Part::may_deny).unwrap_or(parts.len().saturating_sub(1))
}

/// Sends the questions to all parts at once.
pub(super) fn ask<S: Store>(store: &Arc<S>, parts: &[Part], terms: &Terms) -> Answer {
    let questions = parts.iter().enumerate().flat_map(|(index, part)| {
        let preview = Action::Preview(terms_of_part(parts, index, terms));
        [part.operation(&preview), part.operation(&Action::Peek)]
    });
    store.apply(&questions.collect::<Vec<Operation>>())
}

/// Reads the answers to [`ask`], or why one part refuses the take.
pub(super) async fn answered(parts: &[Part], answer: Answer) -> Result<Result<Looks, Refusal>, StoreError> {
    let mut outcomes = answer.await?.into_iter();
    let mut looks = Vec::with_capacity(parts.len());
    for _ in parts {
        match (outcomes.next(), outcomes.next()) {
            (Some(Outcome::Decided(decision)), Some(Outcome::Peeked(statuses))) => {
                looks.push(Look { decision, statuses: statuses.into_vec() });
            }
            (Some(Outcome::Refused(refusal)), _) => return Ok(Err(refusal)),
            _ => return Err(wrong_answer()),
        }
    }
    Ok(Ok(Looks(looks)))
}

impl Looks {
    /// What the part that keeps the id answers, if the take was granted before.
    pub(super) fn repeated(&self, parts: &[Part]) -> Option<&Decision> {
        let decision = &self.0.get(keeper(parts))?.decision;
        decision.repeated.then_some(decision)
    }

    /// Whether one part has no room.
    pub(super) fn deny(&self) -> bool {
        self.0.iter().any(|look| !look.decision.is_granted())
    }

    /// The newest time of all nodes.
    pub(super) fn now(&self) -> Timestamp {
        self.0.iter().map(|look| look.decision.now).max().unwrap_or(Timestamp::EPOCH)
    }

    /// The end of the last hold of a vendor.
    pub(super) fn held_until(&self) -> Timestamp {
        let statuses = self.0.iter().flat_map(|look| &look.statuses);
        statuses.filter_map(|status| status.held_until).max().unwrap_or(Timestamp::EPOCH)
    }

    /// The accounts as they are, of each part.
    pub(super) fn into_statuses(self) -> Vec<Vec<ChargeStatus>> {
        self.0.into_iter().map(|look| look.statuses).collect()
    }
}
