//! What a take would be answered, without taking.

use tollway_core::{Answer, Decision, Outcome, Span, StoreResult, Terms, Verb};

use crate::bound::next_permit;
use crate::request::{Request, wrong_answer};
use crate::{Denied, Take, TakeError, Tries};

impl Take<'_, Tries> {
    /// Why it would be denied now, with a reading of every limit; nothing if it would be granted. Nothing is taken.
    ///
    /// ```
    /// let limiter = tollway::Limiter::builder().policy("adobe", ["2 requests / minute"])?.build();
    /// assert!(limiter.try_take("adobe").preview_now()?.is_none());
    /// assert!(limiter.try_take("adobe").cost("requests", 2).now()?.is_granted());
    /// assert_eq!(limiter.try_take("adobe").preview_now()?.unwrap().readings()[0].remaining, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn preview_now(self) -> Result<Option<Denied>, TakeError> {
        let request = self.into_request()?;
        request.shared().may_block()?;
        let result = match request.send_preview() {
            Answer::Now(Some(result)) => result,
            later => request.shared().timers.block_on(later)?,
        };
        request.foresee(result)
    }

    /// The same, on an async runtime.
    pub async fn preview(self) -> Result<Option<Denied>, TakeError> {
        let request = self.into_request()?;
        let result = request.send_preview().await;
        request.foresee(result)
    }
}

impl Request {
    fn send_preview(&self) -> Answer {
        let call = self.call();
        let terms = Terms { permit: next_permit(), max_wait: Span::ZERO, call, readings: true };
        self.asks.send(Verb::Preview(terms))
    }

    fn foresee(self, result: StoreResult) -> Result<Option<Denied>, TakeError> {
        match result?.pop() {
            Some(Outcome::Decided(Decision::Granted(_))) => Ok(None),
            Some(Outcome::Decided(Decision::Denied(denial))) => Ok(Some(self.denied(denial, false))),
            Some(Outcome::Refused(refusal)) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }
}
