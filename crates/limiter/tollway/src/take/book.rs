//! Booking: a take granted for a later time, where the caller does the waiting.

use tollway_core::Span;

use crate::metrics::count;
use crate::{Take, TakeError, Taken, Waits};

impl Take<'_, Waits> {
    /// Joins the queue and returns at once: granted for now or for a later time ([`Permit::delay`]) within the longest
    /// wait, or denied. Dropping the future before it is ready returns the booking; dropping the permit does not.
    ///
    /// Takes under several policies, `sliding` and `concurrency` limits cannot be booked: they are granted now or denied.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// use tollway::{Durations, Limiter};
    ///
    /// let limiter = Limiter::builder().policy("notion", ["3 requests / second paced"])?.build();
    /// let delay = async || limiter.take("notion").max_wait(10.seconds()).book().await.map(|taken| taken.granted().unwrap().delay());
    /// assert!(delay().await?.is_zero());
    /// assert!(!delay().await?.is_zero());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// [`Permit::delay`]: crate::Permit::delay
    pub async fn book(self) -> Result<Taken<'static>, TakeError> {
        let mut take = self.into_pending()?;
        let wait = if take.may_book() { take.longest_wait() } else { Span::ZERO };
        let taken = take.send_and_wait(wait).await;
        count(&taken);
        if let Ok(Taken::Granted(granted)) = &taken {
            granted.count_waiting();
        }
        taken
    }
}
