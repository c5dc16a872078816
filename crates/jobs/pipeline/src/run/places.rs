//! Places at the vendor: permits that were taken before their jobs are claimed.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollway::{Denied, Durations, Limiter, Permit, TakeError, Taken};
use tollway_core::{Algorithm, Clock, Span, Subject, Timestamp};

use crate::JobCost;

/// How far ahead a place is booked. Short, so that a raised limit is used soon.
const BOOK_AHEAD_SECONDS: u64 = 30;

/// How soon a denied take is repeated at the latest: an operator may have raised the limit.
const RECHECK_AFTER: Span = Span::from_secs(10);

/// A slot may become free at any time.
const RECHECK_SLOTS_AFTER: Span = Span::from_millis(200);

/// The places of every cost.
pub(super) struct Places {
    limiter: Limiter,
    clock: Arc<dyn Clock>,
    subject: Subject,
    costs: BTreeMap<JobCost, OfCost>,
}

/// The places of one cost.
#[derive(Default)]
struct OfCost {
    due: Vec<Permit>,
    /// At most one that is not due: the others would only wait behind it.
    booked: Option<(Permit, Timestamp)>,
    denied: Option<Wait>,
}

impl OfCost {
    fn count(&self) -> usize {
        self.due.len() + usize::from(self.booked.is_some())
    }
}

/// A take that was denied.
#[derive(Clone, Copy)]
struct Wait {
    /// When to repeat it.
    again_at: Timestamp,
    /// When it fits, as the denial said.
    fits_at: Timestamp,
    /// It waits for a slot, which a worker that ends gives free.
    slots: bool,
}

impl Places {
    /// No places yet. Their times are by this clock.
    pub(super) fn new(limiter: Limiter, clock: Arc<dyn Clock>, subject: Subject) -> Self {
        Self { limiter, clock, subject, costs: BTreeMap::new() }
    }

    /// How many places there are, due or not, of other costs than this one.
    pub(super) fn of_others(&self, cost: &JobCost) -> usize {
        let others = self.costs.iter().filter(|(known, _)| *known != cost);
        others.map(|(_, places)| places.count()).sum()
    }

    /// How many places there are, due or not.
    pub(super) fn count(&self) -> usize {
        self.costs.values().map(OfCost::count).sum()
    }

    /// Takes until `wanted` places are due, or the next one is not due yet. How many are due.
    pub(super) async fn fill(&mut self, cost: &JobCost, wanted: usize) -> Result<usize, TakeError> {
        let (limiter, clock, subject) = (self.limiter.clone(), self.clock.clone(), self.subject.clone());
        let places = self.costs.entry(cost.clone()).or_default();
        let now = clock.now();
        if let Some((permit, _)) = places.booked.take_if(|(_, at)| *at <= now) {
            places.due.push(permit);
        }
        places.denied.take_if(|wait| wait.again_at <= now);
        while places.due.len() < wanted && places.booked.is_none() && places.denied.is_none() {
            match take(&limiter, &subject, cost).await? {
                Taken::Granted(granted) => {
                    let permit = granted.permit();
                    match Span::from_micros(u64::try_from(permit.delay().as_micros()).unwrap_or(u64::MAX)) {
                        Span::ZERO => places.due.push(permit),
                        delay => places.booked = Some((permit, clock.now().plus(delay))),
                    }
                }
                Taken::Denied(denied) => places.denied = Some(wait_of(&denied, clock.now())),
            }
        }
        Ok(places.due.len())
    }

    /// When the next place of this cost may be due, and the time to show, if it has to be waited for.
    pub(super) fn waits_until(&self, cost: &JobCost) -> Option<(Timestamp, Timestamp)> {
        let places = self.costs.get(cost)?;
        let booked = places.booked.as_ref().map(|(_, at)| (*at, *at));
        booked.or_else(|| places.denied.map(|wait| (wait.again_at, wait.fits_at)))
    }

    /// Remembers not to take this cost before a time.
    pub(super) fn wait(&mut self, cost: &JobCost, until: Timestamp) {
        self.costs.entry(cost.clone()).or_default().denied =
            Some(Wait { again_at: until, fits_at: until, slots: false });
    }

    /// A worker has ended, and its slot with it: a denied take may be granted now.
    pub(super) fn slot_freed(&mut self) {
        for places in self.costs.values_mut() {
            places.denied = places.denied.filter(|wait| !wait.slots);
        }
    }

    /// Uses a place that is due.
    pub(super) fn pop(&mut self, cost: &JobCost) -> Option<Permit> {
        self.costs.get_mut(cost)?.due.pop()
    }

    /// The costs with places that are due, and how many.
    pub(super) fn due(&self) -> Vec<(JobCost, usize)> {
        let due = self.costs.iter().filter(|(_, places)| !places.due.is_empty());
        due.map(|(cost, places)| (cost.clone(), places.due.len())).collect()
    }

    /// Gives the due places of a cost back.
    pub(super) async fn give_back(&mut self, cost: &JobCost) {
        if let Some(places) = self.costs.get_mut(cost) {
            give_back(std::mem::take(&mut places.due)).await;
        }
    }

    /// Gives back booked places whose cost no stage asks for any more, and forgets what is not waited for.
    pub(super) async fn keep(&mut self, wanted: &[JobCost]) {
        let gone: Vec<JobCost> = self.costs.keys().filter(|cost| !wanted.contains(cost)).cloned().collect();
        for cost in gone {
            if let Some(places) = self.costs.remove(&cost) {
                give_back(places.due.into_iter().chain(places.booked.map(|(permit, _)| permit)).collect())
                    .await;
            }
        }
    }
}

async fn give_back(permits: Vec<Permit>) {
    for permit in permits {
        if let Err(error) = permit.give_back().await {
            tracing::warn!(%error, "a place at the vendor could not be given back");
        }
    }
}

/// Requests one place, now or soon.
async fn take(limiter: &Limiter, subject: &Subject, cost: &JobCost) -> Result<Taken<'static>, TakeError> {
    let amounts = cost.amounts();
    let mut policies = amounts.iter();
    let Some((first, units)) = policies.next() else {
        return Err(TakeError::UnknownPolicy { name: String::new(), meant: None });
    };
    let mut take = limiter.take(first).subject(subject.as_str());
    for (unit, amount) in units {
        take = take.cost(unit, *amount);
    }
    for (policy, units) in policies {
        take = take.and(policy).subject(subject.as_str());
        for (unit, amount) in units {
            take = take.cost(unit, *amount);
        }
    }
    take.max_wait(BOOK_AHEAD_SECONDS.seconds()).book().await
}

/// When to repeat a denied take.
fn wait_of(denied: &Denied, now: Timestamp) -> Wait {
    let fits_at = now.plus(denied.decision().wait());
    let slots =
        denied.limit().is_some_and(|limit| matches!(limit.algorithm(), Algorithm::Concurrency { .. }));
    let recheck = if slots { RECHECK_SLOTS_AFTER } else { RECHECK_AFTER };
    // A denial for no time at all must not become a busy loop.
    let again_at = fits_at.max(now.plus(Span::from_millis(1))).min(now.plus(recheck));
    Wait { again_at, fits_at, slots }
}

/// Whether a take with this error can never be granted, whatever the time.
pub(super) fn is_hopeless(error: &TakeError) -> bool {
    matches!(
        error,
        TakeError::UnknownPolicy { .. } | TakeError::Name(_) | TakeError::Cost(_) | TakeError::Refused(_)
    )
}
