//! Which account subjects share that have none of their own and get none: 1,024 for each policy.
//!
//! Such an account is made even in a full server, since there are few: with a kilobyte each, the largest that an account
//! of a few limits is, a megabyte for each policy. On a Cluster a take is decided in one step only where its keys are in
//! one slot, so there each slot has its own.

use std::sync::LazyLock;

use tollway_core::{Fingerprint, Policy, Span, Subject};

use crate::cluster::slot::{SLOTS, of_tag};
use crate::keys::Keys;

/// How many accounts the subjects without one share, for each policy. As in memory.
pub(crate) const SHARED_ACCOUNTS: u32 = 1_024;

/// Of which slot the shared account must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slots {
    /// One server, or keys that all lie in one slot.
    One,
    /// The slot of the subject, on a Cluster.
    OfSubject,
}

/// The number of the account that this subject shares: the same in every process.
pub(crate) fn number(subject: &Subject, slots: Slots) -> u32 {
    match slots {
        Slots::One => Fingerprint::new().text(subject.as_str()).half() % SHARED_ACCOUNTS,
        Slots::OfSubject => {
            let slot = of_tag(Keys::tag(subject).as_bytes());
            NUMBER_IN_SLOT.get(usize::from(slot)).copied().unwrap_or_default()
        }
    }
}

/// How long what an account of this policy holds can matter.
pub(crate) fn lifetime(policy: &Policy) -> Span {
    policy.limits().iter().map(|limit| limit.longest_memory()).max().unwrap_or_default()
}

/// For each slot, the first number whose tag is in it.
static NUMBER_IN_SLOT: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let (mut numbers, mut missing) = (vec![None; usize::from(SLOTS)], SLOTS);
    // Each slot is met within 300,000 numbers.
    for number in 0..u32::MAX {
        if let Some(first @ None) = numbers.get_mut(usize::from(of_tag(format!("o:{number}").as_bytes()))) {
            *first = Some(number);
            missing = missing.saturating_sub(1);
        }
        if missing == 0 {
            break;
        }
    }
    numbers.into_iter().map(Option::unwrap_or_default).collect()
});

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// On a Cluster a subject and the account that it shares are in one slot; elsewhere there are 1,024.
    #[test]
    fn shared_account_is_in_the_slot_of_its_subject() {
        let mut seen = std::collections::HashSet::new();
        for id in 0..20_000 {
            let subject = Subject::new(&format!("consumer {id}")).unwrap();
            let there = number(&subject, Slots::OfSubject);
            assert_eq!(of_tag(format!("o:{there}").as_bytes()), of_tag(Keys::tag(&subject).as_bytes()));
            seen.insert(number(&subject, Slots::One));
        }
        assert_eq!(seen.len(), SHARED_ACCOUNTS as usize);
    }
}
