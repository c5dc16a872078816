//! Resolves a request into charges: which descriptors count, under which policies, for which subjects and how much.

use std::rc::Rc;

use smallvec::SmallVec;
use tollway::Limit;
use tollway::core::REQUESTS;
use tollway_inbound::headers::{CallerKind, LimitStatus, most_restrictive};
use tollway_inbound::{ANONYMOUS_POLICY, Admission, CountedCharge};

use super::answer::RefusalBody;
use super::descriptors::{self, RuleNode};
use super::message::{RateLimitDescriptor, RateLimitRequest};
use super::service::{Failure, StatusCode};
use crate::DescriptorTarget;
use crate::bounds::{DESCRIPTORS_MAX, ENTRIES_PER_DESCRIPTOR_MAX};
use crate::known_policies::KnownPolicy;
use crate::worker::Worker;

/// A request whose descriptors are resolved.
pub(crate) struct ResolvedRequest {
    /// One for each descriptor, in their order; a counted one by its index in `counts`.
    pub(super) admissions: SmallVec<[Admission<usize>; 4]>,
    /// No two have the same policy and subject.
    pub(super) counts: SmallVec<[Count; 4]>,
    /// The body for a caller that is refused before anything is counted.
    pub(crate) refusal: Option<RefusalBody>,
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
                #[cfg(feature = "consumers")]
                if [tollway_inbound::CONSUMERS_POLICY, ANONYMOUS_POLICY].contains(&policy.as_str())
                    && let Some(consumers) = worker.state.consumers()
                {
                    let (text, unit) = (descriptors::written(subject, entries), unit.as_deref());
                    return Box::pin(self.admit_caller(worker, &consumers, policy, text, unit, hits)).await;
                }
                let known = worker.policies.find(&worker.state, policy)?;
                let subject = descriptors::subject_of_template(subject, entries);
                self.count(Count::new(known, subject, unit.clone(), hits))
            }
        })
    }

    /// Adds a count. If two descriptors count in the same account, their hits add up.
    pub(crate) fn count(&mut self, count: Count) -> Admission<usize> {
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
        return bad(format!("{} descriptors; 1 to {DESCRIPTORS_MAX} are allowed", descriptors.len()));
    }
    for RateLimitDescriptor { entries, is_negative_hits, .. } in descriptors {
        if entries.is_empty() || entries.len() > ENTRIES_PER_DESCRIPTOR_MAX {
            let count = entries.len();
            return bad(format!(
                "a descriptor has {count} entries; 1 to {ENTRIES_PER_DESCRIPTOR_MAX} are allowed"
            ));
        }
        if *is_negative_hits {
            // The request does not name the take to return.
            let message =
                "is_negative_hits is not supported; return the permit of a take instead (/v1/return)";
            return Err(Failure::new(StatusCode::Unimplemented, message));
        }
    }
    Ok(())
}

/// Hits under one policy for one subject.
pub(crate) struct Count {
    pub(super) known: Rc<KnownPolicy>,
    pub(super) subject: String,
    /// By unit; `None` is requests. All zero: only read, not taken.
    pub(super) hits: SmallVec<[(Option<String>, u64); 1]>,
    /// Whether the caller gets the same answer as from `/v1/authorize`.
    pub(crate) of_caller: bool,
}

impl Count {
    pub(crate) fn new(known: Rc<KnownPolicy>, subject: String, unit: Option<String>, hits: u64) -> Self {
        Self { known, subject, hits: SmallVec::from_iter([(unit, hits)]), of_caller: false }
    }

    /// Whether both count in the same account. Compares names, because all policies of consumers have the same one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.known.policy.name() == other.known.policy.name() && self.subject == other.subject
    }

    /// How its limits know the caller.
    pub(super) fn caller_kind(&self) -> CallerKind {
        match self.known.policy.name().as_str() {
            _ if !self.of_caller => CallerKind::Subject,
            ANONYMOUS_POLICY => CallerKind::Anonymous,
            _ => CallerKind::Consumer,
        }
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

    /// The cost; empty means one request.
    pub(super) fn cost(&self) -> SmallVec<[(&str, u64); 2]> {
        match self.hits.as_slice() {
            [(None, 1)] => SmallVec::new(),
            hits => hits.iter().map(|(unit, hits)| (unit.as_deref().unwrap_or(REQUESTS), *hits)).collect(),
        }
    }

    /// The limit that the status shows: the scarcest, or for callers the one that their headers show.
    pub(super) fn most<'s, 'a>(&self, shown: &'s [LimitStatus<'a>]) -> Option<&'s LimitStatus<'a>> {
        if self.of_caller {
            return most_restrictive(shown);
        }
        shown.iter().min_by_key(|one| (!one.refuses, one.reading.remaining))
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
