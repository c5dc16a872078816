//! A job's turn at the vendor: the permit that was taken for it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Mutex;
use tollway::{Permit, TakeError};

/// A job's turn at the vendor. A job that takes nothing may always begin.
#[derive(Clone, Default)]
pub struct Turn(Arc<Mutex<TurnState>>);

#[derive(Default)]
struct TurnState {
    permit: Option<Permit>,
    begun: bool,
}

impl Turn {
    pub(crate) fn new(permit: Option<Permit>) -> Self {
        Self(Arc::new(Mutex::new(TurnState { permit, begun: false })))
    }

    /// Makes sure that the call may go out now; waits if the vendor holds calls back. Only the first call does something.
    pub async fn begin(&self) -> Result<(), TakeError> {
        let mut state = self.0.lock().await;
        let begun = state.begun;
        if let Some(permit) = state.permit.as_mut().filter(|_| !begun) {
            permit.begin().await?;
        }
        state.begun = true;
        Ok(())
    }

    /// The handler gets the job now. If its permit is over since the call began, because the process was stopped, it begins again.
    pub(crate) async fn hand_over(&self) -> Result<(), TakeError> {
        let mut state = self.0.lock().await;
        let begun = state.begun;
        match state.permit.as_mut().filter(|_| begun) {
            Some(permit) => permit.begin().await,
            None => Ok(()),
        }
    }

    /// The call did not go out after all: its permit is to be given back.
    pub(crate) async fn not_called(&self) {
        self.0.lock().await.begun = false;
    }

    /// The vendor refused the call although it had a permit: an incident.
    pub(crate) async fn refused(&self, said: &str) {
        if let Some(permit) = &self.0.lock().await.permit {
            permit.refused_by_vendor(said).await;
        }
    }

    /// The permit, once, and whether the call has begun.
    pub(crate) async fn end(&self) -> (Option<Permit>, bool) {
        let mut state = self.0.lock().await;
        (state.permit.take(), state.begun)
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollway::Limiter;
    use tollway_core::{Span, Timestamp};
    use tollway_testkit::ManualClock;

    use super::*;

    /// The process was stopped between the two: its permit's window is over, and the call must count in the next one.
    #[tokio::test]
    async fn job_that_was_not_handed_over_in_its_window_begins_again() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(500_000 * 3_600)));
        let limiter = Limiter::builder().policy("adobe", ["2 / hour"]).unwrap().clock(clock.clone()).build();
        let turn = Turn::new(Some(limiter.take("adobe").await.unwrap()));
        turn.begin().await.unwrap();
        turn.hand_over().await.unwrap();
        assert_eq!(limiter.usage("adobe").await.unwrap().limits[0].used, 1);
        clock.advance(Span::from_hours(1));
        assert_eq!(limiter.usage("adobe").await.unwrap().limits[0].used, 0);
        turn.hand_over().await.unwrap();
        assert_eq!(limiter.usage("adobe").await.unwrap().limits[0].used, 1);
    }

    #[tokio::test]
    async fn permit_of_a_call_that_did_not_go_out_is_given_back() {
        let limiter = Limiter::builder().policy("adobe", ["2 / hour"]).unwrap().build();
        let turn = Turn::new(Some(limiter.take("adobe").await.unwrap()));
        turn.begin().await.unwrap();
        turn.not_called().await;
        let (permit, begun) = turn.end().await;
        assert!(permit.is_some() && !begun);
    }
}
