//! What is counted for a question: so many hits under one policy for one subject.

use std::rc::Rc;

use smallvec::SmallVec;
use tollway::Limit;
use tollway::core::REQUESTS;
use tollway_inbound::headers::{Shown, most_telling};

use super::callers::Whose;
use crate::known::Known;

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
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let both_consumers = [self.whose, other.whose] == [Some(Whose::Consumer); 2];
        let same_policy = || self.known.policy.name() == other.known.policy.name();
        (both_consumers || same_policy()) && self.subject == other.subject
    }

    /// Adds what counts in the same place. If the two have brought limits of their own, the stricter is in force.
    pub(super) fn join(&mut self, other: Self) {
        for (unit, hits) in other.hits {
            match self.hits.iter_mut().find(|(known, _)| *known == unit) {
                Some((_, counted)) => *counted = counted.saturating_add(hits),
                None => self.hits.push((unit, hits)),
            }
        }
        let capacity = |known: &Known| known.policy.limits().iter().map(Limit::capacity).min();
        if capacity(&other.known) < capacity(&self.known) {
            self.known = other.known;
        }
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
