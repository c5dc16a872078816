//! What a vendor's answers say, told to the store, so that all processes that call the vendor know it.

use tollway_core::{Action, Feedback, Learned, Outcome, Span};

use crate::bound_charges::BoundCharges;
use crate::pending_take::wrong_answer;
use crate::{Limiter, Pending, TakeError};

impl Limiter {
    /// Tells the store what a vendor's answers say about a policy: a hold, what is left of limits, a new rate. Returns what
    /// the account has learned. [`Feedback::default`] only reads.
    ///
    /// While the store does not answer, this fails, and the hold applies to takes that are decided without it.
    ///
    /// ```
    /// use tollway::Span;
    /// use tollway::core::Feedback;
    ///
    /// let limiter = tollway::Limiter::builder().policy("gemini", ["5 / minute"])?.build();
    /// let learned = limiter.feedback("gemini", Feedback { hold: Span::from_secs(30), ..Feedback::default() }).now()?;
    /// assert_eq!(learned.held_until, Some(learned.now.plus(Span::from_secs(30))));
    ///
    /// let denied = limiter.try_take("gemini").now()?.denied().unwrap();
    /// assert!(denied.held());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn feedback(&self, policy: &str, feedback: Feedback) -> Pending<Learned> {
        let charges = self.find(policy).map(BoundCharges::shared);
        let state = charges.as_ref().ok().map(|charges| charges.state().clone());
        Pending::new(state, move |subject| async move {
            let mut charges = charges?;
            if let Some(charge) = charges.last_mut() {
                charge.subject = subject;
            }
            let hold = feedback.hold;
            let answer = charges.send(Action::Feedback(feedback)).await;
            let fallback = &charges.state().fallback;
            match answer.map_err(TakeError::from).and_then(|mut outcomes| read(outcomes.pop())) {
                Ok(learned) => {
                    // The store may fail before the hold ends.
                    let held_for = learned.held_until.map_or(Span::ZERO, |until| until.since(learned.now));
                    fallback.hold(charges.charges(), held_for);
                    fallback.learn_rate(charges.charges(), &learned);
                    Ok(learned)
                }
                Err(error) => {
                    fallback.hold(charges.charges(), hold);
                    Err(error)
                }
            }
        })
    }
}

fn read(outcome: Option<Outcome>) -> Result<Learned, TakeError> {
    match outcome {
        Some(Outcome::Learned(learned)) => Ok(learned),
        Some(Outcome::Refused(refusal)) => Err(refusal.into()),
        _ => Err(wrong_answer().into()),
    }
}
