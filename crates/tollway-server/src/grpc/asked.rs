//! A question as the limiter understands it: which descriptors count, under which policies, for whom and how much.

use smallvec::SmallVec;

use super::Grpc;
use super::callers::{CallerRule, Whose};
use super::count::Count;
use super::lookup::Node;
use super::message::{RateLimitDescriptor, RateLimitRequest};
use super::refusal::Refusal;
use super::status::{Code, Failure};
use super::subject;
use crate::DescriptorTarget;
use crate::bounds::{DESCRIPTORS_MAX, ENTRIES_PER_DESCRIPTOR_MAX};
use crate::worker::Worker;

/// What is asked.
pub(super) struct Asked {
    /// One for each descriptor, in their order.
    pub(super) places: SmallVec<[Place; 4]>,
    /// No two have the same policy and subject.
    pub(super) counts: SmallVec<[Count; 4]>,
    /// What is said to a caller who is refused before anything is counted.
    pub(super) refusal: Option<Refusal>,
}

/// What a descriptor comes to.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// It is let through.
    Unlimited,
    /// It is never let through.
    Blocked,
    /// It is counted, as this one of the counts.
    Counted(usize),
}

impl Asked {
    pub(super) async fn new(worker: &Worker, request: &RateLimitRequest) -> Result<Self, Failure> {
        check(request)?;
        let rules = worker.shared.rules();
        // Like Envoy's own service: whoever speaks of a domain that nobody has configured is let through.
        let domain = rules.descriptors.domain(&request.domain);
        let mut asked = Self { places: SmallVec::new(), counts: SmallVec::new(), refusal: None };
        for descriptor in &request.descriptors {
            let place = match domain {
                None => Place::Unlimited,
                Some(domain) => asked.place(worker, request, domain, descriptor).await?,
            };
            asked.places.push(place);
        }
        for place in &mut asked.places {
            // What can never be granted is over its limit, not a mistake: a call that fails might be let through.
            if let Place::Counted(index) = place
                && asked.counts.get(*index).is_some_and(|count| !count.is_shadow() && count.is_above_limit())
            {
                *place = Place::Blocked;
            }
        }
        Ok(asked)
    }

    async fn place(
        &mut self,
        worker: &Worker,
        request: &RateLimitRequest,
        domain: &Node,
        descriptor: &RateLimitDescriptor,
    ) -> Result<Place, Failure> {
        let hits = descriptor.hits_addend.unwrap_or_else(|| request.hits_addend.max(1).into());
        let entries = &descriptor.entries;
        if let Some(limit) = descriptor.limit {
            if limit.requests_per_unit == 0 {
                return Ok(Place::Blocked);
            }
            let Grpc { chosen, .. } = &worker.grpc;
            let known = chosen.find(&worker.shared, limit)?;
            let subject = subject::of_descriptor(&request.domain, entries);
            return Ok(self.count(Count::new(known, subject, None, hits)));
        }
        Ok(match domain.find(entries) {
            None | Some(DescriptorTarget::Unlimited) => Place::Unlimited,
            Some(DescriptorTarget::Blocked) => Place::Blocked,
            Some(DescriptorTarget::Policy { policy, subject, unit }) => {
                if let Some(whose) = Whose::of(policy)
                    && let Some(consumers) = worker.shared.consumers()
                {
                    let rule = CallerRule { whose, subject, unit: unit.as_deref() };
                    return Box::pin(self.caller(worker, &consumers, rule, entries, hits)).await;
                }
                let known = worker.policies.find(&worker.shared, policy)?;
                self.count(Count::new(known, subject::of_template(subject, entries), unit.clone(), hits))
            }
        })
    }

    /// Two descriptors may count in one place; then both count.
    pub(super) fn count(&mut self, count: Count) -> Place {
        if let Some(index) = self.counts.iter().position(|known| known.is_same(&count)) {
            self.counts[index].join(count);
            return Place::Counted(index);
        }
        self.counts.push(count);
        Place::Counted(self.counts.len() - 1)
    }

    /// Whether a descriptor is never let through.
    pub(super) fn is_blocked(&self) -> bool {
        self.places.iter().any(|place| matches!(place, Place::Blocked))
    }
}

pub(super) fn check(request: &RateLimitRequest) -> Result<(), Failure> {
    let bad = |message: String| Err(Failure::new(Code::InvalidArgument, message));
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
            // Nothing says what was taken before, and for whom it may be given back.
            let message =
                "is_negative_hits is not understood: give back with the permit of a take (/v1/return)";
            return Err(Failure::new(Code::Unimplemented, message));
        }
    }
    Ok(())
}
