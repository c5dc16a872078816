//! A decision, whatever language it was asked in: the one way from every protocol to the limiter.

use std::rc::Rc;
use std::time::Duration;

use smallvec::SmallVec;
use tollway::core::{Decision, Refusal};
use tollway::{Denied, Limit, Permit, Span, Take, TakeError, Taken, Timestamp};
use tollway_inbound::headers::{Denial, Judged, Shown};

use crate::known::Known;
use crate::worker::Worker;

/// What is asked.
pub(crate) struct Question<'a> {
    /// Under which policies, all or nothing; at least one.
    pub(crate) parties: SmallVec<[Party<'a>; 1]>,
    /// How far ahead a place in line may lie; nothing: now or not at all.
    pub(crate) wait: Option<Duration>,
    /// The caller's id, under which it counts once.
    pub(crate) id: Option<&'a str>,
}

/// One policy of a question.
pub(crate) struct Party<'a> {
    pub(crate) policy: &'a str,
    pub(crate) subject: &'a str,
    /// What is taken of each unit; one request if nothing is said.
    pub(crate) cost: SmallVec<[(&'a str, u64); 2]>,
}

/// What was decided.
pub(crate) struct Decided<'a> {
    pub(crate) parties: Parties<'a>,
    pub(crate) verdict: Verdict,
}

/// Whom it was decided for, under policies as they were in force then.
pub(crate) struct Parties<'a>(SmallVec<[(Party<'a>, Rc<Known>); 1]>);

/// Granted or denied.
pub(crate) enum Verdict {
    Granted(Permit),
    Denied(Denied),
}

/// Decides.
pub(crate) async fn decide<'a>(worker: &Worker, question: Question<'a>) -> Result<Decided<'a>, TakeError> {
    let Question { parties, wait, id } = question;
    let look_up = |party: Party<'a>| {
        let known = worker.policies.find(&worker.shared, party.policy)?;
        Ok((party, known))
    };
    let parties = Parties(parties.into_iter().map(look_up).collect::<Result<_, TakeError>>()?);
    decide_under(parties, wait, id).await
}

/// Decides under policies that are looked up already.
pub(crate) async fn decide_under<'a>(
    parties: Parties<'a>,
    wait: Option<Duration>,
    id: Option<&str>,
) -> Result<Decided<'a>, TakeError> {
    let taken = match (parties.0.first(), wait) {
        (None, _) => return Err(Refusal::ChargeCount(0).into()),
        (Some((_, first)), None) => parties.phrase(first.handle.try_take(), id).await?,
        (Some((_, first)), Some(wait)) => {
            parties.phrase(first.handle.take().max_wait(wait), id).book().await?
        }
    };
    let verdict = match taken {
        Taken::Granted(granted) => Verdict::Granted(granted.permit()),
        Taken::Denied(denied) => Verdict::Denied(denied),
    };
    Ok(Decided { parties, verdict })
}

impl<'a> Parties<'a> {
    pub(crate) fn new(parties: SmallVec<[(Party<'a>, Rc<Known>); 1]>) -> Self {
        Self(parties)
    }
}

impl Parties<'_> {
    /// Puts what is asked to a take under the first policy.
    fn phrase<'l, Mode>(&'l self, mut take: Take<'l, Mode>, id: Option<&str>) -> Take<'l, Mode> {
        for (index, (party, known)) in self.0.iter().enumerate() {
            if index > 0 {
                take = take.and_under(&known.handle);
            }
            take = take.subject(party.subject);
            take = party.cost.iter().fold(take, |take, (unit, amount)| take.cost(unit, *amount));
        }
        if let Some(id) = id {
            take = take.id(id);
        }
        // Units of a lease are spent without asking the store, which alone knows what is left.
        let leased = self.0.iter().any(|(_, known)| known.policy.leases());
        if leased { take } else { take.with_readings() }
    }

    /// Every limit with what is left of it; none where nobody could tell: without the store, or from a lease.
    pub(crate) fn shown(&self, verdict: &Verdict) -> SmallVec<[Shown<'_>; 4]> {
        let mut readings = verdict.decision().charges.iter().flat_map(|charge| &charge.readings);
        let mut shown = SmallVec::new();
        for (party, known) in &self.0 {
            let Known { policy, headers, .. } = &**known;
            let judged = Judged { policy, among_others: self.0.len() > 1, choice: *headers };
            let charge = |limit| party.charge(known, limit);
            shown.extend(judged.shown(readings.by_ref(), verdict.denial(), charge));
        }
        shown
    }
}

impl Party<'_> {
    /// What it takes of a limit of its policy.
    fn charge(&self, known: &Known, limit: usize) -> u64 {
        // What was decided was understood, so this is a cost.
        let cost = known.policy.cost(self.cost.iter().copied());
        cost.ok()
            .and_then(|cost| known.policy.amounts(&cost).nth(limit).map(|(_, amount)| amount))
            .unwrap_or(1)
    }
}

impl Verdict {
    fn decision(&self) -> &Decision {
        match self {
            Self::Granted(permit) => permit.decision(),
            Self::Denied(denied) => denied.decision(),
        }
    }

    fn denial(&self) -> Option<Denial<'_>> {
        let Self::Denied(denied) = self else { return None };
        Some(Denial { policy: denied.policy().name(), limit: denied.limit().map(Limit::name) })
    }

    /// When it was decided, by the clock of its readings.
    pub(crate) fn now(&self) -> Timestamp {
        self.decision().now
    }

    /// When to come back, of a denial.
    pub(crate) fn retry_after(&self) -> Option<Span> {
        match self {
            Self::Granted(_) => None,
            Self::Denied(denied) => Some(denied.retry_after().into()),
        }
    }
}
