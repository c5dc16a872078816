//! From a request to what it takes: which descriptors count, under which policies, for which subjects and how much.
//!
//! Descriptors of consumers and of anonymous clients are answered as `/v1/authorize` would answer: a call that fails is let
//! through, with all its other descriptors, by a proxy that fails open.

use std::rc::Rc;

use smallvec::SmallVec;
use tollway::Limit;
use tollway::core::REQUESTS;
use tollway_consumers::{ANONYMOUS_POLICY, CONSUMERS_POLICY, RecordsFault};
use tollway_inbound::headers::{LimitStatus, most_restrictive};
use tollway_inbound::{Admission, CountedCharge};

use super::answer::RefusalBody;
use super::descriptors::{self, RuleNode};
use super::message::{Entry, RateLimitDescriptor, RateLimitRequest};
use super::service::{Failure, StatusCode};
use crate::bounds::{DESCRIPTORS_MAX, ENTRIES_PER_DESCRIPTOR_MAX};
use crate::consumers::Consumers;
use crate::http::Problem;
use crate::known_policies::KnownPolicy;
use crate::worker::Worker;
use crate::{DescriptorTarget, SubjectTemplate};

/// A request whose descriptors are resolved.
pub(super) struct ResolvedRequest {
    /// One for each descriptor, in their order; a counted one by its index in `counts`.
    pub(super) admissions: SmallVec<[Admission<usize>; 4]>,
    /// No two have the same policy and subject.
    pub(super) counts: SmallVec<[Count; 4]>,
    /// The body for a caller that is refused before anything is counted.
    pub(super) refusal: Option<RefusalBody>,
}

impl ResolvedRequest {
    pub(super) async fn new(worker: &Worker, request: &RateLimitRequest) -> Result<Self, Failure> {
        check(request)?;
        let rules = worker.state.rules();
        // Like Envoy's own service: a domain that is not configured is not limited.
        let domain = rules.descriptors.domain(&request.domain);
        let mut resolved = Self { admissions: SmallVec::new(), counts: SmallVec::new(), refusal: None };
        for descriptor in &request.descriptors {
            let admission = match domain {
                None => Admission::Free,
                Some(domain) => resolved.admit(worker, request, domain, descriptor).await?,
            };
            resolved.admissions.push(admission);
        }
        for admission in &mut resolved.admissions {
            // A cost that can never be granted is over its limit, not an error: a proxy may let a failed call through.
            if let Admission::Counted(index) = admission
                && resolved
                    .counts
                    .get(*index)
                    .is_some_and(|count| !count.is_shadow() && count.is_above_limit())
            {
                *admission = Admission::Blocked;
            }
        }
        Ok(resolved)
    }

    async fn admit(
        &mut self,
        worker: &Worker,
        request: &RateLimitRequest,
        domain: &RuleNode,
        descriptor: &RateLimitDescriptor,
    ) -> Result<Admission<usize>, Failure> {
        let hits = descriptor.hits_addend.unwrap_or_else(|| request.hits_addend.max(1).into());
        let entries = &descriptor.entries;
        if let Some(limit) = descriptor.limit {
            if limit.requests_per_unit == 0 {
                return Ok(Admission::Blocked);
            }
            let known = worker.grpc.override_limits.find(&worker.state, limit)?;
            let subject = descriptors::subject_of_descriptor(&request.domain, entries);
            return Ok(self.count(Count::new(known, subject, None, hits)));
        }
        Ok(match domain.find(entries) {
            None | Some(DescriptorTarget::Unlimited) => Admission::Free,
            Some(DescriptorTarget::Blocked) => Admission::Blocked,
            Some(DescriptorTarget::Policy { policy, subject, unit }) => {
                if let Some(caller_kind) = CallerKind::of(policy)
                    && let Some(consumers) = worker.state.consumers()
                {
                    let rule = CallerRule { caller_kind, subject, unit: unit.as_deref() };
                    return Box::pin(self.admit_caller(worker, &consumers, rule, entries, hits)).await;
                }
                let known = worker.policies.find(&worker.state, policy)?;
                let subject = descriptors::subject_of_template(subject, entries);
                self.count(Count::new(known, subject, unit.clone(), hits))
            }
        })
    }

