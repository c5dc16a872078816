//! Settling a permit that was paid from a lease.

use tollway_core::{Cost, Outcome, Party, Settled, Verb};

use super::Permit;
use crate::TakeError;
use crate::debit::{debit, send};
use crate::fallback::cost_of;
use crate::request::wrong_answer;

impl Permit {
    /// Puts the lease right; an overrun that it does not hold is debited in the store.
    pub(super) async fn settle_leased(self, actual: Option<&Cost>) -> Result<Settled, TakeError> {
        let ask = self.asks.first();
        let policy = &ask.bound.policy;
        let used = |unit| actual.map_or(0, |actual| actual.of(unit));
        let unused = cost_of(policy, |unit| ask.cost().of(unit).saturating_sub(used(unit)));
        let overrun = cost_of(policy, |unit| used(unit).saturating_sub(ask.cost().of(unit)));
        let settled = match self.remember {
            true => self.settle_once(&unused, overrun).await?,
            false => self.settle_in_lease(&unused, overrun).await?,
        };
        self.count_lost(settled);
        Ok(settled)
    }

    async fn settle_in_lease(&self, unused: &Cost, overrun: Cost) -> Result<Settled, TakeError> {
        let ask = self.asks.first();
        let (policy, leases, subject) = (&ask.bound.policy, ask.bound.leases.as_ref(), ask.subject.as_str());
        let window_ends = self.booking.good_until;
        let credited = is_nothing(unused)
            || leases.is_some_and(|leases| leases.credit(policy, subject, unused.amounts(), window_ends));
        let now = ask.bound.shared.clock.now();
        let paid = is_nothing(&overrun)
            || leases.is_some_and(|leases| leases.spend(policy, subject, &overrun, now).is_some());
        if !paid {
            debit(&ask.bound.shared, policy, &ask.subject, overrun).await?;
        }
        Ok(if credited { Settled::Whole } else { Settled::Partly })
    }

    /// A lease remembers no permits. So one that may be in other hands too gets nothing back, which could be said again and
    /// again; and what it took more is debited by the store, which remembers that.
    async fn settle_once(&self, unused: &Cost, overrun: Cost) -> Result<Settled, TakeError> {
        if is_nothing(&overrun) {
            return Ok(if is_nothing(unused) { Settled::Whole } else { Settled::Dropped });
        }
        let ask = self.asks.first();
        let policy = &*ask.bound.policy;
        let nothing = cost_of(policy, |_| 0);
        let party = Party { policy, subject: &ask.subject, cost: &nothing };
        let verb = Verb::Settle { booking: self.booking, actual: &[overrun], remember: true };
        match send(&ask.bound.shared, party, verb).await? {
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
