//! The takes that an account remembers by their callers' ids, so that a repeated one counts once.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounds::CALL_IDS_MAX;
use crate::{CallId, PermitId, Timestamp};

/// So many ids are compared one by one. More are found by their hashes.
const FEW: usize = 4;

/// A take that was granted under a caller's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedCall {
    /// The caller's id.
    pub id: CallId,
    /// A hash of the charges, to detect the same id with other charges.
    pub asked: u64,
    /// The grant.
    pub grant: RememberedGrant,
    /// Until when the id is remembered.
    pub expires: Timestamp,
}

/// The grant of a take under a caller's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields of `Booking` and `Decision` of the same names")]
pub struct RememberedGrant {
    pub permit: PermitId,
    pub granted_at: Timestamp,
    pub at: Timestamp,
    pub good_until: Timestamp,
    #[serde(default)]
    pub would_deny: u16,
}

/// The remembered takes of an account. A take with an id costs the same however many there are.
///
/// They are in the order of their grants. That is also the order of their expiry, because an account's time never goes back.
#[derive(Clone, Debug, Default)]
pub struct RememberedCalls {
    calls: VecDeque<RememberedCall>,
    /// The number of the first of `calls`; each has the number after that of the one before it.
    first_number: u32,
    /// The numbers of all calls, by the hashes of their ids; empty while there are few.
    index: HashTable<u32>,
}

impl RememberedCalls {
    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// All of them, in the order of their grants.
    pub fn iter(&self) -> impl Iterator<Item = &RememberedCall> {
        self.calls.iter()
    }

    /// When the last one expires.
    pub(crate) fn last_expires(&self) -> Timestamp {
        self.calls.back().map_or(Timestamp::EPOCH, |call| call.expires)
    }

    /// The grant under this id, if it is still remembered.
    pub(crate) fn find(&self, id: &CallId, now: Timestamp) -> Option<&RememberedCall> {
        let found = if self.index.is_empty() {
            self.calls.iter().find(|call| call.id == *id)
        } else {
            let has_id = |number: &u32| self.numbered(*number).is_some_and(|call| call.id == *id);
            self.index.find(hash(id), has_id).and_then(|number| self.numbered(*number))
        };
        found.filter(|call| call.expires > now)
    }

    /// Whether one more can be remembered.
    pub(crate) fn has_room(&self, now: Timestamp) -> bool {
        self.calls.len() < CALL_IDS_MAX || self.calls.front().is_some_and(|call| call.expires <= now)
    }

    /// Remembers a take, and forgets those that have expired.
    pub(crate) fn remember(&mut self, call: RememberedCall, now: Timestamp) {
        while self.calls.front().is_some_and(|first| first.expires <= now) {
            self.forget_first();
        }
        let number = self.first_number.wrapping_add(self.calls.len() as u32);
        let hash_of_id = if self.index.is_empty() { None } else { Some(hash(&call.id)) };
        self.calls.push_back(call);
        let Self { calls, first_number, index } = self;
        match hash_of_id {
            Some(hash_of_id) => {
                let hash_of = |number: &u32| hash_of_number(calls, *first_number, *number);
                index.insert_unique(hash_of_id, number, hash_of);
            }
            None if calls.len() > FEW => self.make_index(),
            None => {}
        }
    }

    /// Forgets the take of this permit.
    pub(crate) fn forget(&mut self, permit: PermitId) {
        let before = self.calls.len();
        self.calls.retain(|call| call.grant.permit != permit);
        if self.calls.len() < before && !self.index.is_empty() {
            self.make_index();
        }
    }

    fn forget_first(&mut self) {
        let number = self.first_number;
        let Some(first) = self.calls.pop_front() else { return };
        self.first_number = number.wrapping_add(1);
        if !self.index.is_empty()
            && let Ok(entry) = self.index.find_entry(hash(&first.id), |other| *other == number)
        {
            entry.remove();
        }
    }

