//! What a vendor's answers say, told to the store, so that all processes that call the vendor know it.

use tollway_core::controller::{Controller, QuotaLeft};
use tollway_core::{Action, Feedback, Learned, Outcome, Span};

use crate::take::bound_charges::BoundCharges;
use crate::take::pending_take::wrong_answer;
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

    /// What is left of the vendor's quotas for a policy, as the newest answers showed it to any process: the vendor's word,
    /// not a count of takes. Only a policy whose api has `rate = "auto"` knows it, while the vendor shows it.
    pub fn quotas_left(&self, policy: &str) -> Pending<Vec<QuotaLeft>> {
        let charges = self.find(policy).map(BoundCharges::shared);
        let state = charges.as_ref().ok().map(|charges| charges.state().clone());
        Pending::new(state, move |subject| async move {
            let mut charges = charges?;
            let Some(charge) = charges.last_mut() else { return Ok(Vec::new()) };
            if !charge.policy.limits().iter().any(|limit| limit.is_adaptive()) {
                return Ok(Vec::new());
            }
            charge.subject = subject;
            let learned = read(charges.send(Action::Feedback(Feedback::default())).await?.pop())?;
            Ok(quotas_in(&learned).unwrap_or_default())
        })
    }
}

/// A state that another version wrote, and this one cannot read, says nothing.
fn quotas_in(learned: &Learned) -> Option<Vec<QuotaLeft>> {
    let rate = learned.rate.as_ref()?;
    let controller: Controller = serde_json::from_str(&rate.controller).ok()?;
    Some(controller.quotas_left(learned.now, rate.grants))
}

fn read(outcome: Option<Outcome>) -> Result<Learned, TakeError> {
    match outcome {
        Some(Outcome::Learned(learned)) => Ok(learned),
        Some(Outcome::Refused(refusal)) => Err(refusal.into()),
        _ => Err(wrong_answer().into()),
    }
}
