//! How many calls a vendor runs at the same time, found from its refusals.
//!
//! A call that was refused as the fifth in flight shows that at most four fit: the vendor runs no more calls than this
//! process has in flight. From then on calls wait for one of four places. One more is tried now and then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Accepted calls that pay for the refusal of one more: two refusals in a thousand.
const CALLS_PER_PROBE: u64 = 500;

/// The calls of one api in flight in this process.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    calls: Mutex<Calls>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    /// Calls that have a place, and those of them that were sent.
    places: u64,
    sent: u64,
    /// The most that fit, as far as refusals have shown.
    most: Option<u64>,
    /// Calls accepted since then while all places were taken.
    accepted: u64,
}

/// A call's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Flight {
    in_flight: Arc<InFlight>,
    /// How many calls were in flight with this one when it was sent; 0 before.
    number: u64,
}

impl InFlight {
    /// Waits for a place, at most this long.
    pub(crate) async fn join(self: &Arc<Self>, longest: Duration) -> Option<Flight> {
        if let Some(flight) = self.try_join() {
            return Some(flight);
        }
        let place = async {
            loop {
                let left = self.left.notified();
                if let Some(flight) = self.try_join() {
                    return flight;
                }
                left.await;
            }
        };
        tokio::time::timeout(longest, place).await.ok()
    }

    fn try_join(self: &Arc<Self>) -> Option<Flight> {
        let mut calls = self.lock();
        if calls.most.is_some_and(|most| calls.places >= most) {
            return None;
        }
        calls.places += 1;
        if calls.most.is_some_and(|most| calls.places < most) {
            // Of two places that became free at once, a waiting call may have been told of one only.
            self.left.notify_one();
        }
        Some(Flight { in_flight: Arc::clone(self), number: 0 })
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// The call is sent now.
    pub(crate) fn sent(&mut self) {
        let mut calls = self.in_flight.lock();
        calls.sent += 1;
        self.number = calls.sent;
    }

    /// The vendor refused this call because too many were running.
    pub(crate) fn refused(&self) {
        let mut calls = self.in_flight.lock();
        let fit = self.number.saturating_sub(1).max(1);
        calls.most = Some(calls.most.map_or(fit, |most| most.min(fit)));
        calls.accepted = 0;
    }

    /// The vendor accepted this call.
    pub(crate) fn accepted(&self) {
        let mut calls = self.in_flight.lock();
        let Some(most) = calls.most.filter(|most| self.number >= *most) else { return };
        calls.accepted += 1;
        if calls.accepted >= CALLS_PER_PROBE {
            (calls.most, calls.accepted) = (Some(most + 1), 0);
            drop(calls);
            self.in_flight.left.notify_one();
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut calls = self.in_flight.lock();
        calls.places = calls.places.saturating_sub(1);
        calls.sent = calls.sent.saturating_sub(u64::from(self.number > 0));
        drop(calls);
        self.in_flight.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(in_flight: &Arc<InFlight>) -> Vec<Flight> {
        let flights = std::iter::from_fn(|| {
            let mut flight = in_flight.try_join()?;
            flight.sent();
            Some(flight)
        });
        flights.take(20).collect()
    }

    #[test]
    fn refusals_of_one_burst_show_how_many_fit() {
        let in_flight = Arc::new(InFlight::default());
        let flights = joined(&in_flight);
        flights.iter().skip(4).for_each(Flight::refused);
        drop(flights);
        assert_eq!(joined(&in_flight).len(), 4);
    }

    #[test]
    fn one_more_is_tried_when_accepted_calls_have_paid_for_it() {
        let in_flight = Arc::new(InFlight::default());
        joined(&in_flight).iter().skip(2).for_each(Flight::refused);
        for _ in 0..CALLS_PER_PROBE {
            let flights = joined(&in_flight);
            assert_eq!(flights.len(), 2);
            flights.iter().for_each(Flight::accepted);
        }
        let flights = joined(&in_flight);
        assert_eq!(flights.len(), 3);
        flights[2].refused();
        drop(flights);
        assert_eq!(joined(&in_flight).len(), 2);
    }

    #[test]
    fn places_that_callers_leave_empty_are_no_reason_for_more() {
        let in_flight = Arc::new(InFlight::default());
        joined(&in_flight).iter().skip(2).for_each(Flight::refused);
        for _ in 0..2 * CALLS_PER_PROBE {
            let mut flight = in_flight.try_join().unwrap();
            flight.sent();
            flight.accepted();
        }
        assert_eq!(joined(&in_flight).len(), 2);
    }

    #[tokio::test]
    async fn calls_wait_for_a_place() {
        let in_flight = Arc::new(InFlight::default());
        let mut flights = joined(&in_flight);
        flights[1].refused();
        assert!(in_flight.join(Duration::from_millis(1)).await.is_none());
        let waiting = tokio::spawn({
            let in_flight = Arc::clone(&in_flight);
            async move { in_flight.join(Duration::from_secs(60)).await.is_some() }
        });
        tokio::task::yield_now().await;
        flights.clear();
        assert!(waiting.await.unwrap());
    }
}
