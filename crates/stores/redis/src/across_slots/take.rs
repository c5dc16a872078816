//! A take over several slots: a look at all parts, then one part after the other, undone if one denies.

use std::sync::Arc;

use tollway_core::{
    Action, Answer, Booking, Decision, Operation, Outcome, Outcomes, Refusal, Retry, Store, StoreError,
    StoreResult, Terms,
};

use super::look::{self, Looks, keeper, terms_of_part};
use super::part::Part;
use super::{merge, wrong_answer};

/// Decides a take without taking anything.
pub(super) fn preview<S: Store>(store: &Arc<S>, parts: Vec<Part>, terms: &Terms) -> Answer {
    let (terms, asked) = (terms.clone(), look::ask(store, &parts, terms));
    Answer::Later(Box::pin(async move {
        let looked = match look::answered(&parts, asked).await? {
            Ok(looks) => looks_decide(&parts, looks, &terms)?,
            Err(refusal) => return Ok(Outcomes::from_buf([Outcome::Refused(refusal)])),
        };
        let decision = match looked {
            Looked::Decided(decision) => decision,
            Looked::HaveRoom(looks) => {
                let granted = looks.0.into_iter().map(|look| look.decision).collect();
                merge::granted(&parts, granted).ok_or_else(wrong_answer)?
            }
        };
        Ok(Outcomes::from_buf([Outcome::Decided(decision)]))
    }))
}

/// Takes all parts or none.
pub(super) fn take<S: Store>(store: &Arc<S>, parts: Vec<Part>, terms: &Terms) -> Answer {
    let (store, terms, asked) = (Arc::clone(store), terms.clone(), look::ask(store, &parts, terms));
    Answer::Later(Box::pin(async move {
        Ok(Outcomes::from_buf([take_asked(&store, &parts, &terms, asked).await?]))
    }))
}

/// The same, after the questions about all parts were sent.
pub(super) async fn take_asked<S: Store>(
    store: &Arc<S>,
    parts: &[Part],
    terms: &Terms,
    asked: Answer,
) -> Result<Outcome, StoreError> {
    let looked = match look::answered(parts, asked).await? {
        Ok(looks) => looks_decide(parts, looks, terms)?,
        Err(refusal) => return Ok(Outcome::Refused(refusal)),
    };
    match looked {
        Looked::Decided(decision) if decision.repeated => still_held(store, parts, terms, decision).await,
        Looked::Decided(decision) => Ok(Outcome::Decided(decision)),
        Looked::HaveRoom(looks) => take_in_order(store, parts, terms, looks).await,
    }
}

/// What the looks say.
enum Looked {
    /// Denied, or granted before.
    Decided(Decision),
    HaveRoom(Looks),
}

fn looks_decide(parts: &[Part], looks: Looks, terms: &Terms) -> Result<Looked, StoreError> {
    let decision = if let Some(known) = looks.repeated(parts).cloned() {
        merge::repeated(parts, &known, looks, terms.readings)
    } else if looks.deny() {
        merge::denied(parts, looks, terms.readings)
    } else {
        return Ok(Looked::HaveRoom(looks));
    };
    decision.map(Looked::Decided).ok_or_else(wrong_answer)
}

/// Takes one part after the other. The last that can deny keeps the caller's id.
async fn take_in_order<S: Store>(
    store: &Arc<S>,
    parts: &[Part],
    terms: &Terms,
    looks: Looks,
) -> Result<Outcome, StoreError> {
    let keeper = keeper(parts);
    let mut taken = TakenParts { store: Arc::clone(store), parts, decisions: Vec::new(), is_settled: false };
    for (index, part) in parts.iter().enumerate().take(keeper + 1) {
        let is_keeper = index == keeper;
        // From here on a repeated take may find the id. Then the parts before it belong to that grant.
        taken.is_settled = is_keeper && terms.call.is_some();
        let take = part.operation(&Action::Take(terms_of_part(parts, index, terms)));
        match only(store.apply(&[take]).await) {
            Ok(Outcome::Decided(decision)) if decision.repeated => {
                taken.undo().await;
                let repeated = merge::repeated(parts, &decision, looks, terms.readings);
                return still_held(store, parts, terms, repeated.ok_or_else(wrong_answer)?).await;
            }
            Ok(Outcome::Decided(decision)) if decision.is_granted() => taken.decisions.push(decision),
            Ok(Outcome::Decided(denied)) => {
                taken.undo().await;
                let denied = merge::denied_by(parts, index, denied, looks);
                return denied.map(Outcome::Decided).ok_or_else(wrong_answer);
            }
            Ok(refused @ Outcome::Refused(_)) => {
                taken.undo().await;
                return Ok(refused);
            }
            Ok(_) => return Err(wrong_answer()),
            Err(error) => {
                if !taken.is_settled || error.retry != Retry::Unclear {
                    taken.undo().await;
                }
                return Err(error);
            }
        }
    }
    let shadows = take_shadows(store, parts, terms, &looks, keeper + 1).await;
    merge::granted(parts, taken.keep(shadows)).map(Outcome::Decided).ok_or_else(wrong_answer)
}

