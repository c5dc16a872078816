//! What a take would be answered, without taking.

use tollway_core::{Action, Answer, Outcome, Span, StoreResult, Terms};

use crate::take::pending_take::{PendingTake, wrong_answer};
use crate::{Denied, Take, TakeError, Tries};

impl Take<'_, Tries> {
    /// Why it would be denied now, with a reading of every limit; nothing if it would be granted. Nothing is taken.
    ///
    /// ```
    /// let limiter = tollway::Limiter::builder().policy("adobe", ["2 requests / minute"])?.build();
    /// assert!(limiter.try_take("adobe").preview_now()?.is_none());
    /// assert!(limiter.try_take("adobe").cost("requests", 2).now()?.is_granted());
    /// assert_eq!(limiter.try_take("adobe").preview_now()?.unwrap().decision().charges[0].readings[0].remaining, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn preview_now(self) -> Result<Option<Denied>, TakeError> {
        let mut take = self.into_pending()?;
        take.state().check_may_block()?;
        let result = match take.send_preview() {
            Answer::Now(Some(result)) => result,
            later => take.state().timers.block_on(later)?,
        };
        take.preview_of(result)
    }

    /// The same, on an async runtime.
    pub async fn preview(self) -> Result<Option<Denied>, TakeError> {
        let mut take = self.into_pending()?;
        let result = take.send_preview().await;
        take.preview_of(result)
    }
}

impl PendingTake {
    fn send_preview(&mut self) -> Answer {
        let terms = Terms { max_wait: Span::ZERO, readings: true, ..self.terms.clone() };
        self.charges.send(Action::Preview(terms))
    }

    fn preview_of(self, result: StoreResult) -> Result<Option<Denied>, TakeError> {
        match result?.pop() {
            Some(Outcome::Decided(decision)) if decision.is_granted() => Ok(None),
            Some(Outcome::Decided(decision)) => Ok(Some(self.denied(decision))),
            Some(Outcome::Refused(refusal)) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }
}
