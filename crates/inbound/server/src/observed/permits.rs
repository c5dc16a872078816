//! The permits whose answers were reported: each once, and within its life.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollway::Timestamp;
use tollway::core::{Booking, PermitId};

use crate::bounds::OBSERVED_PERMITS_MAX;
use crate::http::Problem;

#[derive(Default)]
pub(super) struct ObservedPermits(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    /// In the order of their grants.
    permits: BTreeSet<(Timestamp, PermitId)>,
    /// Permits that were granted until then are no longer known one by one.
    forgotten_until: Timestamp,
}

impl ObservedPermits {
    /// Notes a permit that lives until this time.
    pub(super) fn note(&self, booking: &Booking, until: Timestamp, now: Timestamp) -> Result<(), Problem> {
        let mut remembered = self.lock();
        if now > until || booking.granted_at <= remembered.forgotten_until {
            return Err(Problem::observed_too_late());
        }
        if !remembered.permits.insert((booking.granted_at, booking.permit)) {
            return Err(Problem::observed_before());
        }
        if remembered.permits.len() > OBSERVED_PERMITS_MAX
            && let Some((granted_at, _)) = remembered.permits.pop_first()
        {
            remembered.forgotten_until = granted_at;
        }
        Ok(())
    }

    /// Forgets a permit whose answer had no effect.
    pub(super) fn forget(&self, booking: &Booking) {
        self.lock().permits.remove(&(booking.granted_at, booking.permit));
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn booking(number: usize) -> Booking {
        let granted_at = Timestamp::from_secs(u64::try_from(number).unwrap());
        let permit = PermitId(u128::try_from(number).unwrap());
        Booking { permit, granted_at, at: granted_at, good_until: Timestamp::MAX }
    }

    fn status(permits: &ObservedPermits, number: usize, now: Timestamp) -> u16 {
        permits.note(&booking(number), Timestamp::MAX, now).map_or_else(|problem| problem.status(), |()| 200)
    }

    /// Also when so many were noted that old ones are no longer known: those are too late.
    #[test]
    fn no_permit_is_noted_twice() {
        let (permits, now) = (ObservedPermits::default(), Timestamp::from_secs(1));
        for number in 1..=OBSERVED_PERMITS_MAX + 5 {
            assert_eq!(status(&permits, number, now), 200);
        }
        assert_eq!(permits.lock().permits.len(), OBSERVED_PERMITS_MAX);
        for number in [1, 5, 6, OBSERVED_PERMITS_MAX + 5] {
            assert_eq!(status(&permits, number, now), 409, "{number}");
        }
    }

    #[test]
    fn permit_is_noted_until_its_life_ends() {
        let (permits, end) = (ObservedPermits::default(), Timestamp::from_secs(60));
        assert!(permits.note(&booking(1), end, end.plus(tollway::Span::from_millis(1))).is_err());
        assert!(permits.note(&booking(1), end, end).is_ok());
        permits.forget(&booking(1));
        assert!(permits.note(&booking(1), end, end).is_ok());
    }
}