/// Takes the parts that only shadow the take. They cannot fail it: one that does not answer counts as not charged.
async fn take_shadows<S: Store>(
    store: &Arc<S>,
    parts: &[Part],
    terms: &Terms,
    looks: &Looks,
    first: usize,
) -> Vec<Decision> {
    let mut decisions = Vec::new();
    for (index, (part, look)) in parts.iter().zip(&looks.0).enumerate().skip(first) {
        let take = part.operation(&Action::Take(terms_of_part(parts, index, terms)));
        decisions.push(match only(store.apply(&[take]).await) {
            Ok(Outcome::Decided(decision)) => decision,
            _ => Decision { would_deny: u16::MAX, ..look.decision.clone() },
        });
    }
    decisions
}

/// A repeated grant whose slots are free is over: another permit may hold them. The part that keeps the id has looked at its
/// own.
async fn still_held<S: Store>(
    store: &Arc<S>,
    parts: &[Part],
    terms: &Terms,
    repeated: Decision,
) -> Result<Outcome, StoreError> {
    let Some(Booking { permit, .. }) = repeated.booking().copied() else { return Err(wrong_answer()) };
    let others =
        parts.iter().enumerate().filter(|(index, part)| *index != keeper(parts) && part.holds_slots());
    let renewals: Vec<Operation> = others.map(|(_, part)| part.operation(&Action::Renew(permit))).collect();
    let held = renewals.is_empty()
        || store.apply(&renewals).await?.iter().all(|outcome| *outcome == Outcome::Renewed(true));
    let id = terms.call.as_ref().map(ToString::to_string).unwrap_or_default();
    Ok(if held { Outcome::Decided(repeated) } else { Outcome::Refused(Refusal::CallOver(id)) })
}

/// The parts that are taken so far. Dropped before all are, because the caller has gone, it returns them.
struct TakenParts<'p, S: Store> {
    store: Arc<S>,
    parts: &'p [Part],
    /// Of the first so many parts.
    decisions: Vec<Decision>,
    /// Whether they are returned already, or may belong to a grant.
    is_settled: bool,
}

impl<S: Store> TakenParts<'_, S> {
    /// What returns them, each by its own node's time.
    fn returns(&mut self) -> Vec<Operation> {
        let taken = self.parts.iter().zip(std::mem::take(&mut self.decisions));
        let give_back = |(part, decision): (&Part, Decision)| {
            let (booking, charges) = (*decision.booking()?, part.charged(&decision));
            let action = Action::Return { booking, remember: false };
            (!charges.is_empty()).then_some(Operation { charges, action })
        };
        taken.filter_map(give_back).collect()
    }

    /// Returns them, and waits for it: when a denial is answered, it has cost nothing.
    async fn undo(&mut self) {
        self.is_settled = true;
        let returns = self.returns();
        if !returns.is_empty()
            && let Err(error) = self.store.apply(&returns).await
        {
            tracing::warn!(%error, "a part of a denied take over several slots is not returned yet");
        }
    }

    /// Keeps them, and those that were taken after them.
    fn keep(mut self, others: Vec<Decision>) -> Vec<Decision> {
        self.is_settled = true;
        let mut decisions = std::mem::take(&mut self.decisions);
        decisions.extend(others);
        decisions
    }
}

impl<S: Store> Drop for TakenParts<'_, S> {
    fn drop(&mut self) {
        let returns = if self.is_settled { Vec::new() } else { self.returns() };
        if !returns.is_empty() {
            // It is sent even though no caller waits for its answer.
            drop(self.store.apply(&returns));
        }
    }
}

fn only(answer: StoreResult) -> Result<Outcome, StoreError> {
    answer?.pop().ok_or_else(wrong_answer)
}