    /// Two descriptors may count in the same account; then their hits add up.
    pub(super) fn count(&mut self, count: Count) -> Admission<usize> {
        if let Some(index) = self.counts.iter().position(|known| known.is_same(&count)) {
            self.counts[index].join(count);
            return Admission::Counted(index);
        }
        self.counts.push(count);
        Admission::Counted(self.counts.len() - 1)
    }

    /// Whether a descriptor is blocked.
    pub(super) fn is_blocked(&self) -> bool {
        self.admissions.iter().any(|admission| matches!(admission, Admission::Blocked))
    }
}

pub(super) fn check(request: &RateLimitRequest) -> Result<(), Failure> {
    let bad = |message: String| Err(Failure::new(StatusCode::InvalidArgument, message));
    let descriptors = &request.descriptors;
    if request.domain.is_empty() {
        return bad("the domain is empty".to_owned());
    }
    if descriptors.is_empty() || descriptors.len() > DESCRIPTORS_MAX {
        return bad(format!("{} descriptors; there may be 1 to {DESCRIPTORS_MAX}", descriptors.len()));
    }
    for RateLimitDescriptor { entries, is_negative_hits, .. } in descriptors {
        if entries.is_empty() || entries.len() > ENTRIES_PER_DESCRIPTOR_MAX {
            let count = entries.len();
            return bad(format!(
                "a descriptor has {count} entries; it may have 1 to {ENTRIES_PER_DESCRIPTOR_MAX}"
            ));
        }
        if *is_negative_hits {
            // The request does not say which take to give back.
            let message =
                "is_negative_hits is not understood: give back with the permit of a take (/v1/return)";
            return Err(Failure::new(StatusCode::Unimplemented, message));
        }
    }
    Ok(())
}

/// Which callers a policy limits, if there are consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerKind {
    Consumer,
    Anonymous,
}

impl CallerKind {
    /// The callers that the policy of this name limits.
    pub(super) fn of(policy: &str) -> Option<Self> {
        match policy {
            CONSUMERS_POLICY => Some(Self::Consumer),
            ANONYMOUS_POLICY => Some(Self::Anonymous),
            _ => None,
        }
    }
}

/// A rule for descriptors of callers.
pub(super) struct CallerRule<'r> {
    pub(super) caller_kind: CallerKind,
    /// How they name their caller.
    pub(super) subject: &'r SubjectTemplate,
    /// The unit of hits; of consumers it is requests.
    pub(super) unit: Option<&'r str>,
}

impl ResolvedRequest {
    /// The admission of a descriptor of a caller.
    pub(super) async fn admit_caller(
        &mut self,
        worker: &Worker,
        consumers: &Consumers,
        rule: CallerRule<'_>,
        entries: &[Entry],
        hits: u64,
    ) -> Result<Admission<usize>, Failure> {
        if !consumers.gate.is_enabled() {
            return Ok(Admission::Free);
        }
        let CallerRule { caller_kind, subject, unit } = rule;
        let count = match caller_kind {
            CallerKind::Anonymous => match worker.policies.find(&worker.state, ANONYMOUS_POLICY) {
                Ok(known) => {
                    let subject = descriptors::subject_of_template(subject, entries);
                    Count::new(known, subject, unit.map(str::to_owned), hits)
                }
                // Without this policy, anonymous clients are not limited.
                Err(_) => return Ok(Admission::Free),
            },
            CallerKind::Consumer => {
                let consumer = match descriptors::consumer(subject, entries) {
                    Ok(consumer) => consumer,
                    Err(problem) => return Ok(self.refuse(&Problem::not_a_consumer(problem))),
                };
                match consumers.admission(&worker.state, &consumer).await {
                    Ok(Admission::Free) => return Ok(Admission::Free),
                    Ok(Admission::Blocked) => return Ok(self.refuse(&Problem::blocked())),
                    Ok(Admission::Counted(known)) => Count::new(known, consumer.to_string(), None, hits),
                    // A flood of consumer names must not get through.
                    Err(error) if error.fault == RecordsFault::Busy => {
                        return Ok(self.refuse(&Problem::of_records(&error)));
                    }
                    Err(error) => return Err(Failure::new(StatusCode::Unavailable, error.to_string())),
                }
            }
        };
        Ok(self.count(Count { caller_kind: Some(caller_kind), ..count }))
    }

