//! Settling a permit that was paid from a lease.

use std::sync::Arc;

use tollway_core::{Action, Charge, Cost, Outcome, Settled};

use super::Permit;
use crate::TakeError;
use crate::outage::fallback::cost_of;
use crate::take::debit::{debit, send};
use crate::take::pending_take::wrong_answer;

impl Permit {
    /// Returns unused units to the lease; an overrun that exceeds the lease is debited in the store.
    pub(super) async fn settle_leased(self, actual: Option<&Cost>) -> Result<Settled, TakeError> {
        let (charge, _) = self.charges.first();
        let policy = &charge.policy;
        let used = |unit| actual.map_or(0, |actual| actual.of(unit));
        let unused = cost_of(policy, |unit| charge.cost().of(unit).saturating_sub(used(unit)));
        let overrun = cost_of(policy, |unit| used(unit).saturating_sub(charge.cost().of(unit)));
        let settled = match self.remember {
            true => self.settle_once(&unused, overrun).await?,
            false => self.settle_in_lease(&unused, overrun).await?,
        };
        self.count_lost(settled);
        Ok(settled)
    }

    async fn settle_in_lease(&self, unused: &Cost, overrun: Cost) -> Result<Settled, TakeError> {
        let (charge, bound) = self.charges.first();
        let (policy, leases, subject) = (&charge.policy, bound.leases.as_ref(), charge.subject.as_str());
        let window_ends = self.booking.good_until;
        let credited = is_nothing(unused)
            || leases.is_some_and(|leases| leases.credit(policy, subject, unused.amounts(), window_ends));
        let now = bound.state.expiry_clock().now();
        let paid = is_nothing(&overrun)
            || leases.is_some_and(|leases| leases.spend(policy, subject, &overrun, now).is_some());
        if !paid {
            debit(&bound.state, policy, &charge.subject, overrun).await?;
        }
        Ok(if credited { Settled::Whole } else { Settled::Partly })
    }

    /// A lease does not remember permits, so a refund could be repeated; a permit that may exist twice gets none. Its
    /// overrun is debited in the store, which remembers it.
    async fn settle_once(&self, unused: &Cost, overrun: Cost) -> Result<Settled, TakeError> {
        if is_nothing(&overrun) {
            return Ok(if is_nothing(unused) { Settled::Whole } else { Settled::Dropped });
        }
        let (charge, bound) = self.charges.first();
        let nothing = cost_of(&charge.policy, |_| 0);
        let charge = Charge::new(Arc::clone(&charge.policy), charge.subject.clone()).with_cost(nothing);
        let actual = [overrun].into();
        let action = Action::Settle { booking: self.booking, actual, remember: true };
        match send(&bound.state, charge, action).await? {
            Outcome::Settled(Settled::Whole) if !is_nothing(unused) => Ok(Settled::Partly),
            Outcome::Settled(settled) => Ok(settled),
            Outcome::Refused(refusal) => Err(refusal.into()),
            _ => Err(wrong_answer().into()),
        }
    }
}

fn is_nothing(cost: &Cost) -> bool {
    cost.amounts().iter().all(|amount| *amount == 0)
}
