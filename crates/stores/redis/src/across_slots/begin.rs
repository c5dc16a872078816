//! `begin` of a permit over several slots: whether it is still good is seen in all parts; too late, it takes again.

use std::sync::Arc;

use tollway_core::{
    Action, Answer, Begun, Booking, CallId, Operation, Outcome, Outcomes, Store, StoreError, Terms,
};

use super::look;
use super::part::Part;
use super::take::take_asked;
use super::wrong_answer;

pub(super) fn begin<S: Store>(store: &Arc<S>, parts: Vec<Part>, booking: Booking, terms: &Terms) -> Answer {
    let store = Arc::clone(store);
    let again = Terms { call: Some(CallId::of_second_take(booking.permit)), ..terms.clone() };
    let asked = look::ask(&store, &parts, &again);
    Answer::Later(Box::pin(async move {
        let begun = begun(&store, &parts, booking, &again, asked).await?;
        Ok(Outcomes::from_buf([begun]))
    }))
}

async fn begun<S: Store>(
    store: &Arc<S>,
    parts: &[Part],
    booking: Booking,
    again: &Terms,
    asked: Answer,
) -> Result<Outcome, StoreError> {
    let looks = match look::answered(parts, asked).await? {
        Ok(looks) => looks,
        Err(refusal) => return Ok(Outcome::Refused(refusal)),
    };
    let (now, held_until) = (looks.now(), looks.held_until());
    if now < booking.at.max(held_until) {
        let until = if now < booking.at { booking.at } else { held_until };
        return Ok(Outcome::Begun(Begun::Early(until.since(now))));
    }
    if now < booking.good_until {
        return Ok(Outcome::Begun(Begun::Now));
    }
    // The permit's old slots must not block its second take. It is too late for the first one in any case.
    let slots = parts.iter().filter(|part| part.holds_slots());
    let frees: Vec<Operation> = slots.map(|part| part.operation(&Action::Done(booking.permit))).collect();
    if !frees.is_empty() {
        store.apply(&frees).await?;
    }
    let asked = look::ask(store, parts, again);
    match take_asked(store, parts, again, asked).await? {
        Outcome::Decided(decision) => Ok(Outcome::Begun(Begun::Again(decision))),
        refused @ Outcome::Refused(_) => Ok(refused),
        _ => Err(wrong_answer()),
    }
}