    fn refuse(&mut self, problem: &Problem) -> Admission<usize> {
        self.refusal.get_or_insert_with(|| RefusalBody::of_problem(problem));
        Admission::Blocked
    }
}

/// Hits under one policy for one subject.
pub(super) struct Count {
    pub(super) known: Rc<KnownPolicy>,
    pub(super) subject: String,
    /// By unit; `None` is requests. All zero: only read, not taken.
    pub(super) hits: SmallVec<[(Option<String>, u64); 1]>,
    /// Set if the caller gets the same answer as from `/v1/authorize`.
    pub(super) caller_kind: Option<CallerKind>,
}

impl Count {
    pub(super) fn new(known: Rc<KnownPolicy>, subject: String, unit: Option<String>, hits: u64) -> Self {
        Self { known, subject, hits: SmallVec::from_iter([(unit, hits)]), caller_kind: None }
    }

    /// Whether both count in the same account. A consumer's policy is made for each call.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let both_consumers = [self.caller_kind, other.caller_kind] == [Some(CallerKind::Consumer); 2];
        let same_policy = || self.known.policy.name() == other.known.policy.name();
        (both_consumers || same_policy()) && self.subject == other.subject
    }

    /// Adds the hits of another count of the same account. Of two override limits the stricter is in force.
    pub(super) fn join(&mut self, other: Self) {
        for (unit, hits) in other.hits {
            match self.hits.iter_mut().find(|(known, _)| *known == unit) {
                Some((_, counted)) => *counted = counted.saturating_add(hits),
                None => self.hits.push((unit, hits)),
            }
        }
        let capacity = |known: &KnownPolicy| known.policy.limits().iter().map(Limit::capacity).min();
        if capacity(&other.known) < capacity(&self.known) {
            self.known = other.known;
        }
    }

    /// Whether it only reads the usage.
    pub(super) fn is_read_only(&self) -> bool {
        self.hits.iter().all(|(_, hits)| *hits == 0)
    }

    /// The cost, where it is not just one request.
    pub(super) fn cost(&self) -> SmallVec<[(&str, u64); 2]> {
        match self.hits.as_slice() {
            [(None, 1)] => SmallVec::new(),
            hits => hits.iter().map(|(unit, hits)| (unit.as_deref().unwrap_or(REQUESTS), *hits)).collect(),
        }
    }

    /// The limit that the status shows: the scarcest, or for callers the one that their headers show.
    pub(super) fn most<'s, 'a>(&self, shown: &'s [LimitStatus<'a>]) -> Option<&'s LimitStatus<'a>> {
        match self.caller_kind {
            Some(_) => most_restrictive(shown),
            None => shown.iter().min_by_key(|one| (!one.refuses, one.reading.remaining)),
        }
    }

    /// Its charge.
    pub(super) fn charge(&self) -> CountedCharge<'_> {
        self.known.charge(&self.subject, self.cost())
    }

    /// Whether its policy is a shadow.
    pub(super) fn is_shadow(&self) -> bool {
        self.known.policy.shadow()
    }

    /// Whether the hits are more than one of its limits could ever grant.
    pub(super) fn is_above_limit(&self) -> bool {
        let above = |(unit, hits): (&str, u64)| {
            let limits = self.known.policy.limits().iter().filter(|limit| limit.unit().as_str() == unit);
            limits.into_iter().any(|limit| hits > limit.capacity())
        };
        self.cost().into_iter().any(above)
    }
}
