//! A question as the limiter understands it: which descriptors count, under which policies, for whom and how much.

use std::rc::Rc;

use smallvec::SmallVec;
use tollway::DescriptorTarget;
use tollway::core::REQUESTS;
use tollway_inbound::headers::{Shown, most_telling};

use super::Grpc;
use super::callers::{CallerRule, Whose};
use super::lookup::Node;
use super::message::{RateLimitDescriptor, RateLimitRequest};
use super::refusal::Refusal;
use super::status::{Code, Failure};
use super::subject;
use crate::bounds::{DESCRIPTORS_MAX, ENTRIES_PER_DESCRIPTOR_MAX};
use crate::known::Known;
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

/// What is counted under one policy for one subject.
pub(super) struct Count {
    pub(super) known: Rc<Known>,
    pub(super) subject: String,
    /// By unit; none named: requests. All zero: it is only looked at.
    pub(super) hits: SmallVec<[(Option<String>, u64); 1]>,
    /// Of which callers, where those are told what `/v1/authorize` tells them.
    pub(super) whose: Option<Whose>,
}

impl Count {
    pub(super) fn new(known: Rc<Known>, subject: String, unit: Option<String>, hits: u64) -> Self {
        Self { known, subject, hits: SmallVec::from_iter([(unit, hits)]), whose: None }
    }

    /// Whether both count in one place. A consumer's policy is made for each call.
    fn is_same(&self, other: &Self) -> bool {
        let both_consumers = [self.whose, other.whose] == [Some(Whose::Consumer); 2];
        (both_consumers || Rc::ptr_eq(&self.known, &other.known)) && self.subject == other.subject
    }

    /// Whether it is only looked at.
    pub(super) fn is_look(&self) -> bool {
        self.hits.iter().all(|(_, hits)| *hits == 0)
    }

    /// The cost, where it is not just one request.
    pub(super) fn cost(&self) -> SmallVec<[(&str, u64); 2]> {
        match self.hits.as_slice() {
            [(None, 1)] => SmallVec::new(),
            hits => hits.iter().map(|(unit, hits)| (unit.as_deref().unwrap_or(REQUESTS), *hits)).collect(),
        }
    }

    /// The one of its limits that is told of: the scarcest, and to callers the one that they know from their headers (C5).
    pub(super) fn most<'s, 'a>(&self, shown: &'s [Shown<'a>]) -> Option<&'s Shown<'a>> {
        match self.whose {
            Some(_) => most_telling(shown),
            None => shown.iter().min_by_key(|one| (!one.refuses, one.reading.remaining)),
        }
    }

    /// Whether it only watches.
    pub(super) fn is_shadow(&self) -> bool {
        self.known.policy.shadow()
    }

    /// Whether more is asked than one of its limits could ever grant.
    pub(super) fn is_above_limit(&self) -> bool {
        let above = |(unit, hits): (&str, u64)| {
            let limits = self.known.policy.limits().iter().filter(|limit| limit.unit().as_str() == unit);
            limits.into_iter().any(|limit| hits > limit.capacity())
        };
        self.cost().into_iter().any(above)
    }
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
            let counted = &mut self.counts[index].hits;
            for (unit, hits) in count.hits {
                match counted.iter_mut().find(|(known, _)| *known == unit) {
                    Some((_, counted)) => *counted = counted.saturating_add(hits),
                    None => counted.push((unit, hits)),
                }
            }
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
