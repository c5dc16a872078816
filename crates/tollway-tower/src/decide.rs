//! From a request to a decision, and from a decision to what its caller is told.

use std::sync::Arc;

use http::request::Parts;
use smallvec::SmallVec;
use tollway::core::Decision;
use tollway::{Denied, Limit, Permit, Policy, Span, Taken, Timestamp};
use tollway_inbound::headers::{Denial, HeaderChoice, Judged, Shown};

use crate::call::{Call, Counted, Rules};
use crate::problem::Problem;

/// Granted or denied.
pub(crate) enum Verdict {
    Granted(Permit),
    Denied(Denied),
}

/// What was decided of a request.
pub(crate) struct Decided {
    pub(crate) verdict: Verdict,
    /// Whether it showed no credentials although there are some to show.
    pub(crate) anonymous: bool,
    policy: Arc<Policy>,
    headers: HeaderChoice,
    /// What it was to take of each limit that shows how much is left.
    charges: SmallVec<[u64; 4]>,
}

/// Takes what the request costs, now or not at all. Nothing is decided of a request that is free.
pub(crate) async fn decide(rules: &Rules, request: &Parts) -> Result<Option<Decided>, Problem> {
    let Call::Counted(counted) = rules.call(request).await? else { return Ok(None) };
    let Counted { handle, subject, costs, headers, anonymous } = counted;
    let policy = handle.policy();
    let cost = policy.cost(costs.iter().copied()).map_err(tollway::TakeError::from)?;
    let charges = policy.amounts(&cost).map(|(_, amount)| amount).collect();
    let take = handle.try_take().subject(&subject);
    let take = costs.iter().fold(take, |take, (unit, amount)| take.cost(unit, *amount));
    // Units of a lease are spent without asking the store, which alone knows what is left.
    let take = if policy.leases() { take } else { take.with_readings() };
    let verdict = match take.await? {
        Taken::Granted(granted) => Verdict::Granted(granted.permit()),
        Taken::Denied(denied) => Verdict::Denied(denied),
    };
    Ok(Some(Decided { verdict, anonymous, policy, headers, charges }))
}

impl Decided {
    /// Every limit with what is left of it; none where nobody could tell: without the store, or from a lease.
    pub(crate) fn shown(&self, among_others: bool) -> SmallVec<[Shown<'_>; 4]> {
        let judged = Judged { policy: &self.policy, among_others, choice: self.headers };
        let charge = |limit| self.charges.get(limit).copied().unwrap_or_default();
        let readings = self.decision().charges.iter().flat_map(|charge| &charge.readings);
        judged.shown(readings, self.denial(), charge).collect()
    }

    fn denial(&self) -> Option<Denial<'_>> {
        let Verdict::Denied(denied) = &self.verdict else { return None };
        Some(Denial { policy: denied.policy().name(), limit: denied.limit().map(Limit::name) })
    }

    /// The permit, if it holds a slot: units stay spent whatever becomes of it.
    pub(crate) fn slot(self) -> Option<Permit> {
        match self.verdict {
            Verdict::Granted(permit) if self.policy.holds_slots() => Some(permit),
            _ => None,
        }
    }

    fn decision(&self) -> &Decision {
        match &self.verdict {
            Verdict::Granted(permit) => permit.decision(),
            Verdict::Denied(denied) => denied.decision(),
        }
    }

    /// When it was decided, by the clock of its readings.
    pub(crate) fn now(&self) -> Timestamp {
        self.decision().now
    }

    /// When to come back, of a denial.
    pub(crate) fn retry_after(&self) -> Option<Span> {
        match &self.verdict {
            Verdict::Granted(_) => None,
            Verdict::Denied(denied) => Some(denied.retry_after().into()),
        }
    }
}