    fn make_index(&mut self) {
        let Self { calls, first_number, index } = self;
        let hash_of = |number: &u32| hash_of_number(calls, *first_number, *number);
        index.clear();
        // Room to grow: where there are more than a few, many more follow.
        index.reserve(calls.len().saturating_mul(4), hash_of);
        let mut number = *first_number;
        for call in &*calls {
            index.insert_unique(hash(&call.id), number, hash_of);
            number = number.wrapping_add(1);
        }
    }

    fn numbered(&self, number: u32) -> Option<&RememberedCall> {
        self.calls.get(number.wrapping_sub(self.first_number) as usize)
    }
}

/// Callers choose ids: at worst an account's 1,024 have one hash and are compared one by one.
fn hash(id: &CallId) -> u64 {
    FixedState::default().hash_one(id.as_str())
}

fn hash_of_number(calls: &VecDeque<RememberedCall>, first_number: u32, number: u32) -> u64 {
    calls.get(number.wrapping_sub(first_number) as usize).map_or(0, |call| hash(&call.id))
}

impl FromIterator<RememberedCall> for RememberedCalls {
    fn from_iter<I: IntoIterator<Item = RememberedCall>>(calls: I) -> Self {
        let mut calls: VecDeque<RememberedCall> = calls.into_iter().collect();
        calls.make_contiguous().sort_by_key(|call| call.expires);
        let mut made = Self { calls, ..Self::default() };
        if made.calls.len() > FEW {
            made.make_index();
        }
        made
    }
}

impl PartialEq for RememberedCalls {
    fn eq(&self, other: &Self) -> bool {
        self.calls == other.calls
    }
}

impl Eq for RememberedCalls {}

impl Serialize for RememberedCalls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.calls.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RememberedCalls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<RememberedCall>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(number: u32, at: u64) -> RememberedCall {
        let (granted_at, expires) = (Timestamp::from_secs(at), Timestamp::from_secs(at + 10));
        let permit = PermitId(number.into());
        let grant =
            RememberedGrant { permit, granted_at, at: granted_at, good_until: granted_at, would_deny: 0 };
        RememberedCall { id: id(number), asked: 0, grant, expires }
    }

    fn id(number: u32) -> CallId {
        CallId::new(&format!("call-{number}")).unwrap()
    }

    proptest! {
        /// The same as a plain list: what is found, in which order they are, and whether there is room.
        #[test]
        fn calls_are_found_as_in_a_list(
            steps in proptest::collection::vec((0..40u32, 0..4u64, any::<bool>()), 1..200),
            first_number in prop_oneof![Just(0), Just(u32::MAX - 20)],
        ) {
            let mut calls = RememberedCalls { first_number, ..RememberedCalls::default() };
            let mut list: Vec<RememberedCall> = Vec::new();
            let mut now = 0;
            for (number, seconds, forgets) in steps {
                now += seconds;
                let time = Timestamp::from_secs(now);
                let known = list.iter().find(|call| call.id == id(number) && call.expires > time);
                prop_assert_eq!(calls.find(&id(number), time), known);
                if forgets {
                    calls.forget(PermitId(number.into()));
                    list.retain(|call| call.grant.permit != PermitId(number.into()));
                } else if known.is_none() {
                    calls.remember(call(number, now), time);
                    list.retain(|call| call.expires > time);
                    list.push(call(number, now));
                }
                prop_assert!(calls.iter().eq(&list));
                prop_assert_eq!(calls.last_expires(), list.iter().map(|call| call.expires).max().unwrap_or(Timestamp::EPOCH));
                let again: RememberedCalls = list.iter().cloned().collect();
                prop_assert!(again == calls && again.find(&id(number), time) == calls.find(&id(number), time));
            }
        }
    }

    #[test]
    fn there_is_room_again_when_the_first_has_expired() {
        let mut calls = RememberedCalls::default();
        for number in 0..CALL_IDS_MAX as u32 {
            assert!(calls.has_room(Timestamp::from_secs(5)));
            calls.remember(call(number, u64::from(number > 0)), Timestamp::from_secs(5));
        }
        assert!(!calls.has_room(Timestamp::from_millis(9_999)));
        assert!(calls.has_room(Timestamp::from_secs(10)));
    }
}
