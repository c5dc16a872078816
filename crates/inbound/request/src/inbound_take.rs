//! A take for an incoming request. Every protocol builds one, runs it, and shows its limits.

use std::time::Duration;

use smallvec::SmallVec;
use tollway::{Denied, Permit, PolicyHandle, Take, TakeError, Taken};
use tollway_core::{Decision, Limit, NewAccounts, Policy, Refusal};

use crate::headers::{HeaderChoice, LimitStatus, PolicyView};

/// What a request takes under one policy, with everything its response needs.
pub struct CountedCharge<'a> {
    /// The policy's handle, looked up before.
    pub handle: &'a PolicyHandle,
    /// The policy as it was in force at the lookup.
    pub policy: &'a Policy,
    /// The subject it counts for; empty is the policy's one shared subject.
    pub subject: &'a str,
    /// The amount of each unit; empty is one request.
    pub amounts: SmallVec<[(&'a str, u64); 2]>,
    /// The headers that show its limits.
    pub headers: HeaderChoice,
}

/// A take under one or several policies, all or nothing.
pub struct InboundTake<'a> {
    /// What is taken; at least one charge.
    pub charges: SmallVec<[CountedCharge<'a>; 1]>,
    /// How far ahead the permit's place in the queue may be; `None` takes now or not at all.
    pub wait: Option<Duration>,
    /// The caller's id; a take repeated with it counts once.
    pub id: Option<&'a str>,
    /// What happens to subjects without an account.
    pub new_accounts: NewAccounts,
}

/// How a take ends: with a permit or a denial. Both carry the [`Decision`].
pub type PermitOrDenied = Result<Permit, Denied>;

/// The decision, granted or denied.
pub fn decision_of(taken: &PermitOrDenied) -> &Decision {
    match taken {
        Ok(permit) => permit.decision(),
        Err(denied) => denied.decision(),
    }
}

impl<'a> InboundTake<'a> {
    /// A take of these charges, now or not at all.
    pub fn now(charges: impl IntoIterator<Item = CountedCharge<'a>>) -> Self {
        let new_accounts = NewAccounts::default();
        Self { charges: charges.into_iter().collect(), wait: None, id: None, new_accounts }
    }

    /// Runs the take on the limiter.
    pub async fn decide(&self) -> Result<PermitOrDenied, TakeError> {
        let taken = match (self.charges.first(), self.wait) {
            (None, _) => return Err(Refusal::ChargeCount(0).into()),
            (Some(first), None) => self.fill(first.handle.try_take()).await?,
            (Some(first), Some(wait)) => self.fill(first.handle.take().max_wait(wait)).book().await?,
        };
        Ok(match taken {
            Taken::Granted(granted) => Ok(granted.permit()),
            Taken::Denied(denied) => Err(denied),
        })
    }

    /// Adds every charge to a take under the first policy.
    fn fill<'l, Mode>(&'l self, mut take: Take<'l, Mode>) -> Take<'l, Mode> {
        for (index, charge) in self.charges.iter().enumerate() {
            if index > 0 {
                take = take.and_under(charge.handle);
            }
            take = take.subject(charge.subject);
            take = charge.amounts.iter().fold(take, |take, (unit, amount)| take.cost(unit, *amount));
        }
        if let Some(id) = self.id {
            take = take.id(id);
        }
        take = take.new_accounts(self.new_accounts);
        // A lease spends units without the store, so the remaining quota is unknown.
        let leased = self.charges.iter().any(|charge| charge.policy.leases());
        if leased { take } else { take.with_readings() }
    }

    /// The status of every limit after the decision; empty if the decision has no readings (made without the store, or from
    /// a lease). `beside_others`: the answer already shows limits of other policies.
    pub fn limit_statuses(&self, decision: &Decision, beside_others: bool) -> SmallVec<[LimitStatus<'a>; 4]> {
        let among_others = beside_others || self.charges.len() > 1;
        let denied_by = decision.denial().and_then(|denial| {
            let policy = self.charges.get(denial.charge)?.policy;
            Some((policy.name(), policy.limits().get(denial.limit).map(Limit::name)))
        });
        let mut statuses = SmallVec::new();
        for (charge, status) in self.charges.iter().zip(&decision.charges) {
            let policy = charge.policy;
            let view = PolicyView { policy, among_others, choice: charge.headers };
            // The cost of a decided take is valid.
            let cost = denied_by.and_then(|_| policy.cost(charge.amounts.iter().copied()).ok());
            let amount_of = |limit: usize| {
                let mut amounts = cost.iter().flat_map(|cost| policy.amounts(cost));
                amounts.nth(limit).map_or(1, |(_, amount)| amount)
            };
            statuses.extend(view.statuses(&status.readings, |index, limit, reading| {
                // The denying limit, and every other limit without room for the amount.
                denied_by.is_some_and(|(denying, denying_limit)| {
                    let named = (denying, denying_limit) == (policy.name(), Some(limit.name()));
                    named || amount_of(index) > reading.remaining
                })
            }));
        }
        statuses
    }
}
